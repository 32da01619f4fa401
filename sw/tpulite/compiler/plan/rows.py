"""Plans of layers of which each row of the output needs only the same rows of the inputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from tpulite.compiler.geometry.cut import cut_parts, cut_strips, halves
from tpulite.compiler.plan.pointwise import (
    SLOTS,
    Pointwise,
    PointwisePlan,
    best_pointwise_plan,
    pointwise_facts,
)
from tpulite.compiler.plan.space import Made, Placed, Space


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

    def parts(self, rows: range) -> tuple[range, ...]:
        """Cut rows into what is computed, and stored, before the next layer starts."""
        space = self.space
        return cut_parts(
            rows, self.width, space.config, grain=self.grain, block_start=space.block_start
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
    follows = any(each.made is not Made.OTHERWISE for each in same)
    return replace(rows_plan(same, target, space, tiles), follows=follows)
