"""How much of every image a step in the middle of a group takes."""

from typing import NamedTuple

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import COLUMN_GRAIN
from tpulite.compiler.group.graph_table import GraphTable


class StepPositions(NamedTuple):
    """Positions of an image along one axis."""

    live: int  #: Those of a step.
    kept: int  #: Those among them that are kept from the step before.
    total: int  #: Those that all steps together compute or load.


def middle_step(table: GraphTable, group: Group, axis: int) -> tuple[int, dict[str, StepPositions]]:
    """Return the number of steps along an axis, and what one of them takes of every image.

    :func:`tpulite.compiler.geometry.slices.plan_steps` says it for each step; this is for the
    search, which asks for thousands of groups. The step is a largest one, with a halo on both sides
    if there are more than two.

    Parameters
    ----------
    table : GraphTable
        The network.
    group : Group
        Layers that can all be cut along the axis.
    axis : int
        0 for slices of the height, 1 for columns.
    """
    extents, reaches = table.extents[axis], table.reaches[axis]
    rolling = group.rolling and axis == 0
    extent = extents[table.outputs[group.layers[-1]]]
    grain = COLUMN_GRAIN if axis else 1
    units = -(-extent // grain)
    steps = min(group.columns if axis else group.slices, units)
    size = -(-units // steps) * grain
    begin = max(0, extent - size) // 2 // grain * grain if rolling or steps > 2 else 0
    end = min(begin + size, extent)
    needs: dict[str, tuple[int, int, int]] = {}  # start, stop, and where the step before ended
    for i in reversed(group.layers):
        name = table.outputs[i]
        if (need := needs.get(name)) is None:  # in proportion
            before = -(-extents[name] * begin // extent)
            stop = max(-(-extents[name] * end // extent), before + 1)
            need = needs[name] = (before, stop, before)
        start, stop, before = need
        if rolling:
            start, stop = before, max(stop, before + 1)
        for source, reach in zip(table.sources[i], reaches[i] or (), strict=True):
            low, high = reach.span(start, stop)
            known = reach.span(0, before)[1] if rolling and before else 0
            if axis:
                low, high = low // grain * grain, min(-(-high // grain) * grain, reach.window.size)
            if (other := needs.get(source)) is not None:
                low, high, known = min(low, other[0]), max(high, other[1]), max(known, other[2])
            needs[source] = (low, high, known)
    found: dict[str, StepPositions] = {}
    for name, (start, stop, before) in needs.items():
        if rolling:
            kept = max(0, before - start)
            found[name] = StepPositions(max(stop - before, 1) + kept, kept, extents[name])
        else:
            found[name] = StepPositions(stop - start, 0, _total(stop - start, steps, extents[name]))
    return steps, found


def _total(size: int, steps: int, extent: int) -> int:
    """Return the positions of all steps: at the borders of the image they have half a halo."""
    total = steps * size
    if steps > 2:
        total -= max(0, total - extent) // steps
    return total
