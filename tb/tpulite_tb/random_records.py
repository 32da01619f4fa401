"""Random blocks of constants: channel records, operands of VECTOR, and depthwise weight tiles."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, RECORD_BYTES, Config
from tpulite.arch.interleave import interleave
from tpulite.arch.isa import RAW_ROWS, WORDS_BYTES, Axis, Scaling
from tpulite.arch.numerics import Rounding

__all__ = ["Block", "BlockKind", "DepthwiseTaps", "draw_blocks"]


class BlockKind(StrEnum):
    """What lies in a block."""

    FULL = "full"  #: N channel records
    SHORT = "short"  #: a channel record, padded to whole rows, and N biases
    WORDS = "words"  #: words of differences and a channel record
    OPERANDS = "operands"  #: OPERANDS and a channel record, each padded to whole rows
    TILE = "tile"  #: a weight tile for depthwise mode


@dataclass(frozen=True)
class DepthwiseTaps:
    """What a depthwise CONV must look like for a tile to have weights only where taps are.

    ``outputs``, ``stride``, ``dilation`` and ``inner`` are outputs, stride, dilation and kernel
    size along the inner axis, ``outer`` is the kernel size along the outer one. ``axis`` and
    ``dilation`` are None if any will do.
    """

    outputs: int
    stride: int
    inner: int
    outer: int
    zero_point: int
    axis: Axis | None = None
    dilation: int | None = None

    def rows(self, config: Config) -> list[int]:
        """Return the rows of a tile that hold taps."""
        axis, dilation = self.axis or Axis.X, self.dilation or 1
        kernel = self.outer, self.inner
        way = interleave(axis, self.outputs, self.stride, dilation, kernel, config)
        rows = [way.row(o, i) for o in range(self.outer) for i in range(self.inner)]
        return [row for row in rows if row < config.array_size]


@dataclass(frozen=True)
class Block:
    """Where constants lie in the CONSTANTS window, how many rows they fill, and what they are.

    Of a block that is not ``usable`` the last record has a rounding that the machine lacks.
    ``name`` is that of its rounding.
    """

    offset: int
    rows: int
    kind: BlockKind
    name: str
    usable: bool = True
    taps: DepthwiseTaps | None = None


def draw_blocks(rng: random.Random, config: Config) -> tuple[bytes, list[Block]]:
    """Draw blocks of every kind: for each rounding, for a mixture, and for each one that lacks.

    Returns
    -------
    tuple of bytes and list of Block
        What to write to the start of the CONSTANTS window, and what lies where.
    """
    known = [Rounding[name.upper()] for name in config.roundings]
    # For each block the roundings of its records but the last, and of the last.
    wanted = [([rounding], [rounding], rounding.name.lower()) for rounding in known]
    wanted.append((known, known, "mixed"))
    wanted += [(known, [rounding], "bad") for rounding in Rounding if rounding not in known]
    image, blocks = b"", []

    def add(data: bytes, kind: BlockKind, name: str, taps: DepthwiseTaps | None = None) -> None:
        nonlocal image
        rows = len(data) // config.row_bytes
        blocks.append(Block(len(image), rows, kind, name, name != "bad", taps))
        image += data + bytes(-len(data) % BEAT_BYTES)

    size = config.array_size
    for others, last, name in wanted:
        full = b"".join(_draw_record(rng, others) for _ in range(size - 1))
        add(full + _draw_record(rng, last), BlockKind.FULL, name)
        biases = (rng.randrange(-(1 << 17), 1 << 17) for _ in range(size))
        short = _padded(rng, _draw_record(rng, last), size)
        short += b"".join(bias.to_bytes(RAW_ROWS, "little", signed=True) for bias in biases)
        add(short, BlockKind.SHORT, name)
        parts = (_draw_operands(rng), _draw_record(rng, last))
        add(b"".join(_padded(rng, part, size) for part in parts), BlockKind.OPERANDS, name)
        if config.has_softmax:
            words = rng.randbytes(WORDS_BYTES)
            add(words + _padded(rng, _draw_record(rng, last), size), BlockKind.WORDS, name)
    for _ in range(5):
        taps = _draw_taps(rng, size)
        if config.has_delay_lines:
            taps = _through_lines(rng, taps)
        add(_draw_tile(rng, taps, config), BlockKind.TILE, "weights", taps)
    return image, blocks


def _padded(rng: random.Random, data: bytes, size: int) -> bytes:
    return data + rng.randbytes(max(0, size - len(data)))


def _draw_record(rng: random.Random, roundings: Sequence[Rounding]) -> bytes:
    """Draw a channel record, mostly with results on both sides of saturation."""
    rounding = rng.choice(roundings)
    significant = 24 if rounding == Rounding.FLOAT32 else 31
    # Accumulators are of the order of 2**15, so this scales them to between 2**2 and 2**11.
    exponent = rng.randint(-13, -4) if rng.random() < 0.9 else rng.randint(-31, 15)
    multiplier = rng.randrange(1 << (significant - 1), 1 << significant)
    bounds = sorted([rng.randrange(-128, 128), rng.randrange(-128, 128)])
    low, high = rng.choice([(-128, 127), (-128, 127), (0, 127), tuple(bounds)])
    small, large = 1 << 15, 1 << 31
    word = isa.RECORD.pack(
        bias=rng.choice([0, rng.randrange(-small, small), rng.randrange(-large, large)]),
        multiplier=rng.choice([multiplier] * 20 + [1 << (significant - 1)] * 10 + [0]),
        shift=exponent - 24 if rounding == Rounding.FLOAT32 else exponent,
        rounding=rounding,
        zero_point=rng.choice([0, rng.randrange(-128, 128)]),
        low=low,
        high=high,
        gain=rng.choice([1, -128, rng.randrange(-small, small), -small, small - 1]),
    )
    return word.to_bytes(RECORD_BYTES, "little")


def _draw_operands(rng: random.Random) -> bytes:
    """Draw OPERANDS whose sums are mostly of the order of 2**10 to 2**20."""
    scaling = rng.choice(list(Scaling))
    # TFLITE multiplies x by 2**20 first; EXACT by all of the multiplier.
    small = scaling == Scaling.EXACT and rng.random() < 0.8
    values = {}
    for name in ("a", "b"):
        values[f"{name}_zero_point"] = rng.choice([0, -128, 127, rng.randrange(-128, 128)])
        limit = 1 << 13 if small else 1 << 31
        values[f"{name}_multiplier"] = rng.choice([rng.randrange(limit), limit >> 1])
        values[f"{name}_shift"] = rng.choice([rng.randrange(12), rng.randrange(32)])
    return isa.OPERANDS.pack(scaling=scaling, **values).to_bytes(RECORD_BYTES, "little")


def _draw_taps(rng: random.Random, size: int) -> DepthwiseTaps:
    inner, outer = rng.choice([(3, 3), (3, 3), (5, 2), (1, 1), (rng.randint(1, 5), 1), (2, 4)])
    return DepthwiseTaps(
        outputs=rng.choice([1, 2, rng.randint(1, 6), rng.randint(1, 2 * size)]),
        stride=rng.choice([1, 1, 2, 3]),
        inner=inner,
        outer=outer,
        zero_point=rng.choice([0, rng.randrange(-128, 128)]),
    )


def _through_lines(rng: random.Random, taps: DepthwiseTaps) -> DepthwiseTaps:
    """Return taps of a machine with pairs of vectors: often such that go through delay lines."""
    axis, dilation = rng.choice(list(Axis)), rng.choice([1, 1, 1, 2])
    if rng.random() < 0.6:
        outputs, stride = rng.randint(6, 34), rng.choice([1, 2, 2, 2])
        inner = rng.choice([3, 3, 5])
        if inner == 5:
            stride = rng.choice([1, 1, 2])
        taps = replace(taps, outputs=outputs, stride=stride, inner=inner, outer=3)
    return replace(taps, axis=axis, dilation=dilation)


def _draw_tile(rng: random.Random, taps: DepthwiseTaps, config: Config) -> bytes:
    size = config.array_size
    rows, empty = taps.rows(config), bytes([taps.zero_point & 0xFF]) * size
    return b"".join(rng.randbytes(size) if row in rows else empty for row in range(size))
