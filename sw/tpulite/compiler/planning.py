"""What small programs are worth: groups and plans that the program as a whole is judged by."""

import math

from tpulite.arch.isa import RAW_ROWS
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.used_blocks import used_blocks
from tpulite.compiler.group.search import group_layers, regroup_layers
from tpulite.compiler.judge import Judge, Plans
from tpulite.compiler.limits import Limits
from tpulite.compiler.lower.conv.chunks import conv_extents
from tpulite.compiler.options import LEAST_EFFORT
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.plan.alone import Surroundings
from tpulite.compiler.plan.choices import LayerChoices
from tpulite.compiler.plan.search import Chosen, search_plans
from tpulite.compiler.schedule.schedule import LEAD
from tpulite.graph.layers import Conv

__all__ = ["choose_groups", "choose_plans"]

_MOST = 9
"""The effort falls with the square of the number of layers, but not for the first few."""

_GROUPS = 2
"""Part of the effort that other groups are worth."""

_PROGRAMS = 4
"""Programs that must be worth it, or none is tried."""


def choose_groups(
    judge: Judge, groups: tuple[Group, ...], placement: Placement, plans: Plans, commands: int
) -> tuple[tuple[Group, ...], Plans]:
    """Return the groups and plans of which the program takes the fewest cycles, of some that fit.

    Tried are layers alone instead of each group, and the other way round; random changes; and
    layers alone with plans. How many depends on the effort, and on the commands of a program.

    Parameters
    ----------
    judge : Judge
        Knows the network and its limits.
    groups : tuple of Group
        Groups that are known to fit.
    placement : Placement
        Where images are then.
    plans : Plans
        And how layers are cut.
    commands : int
        And how many commands there are.
    """
    layers, config, options = judge.layers, judge.known.config, judge.options
    settled = options.order != "fast" or not options.grouping
    settled |= judge.pool.pins is not None or options.groups == "document"
    settled |= all(store.resident for store in placement.stores.values())
    left = options.effort // _GROUPS
    if settled or _PROGRAMS * commands > left:
        return groups, plans
    known: dict[tuple[Group, ...], float] = {}

    def cost(changed: tuple[Group, ...]) -> float:
        nonlocal left
        if changed == groups and changed not in known:
            known[changed], _ = judge.cost(groups, placement, plans)
        if changed not in known:
            if left < commands:
                return math.inf
            known[changed], count = judge.cost(changed, judge.place(changed), Plans())
            left -= count
        return known[changed]

    ways = {regroup_layers(layers, groups, config, options, cost)}
    if not all(group.alone for group in groups):
        ways.add(group_layers(layers, config, options.ungrouped))
    best = groups, plans
    for way in sorted(ways - {groups}, key=cost):
        where = judge.place(way)
        others = choose_plans(judge, way, where)
        if (found := judge.cost(way, where, others)[0]) < cost(groups):
            known[groups], best = found, (way, others)
    return best


def choose_plans(judge: Judge, groups: tuple[Group, ...], placement: Placement) -> Plans:
    """Search plans for the layers that run alone, with an effort that small programs are worth.

    Parameters
    ----------
    judge : Judge
        Knows the network.
    groups : tuple of Group
        Which of its layers run together.
    placement : Placement
        Where images are.
    """
    options, layers = judge.options, judge.layers
    effort = min(options.effort, _MOST * options.effort // len(layers.layers) ** 2)
    ordered = options.order != "fast"
    settled = not options.prefetch or options.batch > 1
    if settled or judge.limits != Limits() or (effort < LEAST_EFFORT and not ordered):
        return Plans()
    sites = _sites(judge, groups, placement)
    if not sites:
        return Plans()

    def plans(chosen: Chosen) -> Plans:
        pairs = zip(sites.items(), chosen[0], strict=True)
        return Plans({i: site.plan(choice) for (i, site), choice in pairs if choice}, chosen[1])

    def cost(chosen: Chosen) -> tuple[float, int]:
        return judge.cost(groups, placement, plans(chosen))

    if ordered:
        lists = [site.ordered(options.order) for site in sites.values()]
        states: list[Chosen] = [
            (tuple(each[min(i, len(each) - 1)] if each else None for each in lists), 2)
            for i in range(max(map(len, lists)))
        ]
        fitting = (plans(state) for state in states if cost(state)[0] < math.inf)
        return next(fitting, Plans())

    def idle(chosen: Chosen) -> int:
        return judge.idle(groups, placement, plans(chosen))

    first: Chosen = (None,) * len(sites), LEAD
    return plans(search_plans(tuple(sites.values()), first, cost, idle, effort, options.seed))


def _sites(
    judge: Judge, groups: tuple[Group, ...], placement: Placement
) -> dict[int, LayerChoices]:
    """Return the layers that can have a plan.

    A plan multiplies all tiles of weights, so a layer that could do without some cuts itself,
    unless an order was asked for.
    """
    layers, pins, config = judge.layers, judge.pool.pins, judge.known.config
    pinned, loaded = pins is not None, pins is not None and pins.loaded
    sites = {}
    for group in groups:
        index = group.layers.start
        layer = layers.layers[index]
        if not group.alone or group.finer or not isinstance(layer, Conv):
            continue
        if judge.options.order == "fast" and not used_blocks(layer, config.array_size).all():
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
