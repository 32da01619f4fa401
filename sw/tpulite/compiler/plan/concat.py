"""Plans of concatenation: what is on chip together, and what joins it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import accumulate

from tpulite.compiler.geometry.cut import cut_strips, split
from tpulite.compiler.geometry.slices import column_grain
from tpulite.compiler.plan.rows import RowsPlan, rows_plan
from tpulite.compiler.plan.space import Placed, Space
from tpulite.graph.layers import Concat

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
