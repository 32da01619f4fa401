"""Groups as the LayerGroup document chooses them: from the last layer to the first."""

from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps, repeated
from tpulite.compiler.group.candidates import SLICES
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.lifetimes import LiveRange, lifetimes
from tpulite.compiler.ops import Buffer
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.longest import place_in_turn
from tpulite.compiler.schedule.scheduled import Lifetime
from tpulite.graph.layers import LayerGraph

__all__ = ["document_groups", "place_in_order", "repeats_too_much"]


def document_groups(
    layers: LayerGraph,
    config: Config,
    options: Options,
    *,
    refused: frozenset[Group] = frozenset(),
) -> tuple[Group, ...]:
    """Choose groups from the tail of a network to its head, each as long as possible.

    A group takes the layer before it as long as all live ranges find a place, in as few slices
    as possible: first of the batch (the images of a batch always run one after the other), then of
    the height. Where slices repeat more than half of an activation's rows the group ends. A single
    layer cuts itself, as all single layers do.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    refused : frozenset of Group
        Groups that found no place; such a group is cut into more slices.

    Returns
    -------
    tuple of Group
        Groups that cover all layers in order.
    """
    table = GraphTable(layers, config, options)
    groups: list[Group] = []
    stop = len(table.sources)
    while stop:
        found = Group(range(stop - 1, stop))
        slices = 1
        for start in range(stop - 1, -1, -1):
            if table.reaches[0][start] is None:
                break
            group = _fewest_slices(table, Group(range(start, stop), slices), refused)
            if group is None:
                break
            slices = group.slices
            if len(group.layers) > 1:
                found = group
        groups.append(found)
        stop = found.layers.start
    return tuple(reversed(groups))


def repeats_too_much(table: GraphTable, group: Group) -> tuple[str, ...]:
    """Return the activations of which slices repeat more than half of the rows, in sorted order."""
    steps = plan_steps(table.layers, group)
    heights = table.extents[0]
    return tuple(
        name
        for name in sorted(steps[0])
        if repeated([step[name].new for step in steps], heights[name])
    )


def place_in_order(
    lives: tuple[LiveRange, ...], rows: range, *, sliced: bool
) -> dict[str, int] | None:
    """Give live ranges places as the document does: rectangles of time x rows, each lowest first.

    If the group is sliced, weights come first; then what lives long, and of equals what is large.

    Parameters
    ----------
    lives : tuple of LiveRange
        Live ranges. What stays to the end is there all the time.
    rows : range
        Rows of the unified buffer to give out.
    sliced : bool
        Whether the group runs several times.

    Returns
    -------
    dict of str to int, or None
        First row by name, in the order in which they were placed; None if one finds no place.
    """
    begin = min((each.first for each in lives), default=0)
    end = max((each.last or each.first for each in lives), default=0)

    def span(each: LiveRange) -> tuple[int, int]:
        return (begin, end) if each.last is None else (each.first, each.last)

    def order(each: LiveRange) -> tuple[bool, int, int]:
        first, last = span(each)
        return sliced and each.kind != "weight", first - last, -each.rows

    places = [
        Lifetime(Buffer(each.name, each.rows), *span(each)) for each in sorted(lives, key=order)
    ]
    found, missing = place_in_turn(places, rows, banks=1)
    return None if missing else {buffer.name: row for buffer, row in found.items()}


def _fewest_slices(table: GraphTable, group: Group, refused: frozenset[Group]) -> Group | None:
    """Return a group in as few slices as fit, or more than it has; None if none is allowed."""
    height = table.height(group.layers)
    for slices in (1, *SLICES):
        if slices < group.slices:
            continue
        if slices > max(height, 1):
            return None
        cut = replace(group, slices=slices)
        if repeats_too_much(table, cut):
            return None
        if cut not in refused and _fits(table, cut):
            return cut
    return None


def _fits(table: GraphTable, group: Group) -> bool:
    """Return whether all that a group needs finds a place beside each other."""
    sliced = group.slices * table.options.batch > 1
    rows = range(table.config.ub_rows)
    return place_in_order(lifetimes(table, group), rows, sliced=sliced) is not None
