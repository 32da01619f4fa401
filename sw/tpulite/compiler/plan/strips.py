"""Plans of convolutions that no search has cut: strips of the output, or tiles of the input."""

from dataclasses import dataclass, replace
from itertools import pairwise

from tpulite.arch.config import Config
from tpulite.arch.timing import row_cycles
from tpulite.compiler.geometry.cut import (
    SMALLEST_PART,
    WINDOW_ROOM,
    cut_arriving,
    cut_parts,
    cut_strips,
    split,
)
from tpulite.compiler.geometry.passes import AxisLimits, Pass, axis_limits, far_columns, plan_tiles
from tpulite.compiler.plan.conv_cost import product_cycles, weights_stay
from tpulite.compiler.plan.conv_facts import ActivationExtents, ConvFacts
from tpulite.compiler.plan.space import Placed, Space
from tpulite.graph.layers import Made

_EXPOSED = 2
"""Loads count twice: strips wait for room, so not all of their time hides behind the array's."""

_TILE = 4
"""A tile of the input takes at most a quarter of the room: there are two, weights and results."""

_RESULT = 8
"""Results of a region take at most an eighth: those before are still on their way to DRAM."""


_ARRIVING = 256
"""Cycles in which the input of a first part is loaded: the array waits for it, and each part more
takes a LOAD and a CONV, which come from DRAM beside it."""


@dataclass(frozen=True)
class Regions:
    """How output rows are cut into what single commands compute."""

    config: Config  #: The machine.
    columns: tuple[range, ...]  #: Their columns.
    rows: AxisLimits  #: What a command can express along the rows.
    most: int  #: Most rows of a region.
    grain: int  #: Regions begin at multiples of it, if the accumulators hold so many rows.
    #: Whether there should be several, so that the next layer can start on the first.
    block_start: bool
    #: Cycles in which the input of an output row is loaded, if all of it stays in the buffer but is
    #: still on its way; else 0.
    arriving: float = 0.0
    pace: float = 1.0  #: Cycles in which an output row is computed.

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
        if self.arriving and strip.start == 0:
            smallest = max(int(_ARRIVING / self.arriving), -(-SMALLEST_PART // self.widest))
            growth = (1 + self.pace / self.arriving) / 2  # weights and commands arrive, too
            parts = cut_arriving(parts, smallest, growth, grain=grain)
        rows = [piece for part in parts for piece in self.rows.cut(part, self.most)]
        return [(r, c) for r in rows for c in self.columns]


@dataclass(frozen=True, kw_only=True)
class StripPlan:
    """How a convolution is cut into strips, regions and passes over the kernel."""

    facts: ConvFacts  #: What is cut.
    passes: tuple[tuple[Pass, ...], ...]  #: By n-block, what commands multiply one after the other.
    regions: Regions  #: What commands compute.
    #: Output rows whose results are in the buffer together, if the layer is alone.
    strips: tuple[range, ...]
    keep: bool  #: Whether weights stay for all strips.
    #: Whether weights that do not stay come again for each region. Else they come for each strip.
    per_region: bool
    #: Whether n-blocks are computed one after the other, each with a place of its own.
    per_block: bool
    #: Whether each pass loads what it reads. Else the input of a strip is loaded as a whole.
    by_tiles: bool = False
    side_by_side: int = 0  #: Output vectors, of all n-blocks that share the tiles of a region.
    feasible: bool = True  #: Whether it fits, as far as sizes tell.
    #: Rows of the buffer in which all of the input is loaded that comes from DRAM.
    read_rows: int = 0
    #: What it costs: the time of the array, or that of the loads as far as it does not hide.
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


def strip_plan(facts: ConvFacts, source: Placed, target: Placed, space: Space) -> StripPlan:
    """Return the cheapest of all plans that fit; the last one if none does.

    - *Strips* load the input of some output rows as a whole. Weights stay if they are few, else
      they come again with each strip, which is as large as can be then.
    - *Tiles* are loaded by each pass over the kernel, again for some n-blocks after the others, for
      regions as large as the accumulators: for what does not fit otherwise, and where weights or
      the halo of a dilated kernel would come with each of many strips.

    In a group, or if the whole input is in the buffer, there are no tiles.
    """
    keep = space.keep
    if keep is None:
        keep = weights_stay(facts.weight_rows, facts.config)
    outputs = target.height, target.width
    outputs = outputs[::-1] if facts.transposed else outputs
    extents = ActivationExtents(1, source.height, source.width, *outputs)
    job = _Job(facts, extents, source, target, space, keep)
    limits = job.limits()
    strips = _strips(job, limits)
    busy = strips.cycles <= job.array_cycles  # no plan takes less
    if space.keep is not None or source.resident or (strips.feasible and busy):
        return strips
    # A tile of packed rows has all of their bytes.
    if strips.feasible and facts.byte_step:
        return strips
    tiles = _tiles(job, limits)
    return tiles if tiles.cycles < strips.cycles or not strips.feasible else strips


@dataclass(frozen=True)
class _Job:
    """What is cut, and whether its weights stay."""

    facts: ConvFacts
    extents: ActivationExtents
    source: Placed
    target: Placed
    space: Space
    keep: bool

    @property
    def array_cycles(self) -> int:
        """Cycles in which the array multiplies, at least."""
        vectors = self.extents.out_height * self.extents.out_width
        facts = self.facts
        return product_cycles(facts.tiles, vectors, 1, facts.config, int4=facts.int4)

    def cycles(self, loads: int) -> int:
        """Return what a plan costs that loads rows of the buffer."""
        return max(self.array_cycles, _EXPOSED * loads * row_cycles(self.facts.config))

    def read(self, outputs: int, taps: int | None = None) -> int:
        """Return the input rows that output rows read with ``taps`` rows of the kernel, or all."""
        y = self.facts.y if taps is None else replace(self.facts.y, kernel=taps)
        return min((outputs - 1) * y.stride + y.reach, self.extents.height)

    def limits(self) -> tuple[AxisLimits, AxisLimits]:
        """Return what commands can express; columns of a large stride go together if it pays."""
        facts, extents = self.facts, self.extents
        y, x = facts.y.at(extents.height), facts.x.at(extents.width)
        rows = axis_limits(y, extents.out_height, pitched=True)
        if facts.byte_step:
            return rows, AxisLimits()
        far, size = far_columns(x, extents.out_width), facts.config.array_size
        resident = self.source.resident and self.target.resident
        parts = cut_parts(range(extents.out_height), 1, facts.config)
        at_once = len(parts[0]) if resident else 1
        # The vectors of a command: less than N keep the array as busy as N.
        if far is not None and min(far.limited[1] - far.limited[0], size) > min(at_once, size):
            return replace(rows, taps=1, most=1), far
        columns = axis_limits(x, extents.out_width, pitched=False)
        return rows, replace(columns, grain=facts.column_grain)

    def regions(self, limits: tuple[AxisLimits, AxisLimits], most: int) -> Regions:
        """Return how rows are cut into regions of ``most`` rows, or less."""
        config, target = self.facts.config, self.target
        columns = tuple(limits[1].cut(range(self.extents.out_width), config.acc_rows))
        grain = target.grain if target.moved else 1
        arriving = 0.0
        early = self.space.block_start and self.space.prefetch
        if early and self.source.resident and self.source.moved:
            loads = self.source.height * self.source.pitch * self.source.blocks
            arriving = loads * row_cycles(config) / self.extents.out_height
        pace = self.array_cycles / self.extents.out_height
        block_start = self.space.block_start
        return Regions(config, columns, limits[0], most, grain, block_start, arriving, pace)


def _strips(job: _Job, limits: tuple[AxisLimits, AxisLimits]) -> StripPlan:
    facts, source, target, space = job.facts, job.source, job.target, job.space
    height, source_row = job.extents.out_height, source.pitch * source.blocks
    vectors = height * job.extents.out_width
    late = source.made is Made.BY_BLOCKS and vectors >= facts.config.array_size
    passes = facts.passes(*limits, early=True, late=late)
    tiles = [[part.tiles * facts.tile_rows for part in parts] for parts in passes]
    per_block = space.keep is None and not job.keep and not target.resident
    strips = (range(height),)
    if not (source.resident and target.resident):
        per_row, budget = 0, space.strip_rows
        if not job.keep:  # each strip loads all weights again: as few strips as possible
            budget = max(budget, _most(space.free_rows - 2 * max(map(max, tiles))))
        if not source.resident:
            per_row += source_row * facts.y.stride
            budget -= min(budget // 2, (facts.y.kernel - 1) * facts.y.dilation * source_row)
        if not target.resident:
            per_row += target.pitch * (min(2, target.blocks) if per_block else target.blocks)
        strips = cut_strips(height, per_row, budget, target.grain)
    smallest = min(target.grain, height)
    needed = job.read(smallest) * source_row + 2 * max(parts[-1] for parts in tiles)
    if not target.resident:
        needed += smallest * target.pitch * target.blocks
    read = sum(job.read(len(strip)) for strip in strips) * source_row
    loads = read + facts.weight_rows * (1 if job.keep else len(strips))
    return StripPlan(
        facts=facts,
        passes=passes,
        regions=job.regions(limits, height),
        strips=strips,
        keep=job.keep,
        per_region=max(map(sum, tiles)) > _most(space.most_rows),
        per_block=per_block,
        feasible=needed <= space.most_rows,
        read_rows=read,
        cycles=job.cycles(loads),
    )


def _tiles(job: _Job, limits: tuple[AxisLimits, AxisLimits]) -> StripPlan:
    facts, extents, target, space = job.facts, job.extents, job.target, job.space
    config, pitch = facts.config, job.source.pitch
    widest = max(map(len, limits[1].cut(range(extents.out_width), config.acc_rows)))
    room = max(1, space.free_rows - (facts.weight_rows if job.keep else 0))
    most, vectors = min(extents.out_height, config.acc_rows // widest), config.acc_rows
    if not target.resident:
        most = min(most, room // _RESULT // target.pitch)
        vectors = min(vectors, space.free_rows // _RESULT // facts.vector_rows)
    y = facts.y.at(extents.height)
    most, rows = plan_tiles(y, limits[0], max(1, most), pitch, room // _TILE)
    limits = rows, limits[1]
    plan = StripPlan(
        facts=facts,
        passes=facts.passes(*limits),
        regions=job.regions(limits, most),
        strips=cut_strips(extents.out_height, 1, most, target.grain),
        keep=job.keep,
        per_region=True,
        per_block=True,
        by_tiles=True,
        side_by_side=vectors,
    )
    regions, loads = plan.regions.cut(plan.strips[0]), 0
    for sharing in plan.sharing(regions):
        tiles = {(part.rows, part.blocks) for part in plan.passes[sharing.start]}
        for region, _ in regions:
            loads += sum(job.read(len(region), len(k)) * len(b) for k, b in tiles)
    read = loads * len(plan.strips) * pitch
    loads = read + facts.weight_rows * (1 if job.keep else len(plan.strips) * len(regions))
    return replace(plan, read_rows=read, cycles=job.cycles(loads))


def _most(rows: int) -> int:
    """Return the part of free rows that strips, or weights, may take beside what is small."""
    part, whole = WINDOW_ROOM
    return rows * part // whole
