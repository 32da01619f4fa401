"""Which layers run together, slice by slice: the cheapest groups by dynamic programming."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.candidates import Candidates, Key
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
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
    groups : tuple of Group
        Groups that cover it.
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


def total_key(candidates: Candidates, groups: tuple[Group, ...]) -> tuple[int, *Key]:
    """Return how many groups do not fit, and the sum of the keys of all.

    Images between groups stay on chip where :func:`resident_activations` says so.
    """
    resident = resident_activations(candidates.costs, groups)
    misfits = first = second = 0
    for group in groups:
        key = candidates.key(candidates.costs.cost(group, resident))
        # Strips of a layer alone become smaller if there is less room.
        misfits += not candidates.fits(group, resident, strips=0.5 if group.alone else 1)
        first, second = first + key[0], second + key[1]
    return misfits, first, second


def improve(
    candidates: Candidates,
    groups: tuple[Group, ...],
    key: Callable[[tuple[Group, ...]], Any],
    *,
    moves: int,
    seed: int,
) -> tuple[Group, ...]:
    """Return groups that cost no more.

    Parameters
    ----------
    candidates : Candidates
        Ways to run layers.
    groups : tuple of Group
        Groups that cover the network.
    key : callable
        Cost of groups that cover the network, which is minimized.
    moves : int
        Changes that are tried: a cut moves, vanishes or appears, a group gets another number of
        slices, or keeps rows instead of computing them again, or the other way round.
    seed : int
        Seed of their choice: equal arguments give equal groups.
    """
    rng = random.Random(seed)
    for _ in range(moves):
        resident = resident_activations(candidates.costs, groups)
        places = _moving(candidates, groups, resident)
        if not places:
            break
        changed = _change(candidates, groups, rng.choice(places), resident, rng)
        if changed is not None and key(changed) < key(groups):
            groups = changed
    return groups


def switch(
    candidates: Candidates,
    groups: tuple[Group, ...],
    key: Callable[[tuple[Group, ...]], Any],
) -> tuple[Group, ...]:
    """Return groups that cost no more: each in turn is dissolved, or a layer alone is sliced.

    Parameters are those of :func:`improve`.
    """
    resident = resident_activations(candidates.costs, groups)
    for place in reversed(_moving(candidates, groups, resident)):
        group = groups[place]
        others: tuple[Group, ...] = ()
        if not group.alone:
            others = tuple(candidates.alone(i, resident)[0] for i in group.layers)
        elif candidates.table.reaches[0][group.layers[0]] is not None:
            choice = candidates.sliced(group.layers, resident)
            others = () if choice is None else choice[:1]
        changed = (*groups[:place], *others, *groups[place + 1 :])
        if others and key(changed) < key(groups):
            groups = changed
    return groups


def _moving(
    candidates: Candidates, groups: tuple[Group, ...], resident: frozenset[str]
) -> list[int]:
    """Return the places of groups of which not all images are on chip."""
    touched = candidates.table.touched
    return [i for i, group in enumerate(groups) if not touched(group.layers) <= resident]


def _change(
    candidates: Candidates,
    groups: tuple[Group, ...],
    place: int,
    resident: frozenset[str],
    rng: random.Random,
) -> tuple[Group, ...] | None:
    """Return groups with one of them changed; None if that is not possible."""
    group = groups[place]
    kind = rng.choice(("move", "vanish", "appear", "slices", "rolling"))
    if kind in ("slices", "rolling"):
        other = _other(candidates, group, kind, rng)
        return None if other is None else (*groups[:place], other, *groups[place + 1 :])
    intervals = list(_intervals(groups, place, kind, rng))
    made = [candidates.best(interval, resident) for interval in intervals]
    if not intervals or None in made:
        return None
    count = 1 if kind == "appear" else 2
    chosen = tuple(choice[0] for choice in made if choice is not None)
    return (*groups[:place], *chosen, *groups[place + count :])


def _other(candidates: Candidates, group: Group, kind: str, rng: random.Random) -> Group | None:
    if not group.slices or group.columns > 1:
        return None
    other = replace(group, rolling=not group.rolling)
    if kind == "slices":
        numbers = candidates.slices
        number = numbers.index(group.slices) + rng.choice((-1, 1))
        if number not in range(len(numbers)):
            return None
        other = replace(group, slices=numbers[number])
    return other if candidates.allowed(other) else None


def _intervals(
    groups: tuple[Group, ...], place: int, kind: str, rng: random.Random
) -> Iterator[range]:
    """Yield what takes the place of a group, and of the next one unless a cut appears."""
    layers = groups[place].layers
    if kind == "appear":
        if len(layers) > 1:
            cut = rng.randrange(layers.start + 1, layers.stop)
            yield from (range(layers.start, cut), range(cut, layers.stop))
        return
    if place + 1 == len(groups):
        return
    stop = groups[place + 1].layers.stop
    if kind == "vanish":
        yield range(layers.start, stop)
        return
    cut = layers.stop + rng.choice((-1, 1))
    if layers.start < cut < stop:
        yield from (range(layers.start, cut), range(cut, stop))
