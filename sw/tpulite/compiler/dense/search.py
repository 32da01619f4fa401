"""Search: choose how every layer is cut, by estimated cycles."""

import math
from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import islice

from tpulite.arch.config import Config
from tpulite.compiler.dense.choices import Choice, Site, Surroundings
from tpulite.compiler.dense.pack import Constants
from tpulite.compiler.dense.plan import LayerPlan, LayerShape, NetworkPlan, chunks, vector_align
from tpulite.compiler.dense.tile import Residency, layer_shapes, resident_rows
from tpulite.compiler.tiling.cut import split
from tpulite.graph.network import Network

__all__ = ["EFFORT", "plan_network"]

EFFORT = 20_000
"""Commands whose cycles are estimated in a search, all candidates together: about a second."""

_SHARE = 20
"""Part of the effort that one candidate may take: where commands are many, each matters less."""

_LEADS = (2, 0, 1, 4, 8)
"""How many loads may go ahead of a CONV."""

_STARTS = 8
"""Starts among which the one with the fewest cycles is tried, too."""

_State = tuple[tuple[Choice, ...], int]


def plan_network(
    network: Network,
    constants: Constants,
    config: Config,
    batch: int,
    order: str,
    residency: Residency | None,
    effort: int,
    cost: Callable[[NetworkPlan], float],
) -> NetworkPlan:
    """Choose how to cut every layer, and which tensors stay in the unified buffer.

    Parameters
    ----------
    network, constants : Network, Constants
        The network, and the sizes of its records.
    config : Config
        The machine.
    batch : int
        Vectors of a run.
    order : str
        ``fast`` or ``document``.
    residency : Residency, optional
        Whether constants stay in the unified buffer.
    effort : int
        Commands that the search may estimate.
    cost : callable
        Estimated cycles of a plan; infinite if it does not fit.

    Returns
    -------
    NetworkPlan
        The best plan found.

    Raises
    ------
    ValueError
        If nothing fits the unified buffer.
    """
    shapes = layer_shapes(network, config, batch)
    resident = resident_rows(constants, shapes, config)[1] if residency else 0
    if resident > config.ub_rows:
        raise ValueError(
            f"Constants of network {network.name!r} need {resident} rows, the unified buffer has "
            f"{config.ub_rows}"
        )
    stay = _keep_on_chip(shapes, (config.ub_rows - resident) // 2)
    for on_chip in dict.fromkeys([stay, (False,) * len(shapes)]):
        if order == "document":
            plans = _document_plans(shapes, on_chip, config)
            plan = next((plan for plan in plans if cost(plan) < math.inf), None)
        else:
            sites = []
            for i, (layer, shape) in enumerate(zip(network.layers, shapes, strict=True)):
                before = shape.k_tiles * batch if i and on_chip[i - 1] else 0
                after = shape.n_blocks * batch if on_chip[i] else 0
                around = Surroundings(
                    free_rows=config.ub_rows - resident - before - after,
                    inputs_in_dram=not before,
                    outputs_in_dram=not after,
                    weights_in_dram=residency is None,
                    vector_rows=4 if layer.raw else 1,
                    record_rows=constants.layers[i].record_rows if residency is None else 0,
                )
                sites.append(Site(shape, around, config))
            plan = _search(shapes, sites, on_chip, effort, cost)
        if plan is not None:
            return plan
    raise ValueError(
        f"Network {network.name!r} with batch {batch} has no plan that fits the unified buffer of "
        f"{config.ub_rows} rows"
    )


def _keep_on_chip(shapes: tuple[LayerShape, ...], rows: int) -> tuple[bool, ...]:
    """Let an output stay if it fits ``rows``, beside the input if that stays; never the last."""
    stay: list[bool] = []
    before = 0
    for shape in shapes[:-1]:
        after = shape.n_blocks * shape.m
        stay.append(before + after <= rows)
        before = after if stay[-1] else 0
    return (*stay, False)


def _document_plans(
    shapes: tuple[LayerShape, ...], on_chip: tuple[bool, ...], config: Config
) -> Iterator[NetworkPlan]:
    """Yield plans of the order for i in k-tiles, for j in n-blocks: ``acc[j] += A[i] @ W[i, j]``.

    First with as many accumulators side by side as there are, then with the four that the order
    asks for and ever smaller parts of M.
    """
    align = vector_align(config)
    parts, accumulators = 1, config.acc_rows
    while True:
        for whole_k, keep_weights in ((True, True), (True, False), (False, False)):
            layers = []
            for shape in shapes:
                needed = -(-shape.m * min(4, shape.n_blocks) // config.acc_rows)
                m_parts = split(shape.m, max(parts, needed), align)
                group = config.acc_rows // max(map(len, m_parts))
                ones = chunks(shape.k_tiles, "ones")
                plan = LayerPlan(
                    m_parts=m_parts,
                    group=max(1, min(shape.n_blocks, group, accumulators)),
                    head=ones,
                    body=ones,
                    tail=(len(m_parts[-1]),),
                    whole_k=whole_k,
                    keep_weights=keep_weights,
                )
                layers.append(plan)
            yield NetworkPlan(tuple(layers), on_chip)
        if accumulators > 4:
            accumulators = 4
        elif parts * align >= shapes[0].m:
            return
        else:
            parts *= 2


def _search(
    shapes: tuple[LayerShape, ...],
    sites: list[Site],
    on_chip: tuple[bool, ...],
    effort: int,
    cost: Callable[[NetworkPlan], float],
) -> NetworkPlan | None:
    """Choose the plan of every layer by estimated cycles of the whole program.

    A closed form (compute or DRAM, whichever takes longer, and the first operands) ranks starts for
    each layer. From the first one choice of one layer at a time is varied, and kept if it pays;
    then, with less effort, from the start that takes the fewest cycles.
    """

    def network_plan(state: _State) -> NetworkPlan:
        choices, lead = state
        layers = (site.plan(choice) for site, choice in zip(sites, choices, strict=True))
        return NetworkPlan(tuple(layers), on_chip, lead)

    @cache
    def state_cost(state: _State) -> float:
        return cost(network_plan(state))

    starts = _starts_that_fit([site.ranked() for site in sites], state_cost)
    first = next(starts, None)
    if first is None:
        return None

    def climb(best: _State, left: int) -> _State:
        before = None
        while best != before:
            before = best
            neighbors = _neighbors(sites, best)
            state = next(neighbors)
            while state is not None:
                commands = sum(map(LayerPlan.commands, network_plan(state).layers, shapes))
                if commands <= min(left, effort // _SHARE):
                    left -= commands
                    if state_cost(state) < state_cost(best):
                        best = state
                state = neighbors.send(best)
        return best

    best = climb(first, effort)
    if effort:
        others = islice(starts, _STARTS - 1)
        best = min(best, climb(min((first, *others), key=state_cost), effort // 4), key=state_cost)
    return network_plan(best)


def _starts_that_fit(
    ranked: list[list[Choice]], state_cost: Callable[[_State], float]
) -> Iterator[_State]:
    """Yield guesses that fit, the best first: the closed form knows nothing of fragmentation."""
    for i in range(max(map(len, ranked))):
        choices = tuple(of_site[min(i, len(of_site) - 1)] for of_site in ranked)
        if state_cost((choices, _LEADS[0])) < math.inf:
            yield choices, _LEADS[0]


def _neighbors(sites: list[Site], best: _State) -> Generator[_State | None, _State, None]:
    """Yield states that differ in one choice from the best one, which is sent back; then None."""
    for i, site in enumerate(sites):
        for vary in site.variations():
            for choice in list(vary(best[0][i])):
                if site.fits(choice):
                    best = yield (*best[0][:i], choice, *best[0][i + 1 :]), best[1]
    for lead in _LEADS:
        best = yield best[0], lead
    yield None
