"""Search: choose how every layer is cut, by estimated cycles."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.pack import Constants
from tpulite.compiler.plan import (
    CHUNK_STYLES,
    MAX_K_TILES,
    LayerPlan,
    LayerShape,
    NetworkPlan,
    chunks,
    split,
    vector_align,
)
from tpulite.compiler.tile import Residency, layer_shapes, resident_rows
from tpulite.graph.network import Network

__all__ = ["EFFORT", "plan_network"]

EFFORT = 20_000
"""Commands whose cycles are estimated in a search, all candidates together: about a second."""

_SHARE = 20
"""Part of the effort that one candidate may take: where commands are many, each matters less."""

_TAILS = {"one": (1,), "half": (1, 1), "quarter": (3, 1), "sixth": (3, 2, 1)}
"""Relative sizes of the pieces of the last n-block."""


@dataclass(frozen=True)
class _Surroundings:
    """What a layer finds around it.

    Parameters
    ----------
    free_rows : int
        Rows of the unified buffer beside tensors and constants that stay there.
    inputs_in_dram, outputs_in_dram : bool
        Whether they must be loaded and stored.
    weights_in_dram : bool
        Whether they must be loaded.
    vector_rows, record_rows : int
        Rows of an output vector and of the records of an n-block.
    """

    free_rows: int
    inputs_in_dram: bool
    outputs_in_dram: bool
    weights_in_dram: bool
    vector_rows: int
    record_rows: int


@dataclass(frozen=True)
class _Choice:
    """The free variables of a plan."""

    parts: int
    group: int
    k_chunk: int  # k-tiles of a chunk if inputs are streamed, else 0
    keep_weights: bool
    head: str = "grow"
    body: str = "whole"
    tail: str = "half"


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
    resident = resident_rows(constants, shapes, config)[-1] if residency else 0
    if resident > config.ub_rows:
        raise ValueError(
            f"Network {network.name!r} has {resident} rows of constants, more than the "
            f"{config.ub_rows} of the unified buffer"
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
                around = _Surroundings(
                    free_rows=config.ub_rows - resident - before - after,
                    inputs_in_dram=not before,
                    outputs_in_dram=not after,
                    weights_in_dram=residency is None,
                    vector_rows=4 if layer.raw else 1,
                    record_rows=constants.layers[i].record_rows if residency is None else 0,
                )
                sites.append(_Site(shape, around, config))
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
    sites: list["_Site"],
    on_chip: tuple[bool, ...],
    effort: int,
    cost: Callable[[NetworkPlan], float],
) -> NetworkPlan | None:
    """Choose the plan of every layer by estimated cycles of the whole program.

    A closed form (compute or DRAM, whichever takes longer, and the first operands) picks a start
    for each layer. From there one choice of one layer at a time is varied, and kept if it pays.
    """

    @cache
    def network_cost(choices: tuple[_Choice, ...]) -> float:
        return cost(network_plan(choices))

    def network_plan(choices: tuple[_Choice, ...]) -> NetworkPlan:
        layers = (site.plan(choice) for site, choice in zip(sites, choices, strict=True))
        return NetworkPlan(tuple(layers), on_chip)

    def commands(choices: tuple[_Choice, ...]) -> int:
        plans = network_plan(choices).layers
        return sum(map(LayerPlan.commands, plans, shapes))

    ranked = [site.ranked() for site in sites]
    best = tuple(choices[0] for choices in ranked)
    # The closed form knows nothing of fragmentation: worse choices follow until one fits.
    for i in range(1, max(map(len, ranked))):
        if network_cost(best) < math.inf:
            break
        best = tuple(choices[min(i, len(choices) - 1)] for choices in ranked)
    else:
        if network_cost(best) == math.inf:
            return None
    left = effort
    before = None
    while best != before:
        before = best
        for i, site in enumerate(sites):
            for vary in site.variations():
                for choice in list(vary(best[i])):
                    choices = (*best[:i], choice, *best[i + 1 :])
                    size = commands(choices)
                    if size > min(left, effort // _SHARE) or not site.fits(choice):
                        continue
                    left -= size
                    if network_cost(choices) < network_cost(best):
                        best = choices
    return network_plan(best)


class _Site:
    """One layer: its legal choices, and what they cost by the closed form."""

    def __init__(self, shape: LayerShape, around: _Surroundings, config: Config) -> None:
        self._shape, self._around, self._config = shape, around, config
        self._align = vector_align(config)

    def ranked(self) -> list[_Choice]:
        """Return start choices, the cheapest first; those that need not fit are left out."""
        choices = [choice for choice in self._starts() if self.fits(choice)]
        smallest = _Choice(self._shape.m, 1, 1, False, "ones", "ones", "one")
        return [*sorted(choices, key=self._closed_form), smallest]

    def plan(self, choice: _Choice) -> LayerPlan:
        """Turn a choice into a plan."""
        shape = self._shape
        m_parts = split(shape.m, choice.parts, self._align)
        head, body = chunks(shape.k_tiles, choice.head), chunks(shape.k_tiles, choice.body)
        if choice.k_chunk:
            parts = -(-shape.k_tiles // choice.k_chunk)
            head = body = tuple(len(piece) for piece in split(shape.k_tiles, parts, 1))
        return LayerPlan(
            m_parts=m_parts,
            group=choice.group,
            head=head,
            body=body,
            tail=self._tail(len(m_parts[-1]), _TAILS[choice.tail]),
            whole_k=not choice.k_chunk,
            keep_weights=choice.keep_weights and not choice.k_chunk,
        )

    def variations(self) -> list[Callable[[_Choice], Iterator[_Choice]]]:
        """Return functions from a choice to those that differ from it in one respect."""
        around = self._around
        heads = [
            {"group": group, "head": head, "k_chunk": 0}
            for group in self._groups()
            for head in CHUNK_STYLES
        ]
        parts = [
            {"parts": parts, "keep_weights": keep}
            for parts in self._parts()
            for keep in ((True, False) if parts > 1 and around.weights_in_dram else (True,))
        ]
        bodies = [{"body": body} for body in ("whole", "last", "halves", "quarters")]
        tails = [{"tail": tail} for tail in (_TAILS if around.outputs_in_dram else ("one",))]

        def vary(changes: list[dict]) -> Callable[[_Choice], Iterator[_Choice]]:
            return lambda choice: (replace(choice, **change) for change in changes)

        return [vary(changes) for changes in (heads, parts, bodies, tails)]

    def fits(self, choice: _Choice) -> bool:
        """Whether accumulators and the buffer have room for a choice, as far as sizes tell."""
        shape, around, config = self._shape, self._around, self._config
        plan = self.plan(choice)
        m = max(map(len, plan.m_parts))
        group = min(choice.group, shape.n_blocks)
        if group * m > config.acc_rows:
            return False
        held = shape.k_tiles if plan.whole_k else max(plan.head)
        rows = around.record_rows * (shape.n_blocks if plan.keep_weights else group)
        if around.inputs_in_dram:
            rows += held * max(m, self._align)
        if around.outputs_in_dram:
            rows += m * around.vector_rows
        if around.weights_in_dram:
            blocks = shape.n_blocks if plan.keep_weights else group if plan.whole_k else 1
            rows += held * config.array_size * blocks
        return rows <= around.free_rows

    def _starts(self) -> Iterator[_Choice]:
        chunk_sizes = [0, *(1 << i for i in range(min(self._shape.k_tiles, 64).bit_length()))]
        for parts in self._parts():
            # Pieces of less than N vectors would cost more than they save.
            tail = "half" if self._shape.m >= 2 * parts * self._config.array_size else "one"
            for group in self._groups():
                for k_chunk in chunk_sizes:
                    if k_chunk <= MAX_K_TILES:
                        for keep in (True, False) if not k_chunk and parts > 1 else (not k_chunk,):
                            yield _Choice(parts, group, k_chunk, keep, tail=tail)

    def _parts(self) -> Iterator[int]:
        m = self._shape.m
        parts = -(-m // self._config.acc_rows)
        while True:
            yield parts
            if m <= parts * self._align:
                return
            parts *= 2

    def _groups(self) -> Iterator[int]:
        group = 1
        while group < self._shape.n_blocks:
            yield group
            group *= 2
        yield self._shape.n_blocks

    def _tail(self, m: int, weights: tuple[int, ...]) -> tuple[int, ...]:
        units, total = -(-m // self._align), sum(weights)
        bounds = [units * sum(weights[:i]) // total for i in range(len(weights) + 1)]
        edges = [min(m, bound * self._align) for bound in bounds]
        return tuple(b - a for a, b in pairwise(edges) if b > a)

    def _closed_form(self, choice: _Choice) -> tuple[float, ...]:
        shape, around, config = self._shape, self._around, self._config
        plan = self.plan(choice)
        size = config.array_size
        tiles = shape.k_tiles * shape.n_blocks
        compute = tiles * sum(max(len(part), size) for part in plan.m_parts)
        per_row = max(1, config.row_bytes // BEAT_BYTES)
        load = plan.loaded_rows(shape, config, inputs=around.inputs_in_dram)
        if not around.weights_in_dram:
            load -= tiles * size
        m = max(map(len, plan.m_parts))
        first = (m if around.inputs_in_dram else 0) + size
        last = m if around.outputs_in_dram else 0
        commands = plan.commands(shape)
        return (max(compute, load * per_row) + first + last + commands, not plan.whole_k, commands)
