"""Which of the images between groups stay on chip, as far as the costs of groups assume.

What is done in the end is decided when the groups are known: see
:class:`tpulite.compiler.place.live.LiveActivations`.
"""

from collections import Counter

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.alone_costs import Cost
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
from tpulite.graph.layers import LayerGraph, Pick


def passing_activations(layers: LayerGraph) -> dict[str, int]:
    """Return the images that only pass by, and the layer that reads or computes each.

    They come from DRAM and go there, vector by vector, and nobody else needs them: to keep them on
    chip as a whole would gain nothing.
    """
    readers = Counter(name for layer in layers.layers for name in {*layer.inputs})
    once = {name for name in layers.inputs if readers[name] == 1 and name not in layers.outputs}
    given = {*layers.inputs, *layers.constants}
    passing: dict[str, int] = {}
    for i, layer in enumerate(layers.layers):
        ends = layer.output in layers.outputs and not readers[layer.output]
        if isinstance(layer, Pick) and ends and not layer.transposed:
            passing |= dict.fromkeys((*once.intersection(layer.inputs), layer.output), i)
        if layer.in_place and ends and given.issuperset(layer.inputs):
            shape = layers.activations[layer.output].shape
            same = {name for name in layer.inputs if layers.activations[name].shape == shape}
            if same <= once:
                passing |= dict.fromkeys((*same, layer.output), i)
    return passing


def resident_activations(
    costs: GroupCosts, groups: tuple[Group, ...], *, largest: int | None = None
) -> frozenset[str]:
    """Return the images that stay on chip from their first to their last use.

    Wherever images and what a group needs beside them take too many rows, the largest image goes.

    Parameters
    ----------
    groups : tuple of Group
        Groups that cover the network. Images inside those of several layers never stay.
    largest : int, optional
        Rows of an image that may stay, at most.
    """
    table = costs.table
    strips = {
        name
        for group in groups
        if not group.alone
        for name in table.touched(group.layers)
        if table.inside(name, group.layers)
    }
    strips.update(passing_activations(table.layers))
    rows = {name: table.rows(name) for name in table.layers.activations}
    resident = frozenset(
        name for name in rows if name not in strips and (largest is None or rows[name] <= largest)
    )
    for group in groups:
        live = [name for name in table.alive(group.layers) if name in resident]
        taken = sum(rows[name] for name in live)
        while live and taken + costs.cost(group, resident).rows > costs.limit:
            name = live.pop()
            taken -= rows[name]
            resident -= {name}
    return resident - {name for name, root in table.views.items() if root not in resident}


def network_cost(costs: GroupCosts, groups: tuple[Group, ...]) -> Cost:
    """Return the sums of what groups cost that cover a network; of rows that is the most."""
    resident = resident_activations(costs, groups)
    found = [costs.cost(group, resident) for group in groups]
    return Cost(
        cycles=sum(each.cycles for each in found),
        read=sum(each.read for each in found),
        written=sum(each.written for each in found),
        rows=max(each.rows for each in found),
        commands=sum(each.commands for each in found),
        tiled=any(each.tiled for each in found),
    )


def crossing_rows(table: GraphTable, members: range, resident: frozenset[str]) -> int:
    """Return the rows of images that stay on chip while a group runs.

    Images that are only needed inside it do not count.
    """
    return sum(
        table.rows(name)
        for name in table.alive(members)
        if name in resident and not table.inside(name, members)
    )
