"""Local search: choose how every convolution is cut, by estimated cycles of the whole program."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from itertools import islice
from random import Random

from tpulite.compiler.plan.choices import VARIATIONS, Choice, LayerChoices

LEADS = (2, 0, 1, 4, 8)
"""How many loads may go ahead of a CONV."""

_SHARE = 4
"""Part of the effort that one candidate may take: where commands are many, each matters less."""

_STARTS = 8
"""Starts among which those with the fewest cycles are improved."""

_GENEROUS = 4
"""How many times the effort starts may take."""

_MOVES = 1000
"""Random moves that are tried at most, when no single variation pays any more."""

_CLIMB = 2
"""Part of the effort for a start that is improved by variations in turn."""

_WORSE = 1.005
"""Moves that make it so much worse are made, too: better ones may lie behind."""

Chosen = tuple[tuple[Choice | None, ...], int]
"""A choice for each site, none if the layer cuts itself; and how many loads may go ahead."""


def search_plans(
    sites: Sequence[LayerChoices],
    first: Chosen,
    cost: Callable[[Chosen], tuple[float, int]],
    idle: Callable[[Chosen], int],
    effort: int,
    seed: int,
) -> Chosen:
    """Return the best choices found.

    A closed form (compute or DRAM, whichever takes longer, and the first operands) ranks starts for
    each layer. From the first that fits one choice of one layer at a time is varied, and kept if it
    pays; then random changes of one to three choices.

    Parameters
    ----------
    sites : sequence of LayerChoices
        Layers that have a choice.
    first : Chosen
        What is compared with whatever is found.
    cost : callable
        Estimated cycles of choices, infinite if they do not fit; and commands that were estimated.
    idle : callable
        Cycles in which the busiest engine waits: about what other choices can gain.
    effort : int
        Commands that may be estimated; as many again of programs that do not fit. Starts may take
        a few times as many, and a command for each cycle that can be gained.
    seed : int
        Of random moves: equal seeds give equal choices.
    """
    spent = wasted = 0

    @cache
    def cycles(state: Chosen) -> float:
        nonlocal spent, wasted
        if wasted > effort and state != first:
            return math.inf
        found, commands = cost(state)
        if found < math.inf:
            spent += commands
        else:
            wasted += commands
        return found

    def climb(best: Chosen, limit: int) -> Chosen:
        before = None
        while best != before:
            before = best
            neighbors = _neighbors(sites, best)
            state = next(neighbors)
            while state is not None:
                most = min(limit - spent, effort // _SHARE)
                hopeful = _bound(sites, state) < cycles(best)
                if hopeful and _commands(sites, state) <= most and cycles(state) < cycles(best):
                    best = state
                state = neighbors.send(best)
        return best

    starts = _starts([site.ranked() for site in sites], cycles)
    # Those of several layers are tried together, which says less and less.
    found = []
    for start in islice(starts, _STARTS // min(2, len(sites))):
        found.append(start)
        if spent > _GENEROUS * effort and spent > idle(first):
            break
    if not found:
        return first
    best = climb(min(found, key=cycles), effort // _CLIMB)
    here = best
    random = Random(seed + 1)
    for _ in range(_MOVES):
        state = _moved(sites, here, random)
        if spent + _commands(sites, state) > effort:
            break
        if _bound(sites, state) < cycles(best) and cycles(state) < cycles(best) * _WORSE:
            here = state
            best = min(best, state, key=cycles)
    return min(first, best, key=cycles)


def _moved(sites: Sequence[LayerChoices], state: Chosen, random: Random) -> Chosen:
    """Return a state that differs in one to three respects."""
    choices, lead = list(state[0]), state[1]
    for _ in range(random.randint(1, 3)):
        i = random.randrange(len(sites) + 1)
        if i == len(sites):
            lead = random.choice(LEADS)
        elif (choice := choices[i]) is not None:
            choices[i] = sites[i].drawn(choice, random)
    return tuple(choices), lead


def _commands(sites: Sequence[LayerChoices], state: Chosen) -> int:
    pairs = zip(sites, state[0], strict=True)
    return sum(site.plan(choice).commands(site.extents) for site, choice in pairs if choice)


def _bound(sites: Sequence[LayerChoices], state: Chosen) -> int:
    """Return cycles that the array needs at least for the layers that have a plan."""
    return sum(site.bound(choice) for site, choice in zip(sites, state[0], strict=True) if choice)


def _starts(ranked: list[list[Choice]], cycles: Callable[[Chosen], float]) -> Iterator[Chosen]:
    """Yield guesses that fit, the best first: the closed form knows nothing of fragmentation."""
    for i in range(max(map(len, ranked), default=0)):
        choices = tuple(each[min(i, len(each) - 1)] if each else None for each in ranked)
        if cycles((choices, LEADS[0])) < math.inf:
            yield choices, LEADS[0]


def _neighbors(
    sites: Sequence[LayerChoices], best: Chosen
) -> Generator[Chosen | None, Chosen, None]:
    """Yield states that differ in one choice from the best one, which is sent back; then None."""
    for number in range(VARIATIONS):
        for i, site in enumerate(sites):
            choice = best[0][i]
            for other in site.promising(choice, number) if choice else ():
                best = yield (*best[0][:i], other, *best[0][i + 1 :]), best[1]
        for lead in LEADS if number == 0 else ():
            best = yield best[0], lead
    yield None
