"""Plans of picks: strips of output rows, and the input rows that they come from."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import lcm

from tpulite.compiler.plan.rows import RowsPlan, rows_plan
from tpulite.compiler.plan.space import Placed, Space
from tpulite.graph.layers import DepthToSpace, Pick


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
