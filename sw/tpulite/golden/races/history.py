"""Who touched what last: the rows of the unified buffer and the beats of DRAM."""

from collections import deque
from collections.abc import Sequence
from operator import le

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import TOKEN_MAX, Engine
from tpulite.golden.effects.access import Span
from tpulite.golden.effects.grids import Place, view

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


_ENGINES = len(Engine)
_UNWRITTEN = 2 * _ENGINES
_USERS, _SOURCES = slice(0, _UNWRITTEN), slice(_ENGINES, _UNWRITTEN + 1)
_ANY_TIME = 1 << 62


Grids = list[NDArray[np.int32]]
"""What is known of some rows: views, which change with it."""


class RowHistory:
    """Each row's last writer, and for each engine its last reader, as counts of its commands.

    Parameters
    ----------
    written : array of bool, [ub_rows]
        Rows that hold something at the start.
    """

    def __init__(self, written: NDArray[np.bool_]) -> None:
        # For each engine its reads, then for each engine its writes, then 1 where nothing is: more
        # than the clock says of nobody. Only the last writer of a row has a count there.
        self._counts = np.zeros((_UNWRITTEN + 1, len(written)), np.int32)
        self._counts[_UNWRITTEN] = ~written

    @property
    def written(self) -> NDArray[np.bool_]:
        """Rows that hold something."""
        return self._counts[_UNWRITTEN] == 0

    def writers(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the last writer of each row, ``NOBODY`` if there is none, and its count."""
        counts = self._counts[_ENGINES:_UNWRITTEN, rows]
        last = counts.max(axis=0)
        return np.where(last > 0, counts.argmax(axis=0), NOBODY), last

    def reads(self, engine: Engine, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the count of an engine's last read of each row."""
        return self._counts[engine, rows]

    def note_read(self, engine: Engine, rows: NDArray[np.int64], count: int) -> None:
        """Let an engine read rows."""
        self._counts[engine, rows] = count

    def note_write(self, engine: Engine, rows: NDArray[np.int64], count: int) -> None:
        """Let an engine write rows."""
        self._counts[_SOURCES, rows] = 0
        self._counts[_ENGINES + engine, rows] = count

    def at(self, places: Sequence[Place]) -> Grids:
        """Return the counts of the rows of some grids, for the methods below."""
        return [view(self._counts, place) for place in places]

    def may_read(self, grids: Grids, clock: Clock) -> bool:
        """Whether something complete lies in all rows of some grids."""
        return all(_before(each[_SOURCES], clock) for each in grids)

    def may_write(self, engine: Engine, grids: Grids, clock: Clock) -> bool:
        """Whether no other engine may still read or write any row of some grids."""
        mine = (*clock[:engine], _ANY_TIME, *clock[engine + 1 : _ENGINES])
        return all(_before(each[_USERS], mine + mine) for each in grids)

    def note(self, engine: Engine, reads: Grids, writes: Grids, count: int) -> None:
        """Let an engine read some grids, then write others."""
        for each in reads:
            each[engine] = count
        for each in writes:
            each[_SOURCES] = 0
            each[_ENGINES + engine] = count


def _before(counts: NDArray[np.int32], clock: Clock) -> bool:
    """Whether all that was counted is complete, engine by engine."""
    axes = 1 if counts.ndim == 2 else tuple(range(1, counts.ndim))
    return all(map(le, np.maximum.reduce(counts, axis=axes).tolist(), clock))


class BeatHistory:
    """Each beat's last STORE and last LOAD: only these write and read in DRAM.

    All lines start at a beat, so two lines share a byte of a beat if and only if they share it.

    Parameters
    ----------
    written : array of bool
        Bytes that hold something at the start; what STORE writes is set.
    """

    def __init__(self, written: NDArray[np.bool_]) -> None:
        self.written = written
        beats = -(-len(written) // BEAT_BYTES)
        self._counts = {engine: np.zeros(beats, np.int32) for engine in (Engine.LOAD, Engine.STORE)}

    def of(self, engine: Engine, span: Span) -> NDArray[np.int32]:
        """Return the count of an engine's last command for each beat of a line."""
        return self._counts[engine][span.beats.start : span.beats.stop]

    def note(self, engine: Engine, span: Span, count: int) -> None:
        """Let an engine load or store a line."""
        self._counts[engine][span.beats.start : span.beats.stop] = count
        if engine == Engine.STORE:
            self.written[span.start : span.stop] = True

    def may_load(self, lines: Sequence[Place], beats: Sequence[Place], clock: Clock) -> bool:
        """Whether something complete lies in all bytes of some lines, whose beats these are."""
        complete = self._before(Engine.STORE, beats, clock)
        return complete and all(view(self.written, each).all() for each in lines)

    def may_store(self, beats: Sequence[Place], clock: Clock) -> bool:
        """Whether nobody may still load any of some beats."""
        return self._before(Engine.LOAD, beats, clock)

    def _before(self, engine: Engine, beats: Sequence[Place], clock: Clock) -> bool:
        counts = self._counts[engine]
        return all(view(counts, each).max() <= clock[engine] for each in beats)

    def note_lines(
        self, engine: Engine, lines: Sequence[Place], beats: Sequence[Place], count: int
    ) -> None:
        """Let an engine load or store lines, whose beats these are."""
        for each in beats:
            view(self._counts[engine], each)[...] = count
        if engine == Engine.STORE:
            for each in lines:
                view(self.written, each)[...] = True
