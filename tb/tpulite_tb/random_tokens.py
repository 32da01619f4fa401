"""Gives random but sufficient tokens to a sequence of commands.

Orders are kept as a plain graph: for each event, a start or a completion, the set of all events
that surely happen before it.
"""

import random
from collections.abc import Sequence

from tpulite.arch.isa import Command, Engine, Opcode
from tpulite_tb.random_state import Drawn

__all__ = ["add_tokens"]


def add_tokens(
    rng: random.Random, drawn: Sequence[Drawn], *, prefetch: float = 0.7, superfluous: float = 0.15
) -> list[Command]:
    """Return the commands with waits, signals and prefetch flags.

    Parameters
    ----------
    rng : random.Random
        Source of all choices.
    drawn : sequence of Drawn
        Commands in program order, without END.
    prefetch : float
        Probability of the flag where it is legal.
    superfluous : float
        Probability, for each pair of engines, that a command waits for something that it need not.
    """
    order = _Order()
    waits = [0] * len(drawn)
    signals = [0] * len(drawn)
    prefetches = [False] * len(drawn)
    last_given: dict[tuple[Engine, Engine], int] = {}
    for b, now in enumerate(drawn):
        engine = _engine(now)
        earlier = {giver: order.commands(giver) for giver in Engine}
        order.start(b, engine)

        def give(a: int, taker: Engine = engine, b: int = b) -> None:
            giver = _engine(drawn[a])
            waits[b] |= 1 << giver
            signals[a] |= 1 << taker
            last_given[giver, taker] = a
            order.token(a, b)

        for giver in rng.sample(list(Engine), len(Engine)):
            needed = [a for a in earlier[giver] if _conflict(drawn[a], now)]
            if needed and not order.completes_before_start(needed[-1], b):
                # The last one will do, and so will any later one of its engine.
                give(rng.choice([a for a in earlier[giver] if a >= needed[-1]][:2]))
        for giver in Engine:
            free = [a for a in earlier[giver] if a > last_given.get((giver, engine), -1)]
            if free and not waits[b] >> giver & 1 and rng.random() < superfluous:
                give(rng.choice(free))
        if now.command.opcode == Opcode.CONV and earlier[engine]:
            previous = earlier[engine][-1]
            writers = [a for a in range(b) if drawn[a].writes & now.early]
            legal = all(order.completes_before_start(a, previous) for a in writers)
            prefetches[b] = legal and rng.random() < prefetch
        order.complete(b, engine)
    return [
        x.command.replace(
            wait=waits[i],
            signal=signals[i],
            **({"prefetch": 1} if prefetches[i] else {}),
        )
        for i, x in enumerate(drawn)
    ]


class _Order:
    """Everything that happens before each event; event 2i is the start of i, 2i + 1 its end."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._commands: dict[Engine, list[int]] = {engine: [] for engine in Engine}

    def commands(self, engine: Engine) -> list[int]:
        return list(self._commands[engine])

    def start(self, i: int, engine: Engine) -> None:
        previous = self._commands[engine][-1:]
        self._before[2 * i] = self._upto(2 * previous[0]) if previous else 0

    def token(self, giver: int, taker: int) -> None:
        self._before[2 * taker] |= self._upto(2 * giver + 1)

    def complete(self, i: int, engine: Engine) -> None:
        before = self._upto(2 * i)
        for previous in self._commands[engine][-1:]:
            before |= self._upto(2 * previous + 1)
        self._before[2 * i + 1] = before
        self._commands[engine].append(i)

    def completes_before_start(self, a: int, b: int) -> bool:
        return bool(self._before[2 * b] >> (2 * a + 1) & 1)

    def _upto(self, event: int) -> int:
        return self._before[event] | 1 << event


def _conflict(a: Drawn, b: Drawn) -> bool:
    """Say whether the effects of ``a`` must be visible before ``b`` starts."""
    hit = a.writes & (b.reads | b.early) or a.dram_writes & b.dram_reads
    if _engine(a) != _engine(b):
        # Within an engine writes follow earlier reads and writes anyway.
        hit = hit or (a.reads | a.early | a.writes) & b.writes or a.dram_reads & b.dram_writes
    return bool(hit)


def _engine(drawn: Drawn) -> Engine:
    engine = drawn.command.engine
    assert engine is not None, "END takes no tokens"
    return engine
