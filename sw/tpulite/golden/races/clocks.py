"""Vector clocks of the engines: what has surely completed when a command starts or completes."""

from collections import deque

from tpulite.arch.isa import TOKEN_MAX, Engine

NOBODY = len(Engine)
"""Stands for an engine where nobody has touched something."""

Clock = tuple[int, ...]
"""For each engine the number of its commands that have completed; a last entry, always zero, for
``NOBODY``."""

_MEMBERS = tuple(
    tuple(engine for engine in Engine if mask >> engine & 1) for mask in range(1 << len(Engine))
)
"""The engines that a mask names."""


class EngineClocks:
    """Clocks of a command stream, taken through in program order.

    The commands of an engine start in order and complete in order, a command completes after it
    has started, and a token orders the completion of its giver before the start of its taker. The
    n-th token of a pair of engines is the n-th taken, because both sides are in order. Nothing else
    orders anything, so for every event a prefix of each engine's commands is known to be complete.
    """

    def __init__(self) -> None:
        zero = (0,) * (NOBODY + 1)
        self._started: list[Clock] = [zero] * NOBODY
        self._previous: list[Clock] = [zero] * NOBODY
        self._completed: list[Clock] = [zero] * NOBODY
        # By giver and taker.
        self._tokens: list[list[deque[Clock]]] = [[deque() for _ in Engine] for _ in Engine]

    def start(self, engine: Engine, wait: int) -> list[Engine]:
        """Start a command of an engine; return the engines whose token it awaits in vain."""
        clock = self._started[engine]
        missing = []
        for giver in _MEMBERS[wait]:
            tokens = self._tokens[giver][engine]
            if tokens:
                clock = tuple(map(max, clock, tokens.popleft()))
            else:
                missing.append(giver)
        self._previous[engine] = self._started[engine]
        self._started[engine] = clock
        return missing

    def complete(self, engine: Engine, signal: int) -> list[Engine]:
        """Complete an engine's last started command.

        Return the engines whose token counter overflows.
        """
        before = self._completed[engine]
        counts = list(map(max, self._started[engine], before))
        counts[engine] = before[engine] + 1
        self._completed[engine] = clock = tuple(counts)
        takers = _MEMBERS[signal]
        for taker in takers:
            self._tokens[engine][taker].append(clock)
        return [taker for taker in takers if len(self._tokens[engine][taker]) > TOKEN_MAX]

    def at_start(self, engine: Engine) -> Clock:
        """Return what is complete when the engine's last started command starts."""
        return self._started[engine]

    def at_previous_start(self, engine: Engine) -> Clock:
        """Return what is complete when the command before that starts; nothing if there is none."""
        return self._previous[engine]

    def tokens_left(self) -> dict[tuple[Engine, Engine], int]:
        """Return the counters that are not zero, by giver and taker."""
        return {
            (giver, taker): len(self._tokens[giver][taker])
            for giver in Engine
            for taker in Engine
            if self._tokens[giver][taker]
        }
