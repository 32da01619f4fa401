"""Groups as the LayerGroup document chooses them: from the last layer to the first."""

from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps, repeated
from tpulite.compiler.group.candidates import SLICES
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.ops import Buffer
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.allocate import long_first, place_in_turn
from tpulite.compiler.schedule.scheduled import Lifetime
from tpulite.graph.layers import LayerGraph


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


def live_ranges(table: GraphTable, group: Group) -> tuple[Lifetime, ...]:
    """Return what a group needs and when, in the order in which the document places it.

    Time steps are the indices of layers. An activation has the rows of its largest slice, and lives
    from where it is computed, or first read, to where it is last read. Weights can be loaded while
    the layer before runs. In a group that runs several times they stay from the first step to the
    last one, and are placed first; what lives long comes next, and of equals what is large.

    Parameters
    ----------
    group : Group
        Layers that can be sliced, with at least one slice.
    """
    members, layers = group.layers, table.layers
    steps = plan_steps(layers, group)
    stay = group.slices * table.options.batch > 1
    times: dict[str, list[int]] = {}
    weights = []
    for i in members:
        layer = layers.layers[i]
        for name in (*layer.inputs, layer.output):
            times.setdefault(name, []).append(i)
        if rows := table.constants[i]:
            buffer = Buffer(f"constants of {layer.name}", rows)
            span = (members[0], members[-1]) if stay else (max(i - 1, members[0]), i)
            weights.append(Lifetime(buffer, *span))
    activations = [
        Lifetime(
            Buffer(name, max(len(step[name].live) for step in steps) * table.row[name]),
            at[0],
            at[-1],
        )
        for name, at in times.items()
    ]
    first, others = (weights, activations) if stay else ([], activations + weights)
    return (*sorted(first, key=long_first), *sorted(others, key=long_first))


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
    places = live_ranges(table, group)
    _, missing = place_in_turn(places, range(table.config.ub_rows), banks=1)
    return missing is None
