"""Single layers as tiles, where the program takes fewer cycles than with strips."""

from collections import Counter

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.plan.slabs import TilePlan
from tpulite.compiler.stages import cost_of, encode, lower, place, timeline_of
from tpulite.compiler.state import Plans, State

_TRIES = 3
"""Strategies that are tried of a layer that is the network, the cheapest by its closed form first;
of a layer among others only that one is."""

_OVER = 1.06
"""What the closed form may say too much."""

_LESS = 0.99
"""Part of the cycles at which tiles replace strips: for less, programs stay as they are."""

_PART = 4
"""Part of the effort that layers among others are worth."""


def choose_tiles(state: State) -> State:
    """Choose tiles, where the program takes fewer cycles.

    Layers among others are tried in the order of the cycles in which their busiest engine waits.
    """
    options, lonely = state.options, len(state.layers.layers) == 1
    settled = not options.prefetch or options.order != "fast" or options.allocator != "online"
    settled |= state.limits.part_by_part or not options.grouping or not options.interleaved
    if settled or not options.effort:
        return state
    made, left = encode(lower(state)), options.effort if lonely else options.effort // _PART
    if len(made.commands) > left:
        return state
    waiting = _waiting(made)
    best, least = state, cost_of(state, made.commands)
    for index, own in waiting:
        alone = place(best.choose(groups=_apart(best.groups, index)))
        for tiles in _strategies(alone, index)[: _TRIES if lonely else 1]:
            if tiles.cycles * options.batch > own * _OVER or left < len(made.commands):
                break
            plans = Plans({**alone.plans.convs, index: tiles}, alone.plans.lead)
            tried = lower(place(alone.choose(plans=plans)))
            if tried.shortage is not None:
                break
            commands = encode(tried).commands
            left -= len(commands)
            if (found := cost_of(state, commands)) < _LESS * least:
                best, least = tried, found
    return best


def _apart(groups: tuple[Group, ...], index: int) -> tuple[Group, ...]:
    """Return the groups, a single layer uncut."""
    one = range(index, index + 1)
    return tuple(Group(one) if each.layers == one else each for each in groups)


def _strategies(state: State, index: int) -> list[TilePlan]:
    """Return what expresses a layer and where its tensors are, the cheapest first."""
    from tpulite.compiler.lower.tiles import TiledLayer

    layers, placement = state.layers, state.placement
    layer, rows = layers.layers[index], placement.free_rows[index]
    if len(layers.layers) == 1:
        rows = state.config.ub_rows
    source, target = (placement.stores[name].part() for name in (layer.inputs[0], layer.output))
    tiled = TiledLayer.of(layers, index, (source, target), state.pool)
    return [] if tiled is None else tiled.plans(rows)


def _waiting(state: State) -> list[tuple[int, int]]:
    """Return single layers, and the cycles from the end of those before them to their own.

    They come in the order of the cycles in which their busiest engine waits. Layers among others
    that wait too little for tiles to replace strips are left out.
    """
    timeline = timeline_of(state, state.commands)
    count = len(state.layers.layers)
    busy, ends = [Counter() for _ in range(count)], [0] * count
    for times, owner in zip(timeline.times, state.owners, strict=False):  # END has no owner
        busy[owner][times.engine] += times.busy
        ends[owner] = max(ends[owner], times.stop)
    single = {each.layers.start for each in state.groups if len(each.layers) == 1}
    least, before, found = (1 - _LESS) * timeline.cycles, 0, []
    for index, end in enumerate(ends):
        own, before = max(end - before, 0), max(before, end)
        waits = own - max(busy[index].values(), default=0)
        if index in single and (waits > least or count == 1):
            found.append((waits, index, own))
    return [each[1:] for each in sorted(found, key=lambda each: (-each[0], each[1]))]
