"""Tiles of depthwise convolutions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.interleave import PAIR
from tpulite.arch.isa import CONV, Axis, Drain, RecordForm
from tpulite.arch.timing import drain_interval, row_cycles
from tpulite.compiler.geometry.axis import Axis1D, Number, both, ceil_div, least, most, pick
from tpulite.compiler.plan.conv_cost import CONV_CYCLES
from tpulite.compiler.plan.depthwise_plan import DepthwisePlan, even_parts
from tpulite.compiler.plan.ring import TRANSFER_OVERHEAD, ring_cycles
from tpulite.compiler.plan.slabs import Room, Strategy, WindowedRows, slab_modes, unmet


@dataclass(frozen=True)
class Taps:
    """Parts of the kernel; a command multiplies one of them. All arrays have one length."""

    #: Kernel rows and columns: the first one, and how many. They are a step apart.
    row: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    columns: np.ndarray

    @cached_property
    def table(self) -> np.ndarray:
        """All arrays, as rows in the order of the parameters."""
        return np.array([self.row, self.rows, self.column, self.columns])

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Pattern:
    """One way to use the array: rows, or columns, of the input are interleaved."""

    plan: DepthwisePlan  #: The way.
    taps: Taps  #: Parts of the kernel.
    #: Where its tiles begin in the constants. Of each block there are the tiles of all numbers of
    #: outputs along the inner axis, from one on; or of one number alone, if they are the same.
    #: Those of all that go through delay lines are one, the last.
    offset: int
    few: int  #: Most outputs of a command along that axis that go through no delay lines.
    many: int  #: Fewest outputs of one that goes through them; none does if that is one more.
    pairs: bool  #: Whether positions come in pairs there.

    @property
    def inner(self) -> Axis:
        """The axis along which they are."""
        return self.plan.inner

    @property
    def step(self) -> int:
        """Positions from a tap of a part to the next."""
        return self.plan.kernel[0][0].step

    @property
    def most(self) -> int:
        """Most outputs of a command along it."""
        return self.plan.outputs

    @property
    def numbers(self) -> int:
        """For how many numbers of outputs along the inner axis there are tiles."""
        kernel_parts = self.plan.kernel[0 if self.inner == Axis.X else 1]
        if max(map(len, kernel_parts)) == 1:
            return 1
        return self.few + (self.most > self.few)

    def parts(self, outputs: Number, limit: Number) -> Number:
        """Return into how many nearly equal parts outputs along it are cut, each of one command.

        Parameters
        ----------
        outputs, limit : int or array of int
            All of them, and the most that a part may have.
        """
        return even_parts(outputs, least(limit, self.most), self.few, self.many)

    def tile_rows(self, size: int) -> int:
        """Return the rows of the tiles of one number of outputs."""
        return len(self.taps) * size


@dataclass(frozen=True)
class DepthwiseWeights:
    """Constants of a depthwise convolution."""

    data: bytes  #: All of them: records of all blocks, tiles of the patterns, and a tile of zeros.
    form: RecordForm  #: Form of the records.
    record_rows: int  #: Rows of all records of a block.
    patterns: tuple[Pattern, ...]  #: The best one for each inner axis.
    zeros: int  #: Where the tile of zeros begins.
    #: Of averages: positions of windows that have a record of their own, in order.
    divisors: tuple[int, ...] = ()


FINENESS = ("", " half", " quarter", " eighth", " sixteenth")
"""Parts of the rows that tiles may fill, each half of the one before."""

_SIZE = CONV.limit("width")


@dataclass(frozen=True)
class FilterFacts:
    """What is known of a depthwise convolution before its shape is."""

    config: Config  #: The machine.
    #: Geometry.
    y: Axis1D
    x: Axis1D
    blocks: int  #: Channel blocks.
    weights: DepthwiseWeights  #: Its constants.

    @property
    def at_once(self) -> bool:
        """Whether a drain keeps the pace of the array; else sums are drained by themselves."""
        return self.config.lanes == self.config.array_size

    @property
    def clipped(self) -> tuple[int, int]:
        """Rows and columns of outputs that are regions of their own, at most."""
        return (self.y.clipped, self.x.clipped) if self.weights.divisors else (0, 0)

    def block_rows(self, pattern: Pattern) -> int:
        """Return the rows of the constants of a channel block, as far as a shape needs them."""
        size, numbers = self.config.array_size, pattern.numbers
        if pattern.inner == Axis.X and not self.clipped[1]:  # columns are cut evenly
            numbers = min(numbers, 2)
        return numbers * pattern.tile_rows(size) + self.weights.record_rows


def stays(kind: str) -> bool:
    """Return whether strategies of a kind load the weights of all blocks once."""
    return kind.startswith("resident")


def pitch_of(width: Number, config: Config) -> Number:
    """Return the rows from image row to image row: one that spreads columns over all banks."""
    return width + (width % config.ub_banks == 0)


def filter_rows(
    facts: FilterFacts, extents: tuple[Number, Number, Number], room: Room
) -> WindowedRows:
    """Return the rows that are cut into slabs; what is in the buffer begins at any row."""
    loose = facts.y.before + facts.y.after
    return WindowedRows.under(extents, (facts.y, facts.x), facts.config.row_bytes, room, loose)


def depthwise_strategies(
    facts: FilterFacts, extents: tuple[Number, Number, Number], room: Room
) -> tuple[Strategy, ...]:
    """Return all ways to cut up a batch of images.

    A tile is a slab of output rows of one channel block. The weights of all blocks stay
    (``resident``), or pass by, again for each slab (``streamed``); tiles fill the rows, or a part
    of them, because smaller ones overlap more. ``paired``: two tiles at a time, and ``lone``: one,
    for shapes for which nothing else is feasible.
    """
    batch, _, width = extents
    config, rows = facts.config, filter_rows(facts, extents, room)
    columns, pitch = facts.x.outputs(width), pitch_of(width, config)
    sourced, stored = int(room.sources[0]), int(room.stored)
    beats = row_cycles(config)
    zeros = 0 if facts.at_once else config.array_size
    strategies = []
    for number, pattern in enumerate(facts.weights.patterns):
        each = facts.block_rows(pattern)
        kinds = [
            (f"{kind}{fineness}", slots, weights, share)
            for share, fineness in enumerate(FINENESS)
            for kind, slots, weights in (
                ("resident", 3, facts.blocks * each),
                ("streamed", 3, 3 * each),
            )
        ]
        kinds += [("paired", 2, 2 * each, 0), ("lone", 1, each, 0)]
        for kind, slots, weights, share in kinds:
            tried = unmet(strategies) if slots < 3 else True
            if tried is False:
                break
            wanted = most(rows.out_height // 4, 2 * pattern.most)
            if not sourced and not stored:
                wanted = rows.out_height * batch  # nothing is moved
            for slabs in slab_modes(
                rows,
                in_cost=sourced * slots * pitch,
                out_cost=stored * slots * columns,
                room=(room.rows >> share) - weights - zeros,
                limit=rows.out_height * batch,
                wanted=wanted,
            ):
                sizes = slabs.sizes
                in_slot = sourced * sizes["in_rows"] * pitch
                out_slot = stored * sizes["slab_rows"] * columns
                tiles = sizes["slabs"] * facts.blocks
                load = in_slot * beats + sourced * TRANSFER_OVERHEAD
                store = out_slot * beats + stored * TRANSFER_OVERHEAD
                passing = each
                if stays(kind):
                    passing = ceil_div(each, sizes["slabs"])
                compute = _array_cycles(facts, pattern, rows, columns, sizes)
                compute = compute // sizes["slabs"]
                cycles = ring_cycles(load + passing * beats, compute, store, tiles, slots)
                moved = tiles * (in_slot + out_slot + passing)
                strategies.append(
                    Strategy(
                        f"{kind} {pattern.inner.name}/{slabs.mode}",
                        both(slabs.feasible, width <= _SIZE, tried),
                        cycles,
                        moved,
                        {
                            **sizes,
                            "pattern": number,
                            "slots": slots,
                            "weight_slots": facts.blocks if stays(kind) else slots,
                            "in_slot": in_slot,
                            "out_slot": out_slot,
                            "tile_rows": slots * (in_slot + out_slot) + weights + zeros,
                            "needed_rows": slabs.needed + weights + zeros,
                        },
                    )
                )
    return tuple(strategies)


def _array_cycles(
    facts: FilterFacts,
    pattern: Pattern,
    rows: WindowedRows,
    columns: Number,
    sizes: Mapping[str, Number],
) -> Number:
    """Return the cycles of the array for a channel block of all slabs."""
    config, accumulators = facts.config, facts.config.acc_rows
    total, slab = rows.batch * rows.out_height, least(sizes["slab_rows"], rows.out_height)
    if pattern.inner == Axis.Y:
        beside = ceil_div(columns, accumulators)
        lines = most(accumulators // ceil_div(columns, beside), 1)
        down = pattern.parts(slab, lines)
    else:
        beside = pattern.parts(columns, accumulators)
        lines = most(accumulators // ceil_div(columns, beside), 1)
        down = ceil_div(slab, lines)
    parts, alone = (least(down * most(sizes["slabs"], rows.batch), total), beside), 0
    if facts.weights.divisors:  # outputs whose windows are clipped are regions of their own
        more = facts.clipped[0] * rows.batch, facts.clipped[1]
        regions = parts[0] * parts[1]
        parts = least(parts[0] + more[0], total), least(parts[1] + more[1], columns)
        alone = most(parts[0] * parts[1] - regions, 0)
    # Pairs are positions of stride 1, under kernels of two.
    pairs = both(pattern.pairs, columns // beside >= pattern.many)
    taps = [sum(map(len, kernel_parts)) for kernel_parts in pattern.plan.kernel]
    windows = (
        (facts.y.stride // pattern.step, taps[0]),
        (pick(pairs, 1, facts.x.stride // pattern.step), pick(pairs, PAIR, taps[1])),
    )
    slots = 1
    for (stride, kernel), extent, count, kernel_parts in zip(
        windows, (total, columns), parts, pattern.plan.kernel, strict=True
    ):
        passes = len(kernel_parts)
        slots = slots * (passes * extent * stride + count * (kernel - passes * stride))
    regions = parts[0] * parts[1]
    commands = regions * len(pattern.taps)
    slots = most(slots, commands * config.array_size)
    slots = slots + alone * len(pattern.taps) * config.array_size
    if not facts.at_once:
        commands = commands + regions
        drained = total * columns * drain_interval(Drain.REQUANTIZE, config)
        slots = slots + most(drained, regions * config.array_size)
    return slots + commands * CONV_CYCLES
