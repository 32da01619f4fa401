"""Plans of convolutions that no search has cut: strips of the output, or tiles of the input."""

from dataclasses import dataclass, replace
from itertools import pairwise

from tpulite.arch.config import Config
from tpulite.arch.timing import row_cycles
from tpulite.compiler.geometry.cut import WINDOW_ROOM, cut_parts, cut_strips, split
from tpulite.compiler.geometry.passes import (
    AxisLimits,
    Pass,
    axis_limits,
    far_columns,
    plan_tiles,
)
from tpulite.compiler.plan.conv_cost import product_cycles, weights_stay
from tpulite.compiler.plan.conv_facts import Around, ConvFacts

__all__ = ["Regions", "StripPlan", "strip_plan"]

_EXPOSED = 2
"""Loads count twice: strips wait for room, so not all of their time hides behind the array's."""

_TILE = 4
"""A tile of the input takes at most a quarter of the room: there are two, weights and results."""

_RESULT = 8
"""Results of a region take at most an eighth: those before are still on their way to DRAM."""


@dataclass(frozen=True)
class Regions:
    """How output rows are cut into what single commands compute.

    Parameters
    ----------
    config : Config
        The machine.
    columns : tuple of range
        Their columns.
    rows : AxisLimits
        What a command can express along the rows.
    most : int
        Most rows of a region.
    grain : int
        Regions begin at multiples of it, if the accumulators hold so many rows.
    block_start : bool
        Whether there should be several, so that the next layer can start on the first.
    """

    config: Config
    columns: tuple[range, ...]
    rows: AxisLimits
    most: int
    grain: int
    block_start: bool

    @property
    def widest(self) -> int:
        """Most columns of a region."""
        return max(map(len, self.columns))

    def cut(self, strip: range) -> list[tuple[range, range]]:
        """Return the rows and columns of the regions of a strip."""
        grain = min(self.grain, self.config.acc_rows // self.widest)
        parts = cut_parts(
            strip, self.widest, self.config, grain=grain, block_start=self.block_start
        )
        rows = [piece for part in parts for piece in self.rows.cut(part, self.most)]
        return [(r, c) for r in rows for c in self.columns]


@dataclass(frozen=True, kw_only=True)
class StripPlan:
    """How a convolution is cut into strips, regions and passes over the kernel.

    Parameters
    ----------
    passes : tuple of tuple of Pass
        By n-block, what commands multiply one after the other.
    regions : Regions
        What commands compute.
    strips : tuple of range
        Output rows whose results are in the buffer together, if the layer is alone.
    keep : bool
        Whether weights stay for all strips.
    per_region : bool
        Whether weights that do not stay come again for each region. Else they come for each strip.
    per_block : bool
        Whether n-blocks are computed one after the other, each with a place of its own.
    by_tiles : bool
        Whether each pass loads what it reads. Else the input of a strip is loaded as a whole.
    side_by_side : int
        Output vectors, of all n-blocks that share the tiles of a region.
    feasible : bool
        Whether it fits, as far as sizes tell.
    cycles : int
        What it costs: the time of the array, or that of the loads as far as it does not hide.
    """

    passes: tuple[tuple[Pass, ...], ...]
    regions: Regions
    strips: tuple[range, ...]
    keep: bool
    per_region: bool
    per_block: bool
    by_tiles: bool = False
    side_by_side: int = 0
    feasible: bool = True
    cycles: int = 0

    def sharing(self, regions: list[tuple[range, range]]) -> list[range]:
        """Return the n-blocks that share what is loaded for a region, as their sums fit."""
        every = range(len(self.passes))
        if not self.by_tiles:
            return [range(n, n + 1) for n in every]
        vectors = max(len(rows) * len(columns) for rows, columns in regions)
        most = max(1, self.side_by_side // vectors)
        same = [n for n in every if n == 0 or self.passes[n] != self.passes[n - 1]]
        runs = [range(a, b) for a, b in pairwise([*same, len(every)])]
        return [
            run[piece.start : piece.stop]
            for run in runs
            for piece in split(len(run), -(-len(run) // most), 1)
        ]


def strip_plan(facts: ConvFacts, around: Around) -> StripPlan:
    """Return the cheapest of all plans that fit; the last one if none does.

    - *Strips* load the input of some output rows as a whole. Weights stay if they are few, else
      they come again with each strip, which is as large as can be then.
    - *Tiles* are loaded by each pass over the kernel, again for some n-blocks after the others, for
      regions as large as the accumulators: for what does not fit otherwise, and where weights or
      the halo of a dilated kernel would come with each of many strips.

    In a group, or if the whole input is in the buffer, there are no tiles.
    """
    keep = around.keep
    if keep is None:
        keep = weights_stay(facts.weight_rows, facts.config)
    limits = _limits(facts, around)
    strips = _strips(facts, around, limits, keep=keep)
    busy = strips.cycles <= _array_cycles(facts, around)  # no plan takes less
    if around.keep is not None or not around.source.in_dram or (strips.feasible and busy):
        return strips
    # A tile of packed rows has all of their bytes.
    if strips.feasible and facts.byte_step:
        return strips
    tiles = _tiles(facts, around, limits, keep=keep)
    return tiles if tiles.cycles < strips.cycles or not strips.feasible else strips


def _limits(facts: ConvFacts, around: Around) -> tuple[AxisLimits, AxisLimits]:
    """Return what commands can express; columns of a large stride go together where that pays."""
    rows = axis_limits(facts.y.at(around.extents.height), around.extents.out_height, pitched=True)
    if facts.byte_step:
        return rows, AxisLimits()
    far, size = (
        far_columns(facts.x.at(around.extents.width), around.extents.out_width),
        facts.config.array_size,
    )
    resident = not (around.source.in_dram or around.target.in_dram)
    at_once = (
        len(cut_parts(range(around.extents.out_height), 1, facts.config)[0]) if resident else 1
    )
    # The vectors of a command: less than N keep the array as busy as N.
    if far is not None and min(far.limited[1] - far.limited[0], size) > min(at_once, size):
        return replace(rows, taps=1, most=1), far
    return rows, axis_limits(
        facts.x.at(around.extents.width), around.extents.out_width, pitched=False
    )


def _strips(
    facts: ConvFacts, around: Around, limits: tuple[AxisLimits, AxisLimits], *, keep: bool
) -> StripPlan:
    config, source, target = facts.config, around.source, around.target
    passes = facts.passes(*limits, early=True)
    tiles = [[part.tiles * config.array_size for part in parts] for parts in passes]
    per_block = around.keep is None and not keep and target.in_dram
    strips = (range(around.extents.out_height),)
    if source.in_dram or target.in_dram:
        per_row, budget = 0, around.strip_rows
        if not keep:  # each strip loads all weights again: as few strips as possible
            budget = max(budget, _most(around.free_rows - 2 * max(map(max, tiles))))
        if source.in_dram:
            per_row += source.row * source.blocks * facts.y.stride
            halo = (facts.y.kernel - 1) * facts.y.dilation
            budget -= min(budget // 2, halo * source.row * source.blocks)
        if target.in_dram:
            per_row += target.row * (min(2, target.blocks) if per_block else target.blocks)
        strips = cut_strips(around.extents.out_height, per_row, budget, target.grain)
    smallest = min(target.grain, around.extents.out_height)
    needed = _read(facts, around, smallest) * source.row * source.blocks
    needed += 2 * max(parts[-1] for parts in tiles)
    if target.in_dram:
        needed += smallest * target.row * target.blocks
    loads = sum(_read(facts, around, len(strip)) for strip in strips) * source.row * source.blocks
    loads += facts.weight_rows * (1 if keep else len(strips))
    return StripPlan(
        passes=passes,
        regions=_regions(facts, around, limits, around.extents.out_height),
        strips=strips,
        keep=keep,
        per_region=max(map(sum, tiles)) > _most(around.most_rows),
        per_block=per_block,
        feasible=needed <= around.most_rows,
        cycles=max(_array_cycles(facts, around), _load_cycles(facts, loads)),
    )


def _tiles(
    facts: ConvFacts, around: Around, limits: tuple[AxisLimits, AxisLimits], *, keep: bool
) -> StripPlan:
    config, source, target = facts.config, around.source, around.target
    widest = max(map(len, limits[1].cut(range(around.extents.out_width), config.acc_rows)))
    room = max(1, around.free_rows - (facts.weight_rows if keep else 0))
    most, vectors = min(around.extents.out_height, config.acc_rows // widest), config.acc_rows
    if target.in_dram:
        most = min(most, room // _RESULT // target.row)
        vectors = min(vectors, around.free_rows // _RESULT // facts.vector_rows)
    most, rows = plan_tiles(
        facts.y.at(around.extents.height), limits[0], max(1, most), source.row, room // _TILE
    )
    limits = rows, limits[1]
    plan = StripPlan(
        passes=facts.passes(*limits),
        regions=_regions(facts, around, limits, most),
        strips=cut_strips(around.extents.out_height, 1, most, target.grain),
        keep=keep,
        per_region=True,
        per_block=True,
        by_tiles=True,
        side_by_side=vectors,
    )
    regions, loads = plan.regions.cut(plan.strips[0]), 0
    for sharing in plan.sharing(regions):
        tiles = {(part.rows, part.blocks) for part in plan.passes[sharing.start]}
        for region, _ in regions:
            loads += sum(_read(facts, around, len(region), len(k)) * len(b) for k, b in tiles)
    loads *= len(plan.strips) * source.row
    loads += facts.weight_rows * (1 if keep else len(plan.strips) * len(regions))
    return replace(plan, cycles=max(_array_cycles(facts, around), _load_cycles(facts, loads)))


def _regions(
    facts: ConvFacts, around: Around, limits: tuple[AxisLimits, AxisLimits], most: int
) -> Regions:
    columns = tuple(limits[1].cut(range(around.extents.out_width), facts.config.acc_rows))
    grain = around.target.grain if around.target.moved else 1
    return Regions(facts.config, columns, limits[0], most, grain, around.block_start)


def _array_cycles(facts: ConvFacts, around: Around) -> int:
    """Return the cycles in which the array multiplies, at least."""
    return product_cycles(
        facts.tiles, around.extents.out_height * around.extents.out_width, 1, facts.config
    )


def _load_cycles(facts: ConvFacts, rows: int) -> int:
    """Return the time that loads of rows of the buffer count as."""
    return _EXPOSED * rows * row_cycles(facts.config)


def _read(facts: ConvFacts, around: Around, outputs: int, taps: int | None = None) -> int:
    """Return the input rows that output rows read with ``taps`` rows of the kernel, or all."""
    y = facts.y if taps is None else replace(facts.y, kernel=taps)
    return min((outputs - 1) * y.stride + y.extent, around.extents.height)


def _most(rows: int) -> int:
    """Return the part of free rows that strips, or weights, may take beside what is small."""
    part, whole = WINDOW_ROOM
    return rows * part // whole
