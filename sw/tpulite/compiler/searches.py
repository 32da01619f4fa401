"""Searches: what fits, and which groups and plans the program as a whole is fastest with."""

import math
from dataclasses import replace

from tpulite.arch.isa import RAW_ROWS
from tpulite.compiler.cuts import CutSearch
from tpulite.compiler.geometry.extents import used_blocks
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.search import group_layers, regroup_layers
from tpulite.compiler.lower.conv.chunks import conv_extents
from tpulite.compiler.options import LEAST_EFFORT
from tpulite.compiler.plan.alone import Surroundings
from tpulite.compiler.plan.choices import LayerChoices
from tpulite.compiler.plan.search import Chosen, search_plans
from tpulite.compiler.schedule.schedule import LEAD
from tpulite.compiler.stages import group, lower, place, predict_cost, predict_idle
from tpulite.compiler.state import Limits, Plans, State, memoized
from tpulite.graph.layers import Conv

_MOST = 9
"""The effort falls with the square of the number of layers, but not for the first few."""

_GROUPS = 2
"""Part of the effort that other groups are worth."""

_PROGRAMS = 4
"""Programs that must be worth it, or none is tried."""


def fit_buffer(state: State) -> State:
    """Lower a network; as long as a buffer finds no place, choose groups under tighter limits."""
    state = lower(state)
    while state.shortage is not None:
        state = lower(place(group(state.choose(limits=tightened(state), plans=Plans()))))
    return state


@memoized("limits", "groups", "plans")
def tightened(state: State) -> Limits:
    """Return what must be respected, too, because a buffer has no place.

    An activation leaves the buffer; a group gives way to its layers; of a layer alone, the largest
    activation beside it leaves. If there is none, each layer that is alone is cut as finely as it
    must be, and those around it have nothing on chip.

    Raises
    ------
    ValueError
        If nothing is left to give up.
    """
    assert state.shortage is not None
    limits, layers, groups, placement = state.limits, state.layers, state.groups, state.placement
    buffer = state.shortage.buffer
    users = (op for op in state.tiling.ops if any(r.buffer is buffer for r in op.rows.values()))
    index = next(users).layer
    short = next(each for each in groups if index in each.layers)
    if buffer.name in layers.activations and buffer.name not in limits.outside:
        return replace(limits, outside=limits.outside | {buffer.name})
    if not short.alone:
        return replace(limits, refused=limits.refused | {short})
    live = placement.live[index]
    if limits.part_by_part or not live:
        away = {name for name, store in placement.stores.items() if not store.resident}
        outside = limits.outside | live | away
        alone = {each.layers.start for each in groups if each.alone} - set(limits.cuts)
        settled = {i for i in alone if placement.live[i] <= outside}
        finer = replace(limits, outside=outside, part_by_part=True)
        for each in sorted(settled | {index}):
            finer = _finer(state, finer, each)
        if finer == limits:
            raise _refusal(state, index, str(state.shortage))
        return finer
    largest = max(live, key=lambda name: (placement.stores[name].rows, name))
    return replace(limits, outside=limits.outside | {largest})


def _finer(state: State, limits: Limits, index: int) -> Limits:
    """Return the same with a layer cut as it must be."""
    groups = limits.cut(state.groups)
    search = CutSearch(state.layers, groups, index, state.config, state.options, limits.outside)
    if search.uncut:
        return limits
    cut = search.best()
    if cut is None:
        raise _refusal(state, index, search.needs())
    return replace(limits, cuts={**limits.cuts, index: cut})


def _refusal(state: State, index: int, reason: str) -> ValueError:
    config, layers = state.config, state.layers
    return ValueError(
        f"Network {layers.name!r} does not fit the unified buffer of {config.ub_rows} rows "
        f"({config.ub_rows * config.row_bytes} bytes), even cut into slices: "
        f"layer {layers.layers[index].name!r}: {reason}"
    )


def choose_groups(state: State) -> State:
    """Choose the groups and plans of which the program takes the fewest cycles, of some that fit.

    Tried are layers alone instead of each group, and the other way round; random changes; and
    layers alone with plans. How many depends on the effort, and on the commands of a program.
    """
    layers, groups, options = state.layers, state.groups, state.options
    commands = len(state.tiling.ops)
    settled = options.order != "fast" or not options.grouping
    settled |= state.pool.pins is not None or options.groups == "document"
    settled |= all(store.resident for store in state.placement.stores.values())
    left = options.effort // _GROUPS
    if settled or _PROGRAMS * commands > left:
        return state
    known: dict[tuple[Group, ...], float] = {}

    def cost(changed: tuple[Group, ...]) -> float:
        nonlocal left
        if changed == groups and changed not in known:
            known[changed], _ = predict_cost(state)
        if changed not in known:
            if left < commands:
                return math.inf
            tried = place(state.choose(groups=changed, plans=Plans()))
            known[changed], count = predict_cost(tried)
            left -= count
        return known[changed]

    ways = {regroup_layers(layers, groups, state.config, options, cost)}
    if not all(each.alone for each in groups):
        ways.add(group_layers(layers, state.config, options.ungrouped))
    best = state
    for way in sorted(ways - {groups}, key=cost):
        tried = place(state.choose(groups=way, plans=Plans()))
        if "choose-plans" not in options.without:
            tried = choose_plans(tried)
        if (found := predict_cost(tried)[0]) < cost(groups):
            known[groups], best = found, tried
    return best


def choose_plans(state: State) -> State:
    """Choose plans for the layers that run alone, with an effort that small programs are worth."""
    options, layers = state.options, state.layers
    effort = min(options.effort, _MOST * options.effort // len(layers.layers) ** 2)
    ordered = options.order != "fast"
    settled = not options.prefetch or options.batch > 1
    if settled or state.limits != Limits() or (effort < LEAST_EFFORT and not ordered):
        return state
    sites = _sites(state)
    if not sites:
        return state

    def planned(chosen: Chosen) -> State:
        pairs = zip(sites.items(), chosen[0], strict=True)
        plans = {i: site.plan(choice) for (i, site), choice in pairs if choice}
        return replace(state, plans=Plans(plans, chosen[1]))

    def cost(chosen: Chosen) -> tuple[float, int]:
        return predict_cost(planned(chosen))

    if ordered:
        lists = [site.ordered(options.order) for site in sites.values()]
        choices: list[Chosen] = [
            (tuple(each[min(i, len(each) - 1)] if each else None for each in lists), 2)
            for i in range(max(map(len, lists)))
        ]
        return next((planned(each) for each in choices if cost(each)[0] < math.inf), state)

    def idle(chosen: Chosen) -> int:
        return predict_idle(planned(chosen))

    first: Chosen = (None,) * len(sites), LEAD
    return planned(search_plans(tuple(sites.values()), first, cost, idle, effort, options.seed))


def _sites(state: State) -> dict[int, LayerChoices]:
    """Return the layers that can have a plan.

    A plan multiplies all tiles of weights, so a layer that could do without some cuts itself,
    unless an order was asked for.
    """
    placement, pins, config = state.placement, state.pool.pins, state.config
    pinned, loaded = pins is not None, pins is not None and pins.loaded
    sites = {}
    for each in state.groups:
        index = each.layers.start
        layer = state.layers.layers[index]
        if not each.alone or each.finer or not isinstance(layer, Conv):
            continue
        if state.options.order == "fast" and not used_blocks(layer, config.array_size).all():
            continue
        source, target = placement.stores[layer.inputs[0]], placement.stores[layer.output]
        extents = conv_extents(layer, source, target, config)
        if extents is None:
            continue
        around = Surroundings(
            free_rows=placement.free_rows[index],
            input_in_dram=not source.resident,
            output_in_dram=not target.resident,
            loaded=source.given or not source.resident,
            stored=target.stored,
            weights_in_dram=not loaded,
            vector_rows=1 if layer.requantization else RAW_ROWS,
            record_rows=config.record_rows if layer.requantization and not pinned else 0,
        )
        sites[index] = LayerChoices(extents, around, config)
    return sites
