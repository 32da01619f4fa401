"""Plans of layers of which each row of the output needs only the same rows of the inputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import accumulate
from math import lcm

from tpulite.compiler.geometry.cut import PARTS, cut_parts, cut_strips, halves, split
from tpulite.compiler.geometry.slices import column_grain
from tpulite.compiler.plan.pointwise import (
    SLOTS,
    Pointwise,
    PointwisePlan,
    best_pointwise_plan,
    pointwise_facts,
)
from tpulite.compiler.plan.space import Placed, Space
from tpulite.graph.layers import Concat, DepthToSpace, Pick


@dataclass(frozen=True)
class RowsPlan:
    """How rows are cut."""

    strips: tuple[range, ...]  #: Rows that are in the buffer together, if the layer is alone.
    width: int  #: Vectors in a row of the output.
    grain: int  #: Rows of all activations begin at beats at multiples of it.
    space: Space  #: What it may take.
    #: How the layer is cut if it is alone and all activations only pass by.
    tiles: PointwisePlan | None = None
    follows: bool = False  #: Whether the array computes what it reads.
    loaded: int = 0  #: Vectors that a row loads, if parts are cut by them.

    def parts(self, rows: range) -> tuple[range, ...]:
        """Cut rows into what is computed, and stored, before the next layer starts."""
        space = self.space
        return cut_parts(
            rows,
            self.width,
            space.config,
            grain=self.grain,
            parts=max(PARTS, len(rows)) if self.loaded else PARTS,
            block_start=space.block_start,
            loaded=self.loaded,
        )

    def runs(self, rows: range, blocks: int) -> tuple[range, ...]:
        """Return the channel blocks of rows that are computed at a time.

        Rows that are one part for the array, too, are made block by block: then runs are halves of
        what is left, so only the last block is behind the array.
        """
        whole = len(self.parts(rows)) == 1 and self.space.block_start and self.space.prefetch
        return halves(blocks) if self.follows and whole else (range(blocks),)


def rows_plan(
    sources: Sequence[Placed], target: Placed, space: Space, tiles: PointwisePlan | None = None
) -> RowsPlan:
    """Return how an activation is cut of which each row needs only the same row of others."""
    grain = max(each.grain for each in (*sources, target))
    outside = [each for each in (*sources, target) if not each.resident]
    strips: tuple[range, ...] = (range(target.height),)
    if outside:
        per_row = sum(each.blocks * each.width for each in outside)
        strips = cut_strips(target.height, per_row, space.strip_rows, grain)
    return RowsPlan(strips, target.width, grain, space, tiles)


def matmul_plan(sources: Sequence[Placed], target: Placed, space: Space) -> RowsPlan:
    """Return how a product of matrices is cut: one is multiplied while the next is loaded."""
    plan = rows_plan(sources, target, space)
    loaded = (each.blocks * each.width for each in sources if each.moved)
    return replace(plan, loaded=max(loaded, default=0))


def reshape_units(source: int, target: int) -> tuple[int, int]:
    """Return how many pixels before and after a reshape are the least with equally many vectors.

    Parameters
    ----------
    source, target : int
        Channel blocks before and after.

    Examples
    --------
    >>> reshape_units(24, 2)  # a pixel becomes twelve
    (1, 12)
    """
    vectors = lcm(source, target)
    return vectors // source, vectors // target


def reshape_plan(source: Placed, target: Placed, space: Space) -> RowsPlan:
    """Return how the pixels of a reshape are cut: its rows are pixels, whatever the extents are."""
    target = target.flat(space.config)
    grain = lcm(target.grain, reshape_units(source.blocks, target.blocks)[1])
    outside = [each for each in (source, target) if not each.resident]
    strips: tuple[range, ...] = (range(target.height),)
    if outside:
        strips = cut_strips(target.height, target.blocks * len(outside), space.strip_rows, grain)
    return RowsPlan(strips, target.width, grain, space)


def pointwise_plan(
    layer: Pointwise, sources: Sequence[Placed], target: Placed, space: Space
) -> RowsPlan:
    """Return how a layer is computed that sees single vectors: by rows, or by tiles of vectors.

    Sources that are not as large as the output are vectors that are the same everywhere.
    """
    extents = target.height, target.width
    same = [each for each in sources if (each.height, each.width) == extents]
    tiles = None
    if not any(each.resident or each.line != each.width for each in (*same, target)):
        by_name = dict(zip(layer.inputs, sources, strict=True))
        shapes = [(each.height, each.width, each.blocks) for each in by_name.values()]
        facts, flat = pointwise_facts(layer, shapes, space.config), target.flat(space.config)
        tiles = best_pointwise_plan(
            facts,
            flat.height,
            flat.blocks,
            flat.grain,
            room=space.free_rows,
            slots=SLOTS if space.prefetch else 1,
        )
    follows = any(each.made.by_array for each in same)
    return replace(rows_plan(same, target, space, tiles), follows=follows)


def span(indices: tuple[int, ...], part: range) -> range:
    """Return the positions from the first to the last one that a part picks."""
    chosen = indices[part.start : part.stop]
    return range(min(chosen), max(chosen) + 1)


def pick_plan(layer: Pick, source: Placed, target: Placed, space: Space) -> RowsPlan:
    """Return how a pick is cut: into strips whose rows, and what they come from, fit."""
    strips = (range(target.height),)
    if not (source.resident and target.resident):
        strips = tuple(_strips(layer, source, target, space.strip_rows))
    return RowsPlan(strips, target.width, target.grain, space)


def depth_to_space_plan(
    layer: DepthToSpace, sources: Sequence[Placed], target: Placed, space: Space
) -> RowsPlan:
    """Return how squares are cut: into strips of whole ones, which have as many vectors before."""
    grain = lcm(target.grain, max(each.grain for each in sources) * layer.block[0])
    here = all(each.resident for each in (*sources, target))
    squares = replace(target, grain=grain, resident=here)
    return rows_plan([squares], squares, space)


def _strips(layer: Pick, source: Placed, target: Placed, most: int) -> Iterator[range]:
    """Yield strips as high as they may be: at least the rows up to the next beat."""
    grain = target.grain
    written = 0 if target.resident else target.blocks * target.width
    read = 0 if source.resident else target.blocks
    read *= source.height if layer.transposed else source.width
    indices = layer.columns if layer.transposed else layer.rows
    start = stop = 0
    while start < target.height:
        stop = min(start + grain, target.height)
        while stop < target.height:
            more = range(start, min(stop + grain, target.height))
            if len(more) * written + len(span(indices, more)) * read > most:
                break
            stop = more.stop
        yield range(start, stop)
        start = stop


_ROOM = 4
"""Columns that are moved by themselves take at most this part of the free rows."""


class Concatenation(Enum):
    """What is on chip together."""

    STACKED = auto()
    """Rows of one activation, which come below those of the one before."""
    TOGETHER = auto()
    """The same rows of all activations."""
    BLOCKS = auto()
    """Rows of one channel block of the output, and what they are made from."""
    COLUMNS = auto()
    """Some columns of one activation."""


@dataclass(frozen=True)
class ConcatPlan:
    """How activations are joined."""

    way: Concatenation  #: What is on chip together.
    #: Whether products with an identity matrix join channels, because vectors part.
    multiplies: bool
    rows: RowsPlan  #: How rows of the output are cut, unless they are stacked.
    strips: tuple[range, ...]  #: Output rows that are in the buffer together, if the layer is alone
    #: Where each activation begins along the axis; of channels, the first one.
    starts: tuple[int, ...]
    sources: tuple[Placed, ...]  #: The activations.

    def columns(self, rows: range, blocks: int) -> tuple[tuple[range, ...], ...]:
        """Return the columns of each activation that are moved at a time."""
        space = self.rows.space
        grain, pixels = column_grain(space.config), len(rows) * blocks
        most = max(grain, space.free_rows // _ROOM // pixels)
        return tuple(split(each.width, -(-each.width // most), grain) for each in self.sources)


def concat_plan(
    layer: Concat,
    sources: Sequence[Placed],
    channels: Sequence[int],
    target: Placed,
    space: Space,
) -> ConcatPlan:
    """Return how activations are joined; ``channels`` are those of each."""
    size, grain = space.config.array_size, column_grain(space.config)
    extents = [
        (each.height, each.width, count)[layer.axis]
        for each, count in zip(sources, channels, strict=True)
    ]
    starts = tuple(accumulate(extents[:-1], initial=0))
    movable = not any(each.resident or each.width % grain for each in (*sources, target))
    rows = rows_plan(sources, target, space)
    way, strips = Concatenation.TOGETHER, rows.strips
    if layer.axis == 0:
        way = Concatenation.STACKED
        cuts = (_stacked_strips(each, target, space) for each in sources)
        strips = tuple(
            range(start + rows.start, start + rows.stop)
            for start, cut in zip(starts, cuts, strict=True)
            for rows in cut
        )
    elif layer.axis == 2 and space.fleeting:
        way = Concatenation.BLOCKS
    elif space.fleeting and movable:
        way = Concatenation.COLUMNS
    parted = layer.axis == 2 and any(start % size for start in starts)
    return ConcatPlan(way, parted, rows, strips, starts, tuple(sources))


def _stacked_strips(source: Placed, target: Placed, space: Space) -> tuple[range, ...]:
    if source.resident and target.resident:
        return (range(source.height),)
    per_row = source.blocks * source.width * 2
    return cut_strips(source.height, per_row, space.strip_rows, max(source.grain, target.grain))
