"""Which layers run together, slice by slice: the cheapest groups by dynamic programming."""

from collections.abc import Callable
from functools import cache, partial

from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.candidates import Candidates, Key
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
from tpulite.compiler.group.local_search import improve, switch, total_key
from tpulite.compiler.group.residency import resident_activations
from tpulite.compiler.options import Options
from tpulite.graph.layers import LayerGraph

_LARGEST = (1.0, 0.5, 0.25, 0.125)
"""Parts of the buffer that an image may take, at most, to stay on chip; all are tried."""


def group_layers(
    layers: LayerGraph,
    config: Config,
    options: Options,
    *,
    refused: frozenset[Group] = frozenset(),
) -> tuple[Group, ...]:
    """Choose groups by their cost: cycles, or DRAM traffic first if the user wants that.

    Groups are for images that would go to DRAM: layers whose images all stay on chip run alone.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    refused : frozenset of Group
        Groups that are not to be used, because they found no place.

    Returns
    -------
    tuple of Group
        Groups that cover all layers in order; equal arguments give equal groups.
    """
    table = GraphTable(layers, config, options)
    costs = GroupCosts(table, config.ub_rows)
    candidates = Candidates(costs, refused)
    alone = tuple(Group(range(i, i + 1)) for i in range(len(layers.layers)))
    tried = {
        resident_activations(costs, alone, largest=int(part * costs.limit)): None
        for part in _LARGEST
    }
    found = [best_cuts(candidates, resident) for resident in tried]
    key = cache(partial(total_key, candidates))
    groups = min(found, key=key)
    if not options.grouping:
        return groups
    return improve(candidates, groups, key, moves=options.moves, seed=options.seed)


def regroup_layers(
    layers: LayerGraph,
    groups: tuple[Group, ...],
    config: Config,
    options: Options,
    cost: Callable[[tuple[Group, ...]], float],
) -> tuple[Group, ...]:
    """Return groups that cost no more than those given.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    groups : tuple of Group
        Groups that cover it.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    cost : callable
        What groups cost, infinite if they do not fit.
    """
    candidates = Candidates(GroupCosts(GraphTable(layers, config, options), config.ub_rows))
    groups = switch(candidates, groups, cost)
    return improve(candidates, groups, cost, moves=options.moves, seed=options.seed)


def best_cuts(candidates: Candidates, resident: frozenset[str]) -> tuple[Group, ...]:
    """Return the cheapest groups if these images stay on chip: the best end for every cut."""
    count = len(candidates.table.sources)
    sums: list[Key] = [(0, 0)]
    last: list[Group] = []
    for stop in range(1, count + 1):
        choices = []
        for group, cost in candidates.before(stop, resident):
            before, key = sums[group.layers.start], candidates.key(cost)
            choices.append(((before[0] + key[0], before[1] + key[1]), group))
        key, group = min(choices, key=lambda choice: choice[0])
        sums.append(key)
        last.append(group)
    groups: list[Group] = []
    while count:
        groups.append(last[count - 1])
        count = groups[-1].layers.start
    return tuple(reversed(groups))
