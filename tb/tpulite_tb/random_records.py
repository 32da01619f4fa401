"""Random blocks of channel records."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import RecordForm
from tpulite.arch.numerics import Rounding

__all__ = ["RecordBlock", "draw_records"]


@dataclass(frozen=True)
class RecordBlock:
    """Where the records of an n-block lie in the CONSTANTS window, and the name of their rounding.

    Of a block that is not ``usable`` the last record has a rounding that the machine lacks.
    """

    offset: int
    form: RecordForm
    name: str
    usable: bool


def draw_records(rng: random.Random, config: Config) -> tuple[bytes, list[RecordBlock]]:
    """Draw both forms of a block for each rounding, for a mixture, and for each one that lacks.

    Returns
    -------
    tuple of bytes and list of RecordBlock
        What to write to the start of the CONSTANTS window, and what lies where.
    """
    size = config.array_size
    known = [Rounding[name.upper()] for name in config.roundings]
    # For each block the roundings of its records but the last, and of the last.
    wanted = [([rounding], [rounding], rounding.name.lower()) for rounding in known]
    wanted.append((known, known, "mixed"))
    wanted += [(known, [rounding], "bad") for rounding in Rounding if rounding not in known]
    image, blocks = b"", []
    for others, last, name in wanted:
        for form in RecordForm:
            blocks.append(RecordBlock(len(image), form, name, usable=name != "bad"))
            if form == RecordForm.FULL:
                image += b"".join(_draw_record(rng, others) for _ in range(size - 1))
            image += _draw_record(rng, last)
            if form == RecordForm.SHORT:
                image += rng.randbytes(max(0, size - RECORD_BYTES))
                biases = (rng.randrange(-(1 << 17), 1 << 17) for _ in range(size))
                image += b"".join(bias.to_bytes(4, "little", signed=True) for bias in biases)
            image += bytes(-len(image) % BEAT_BYTES)
    return image, blocks


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
        multiplier=rng.choice([multiplier] * 30 + [0]),
        shift=exponent - 24 if rounding == Rounding.FLOAT32 else exponent,
        rounding=rounding,
        zero_point=rng.choice([0, rng.randrange(-128, 128)]),
        low=low,
        high=high,
    )
    return word.to_bytes(RECORD_BYTES, "little")
