"""Places for which no engine waits: a buffer gets rows that other engines are done with."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import ENGINE_OF, Engine, Opcode
from tpulite.compiler.ops import Buffer, Op, Side
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule

_RETRIES = 16
"""So many buffers that find no place are placed first."""


class Moment(NamedTuple):
    """When a command would run if no buffer shared its rows, in cycles from the start."""

    ready: int  #: When its engine comes to it.
    work: int  #: Cycles that it takes, without waiting for other commands.
    stop: int  #: When it is done.


class _Place(NamedTuple):
    """What a place must be like."""

    life: Lifetime  #: Of a buffer, and of all that are made in its place.
    engine: int  #: The engine of its first command.
    due: int  #: Cycle from which its rows should be free.
    done: tuple[int, ...]  #: For each engine, the cycle in which all others are done with it.


def spread_buffers(
    schedule: Schedule, moments: Sequence[Moment], config: Config, *, patient: bool
) -> dict[Buffer, int] | None:
    """Place the buffers of a schedule so that engines seldom wait for each other's rows.

    What lives long is placed first, then what comes and goes, each in the order of the commands.
    Of all gaps that are free while a buffer lives that one is taken for which the longest wait is
    the shortest: of its first command for those that still use the rows, or of the first command
    of what has been placed there already for a later time. Of equal gaps the smallest is taken.

    Parameters
    ----------
    schedule : Schedule
        Commands in their final order.
    moments : sequence of Moment
        When each of them would run with a place of its own for every buffer.
    patient : bool
        Whether a buffer is not needed before a command of another engine would wait for it.

    Returns
    -------
    dict of Buffer to int, optional
        First rows of all buffers; None if some find no place.
    """
    wanted = _wanted(schedule, moments, config, patient=patient)
    wanted.sort(key=lambda each: (each.life.buffer.side is not Side.BOTTOM, each.life.first))
    first: list[Buffer] = []
    for _ in range(_RETRIES):
        places = _Places(range(schedule.first_row, config.ub_rows), config.ub_banks, len(wanted))
        wanted.sort(key=lambda each: each.life.buffer not in first)
        missing = next((x.life.buffer for x in wanted if not places.add(x)), None)
        if missing is None:
            joined = schedule.joined
            buffers = (each.buffer for each in schedule.lifetimes)
            return {buffer: places.rows[joined.get(buffer, buffer)] for buffer in buffers}
        if missing in first:
            return None
        first.append(missing)
    return None


def _wanted(
    schedule: Schedule, moments: Sequence[Moment], config: Config, *, patient: bool
) -> list[_Place]:
    """Return what the place of each buffer must be like."""
    ops, joined = schedule.ops, schedule.joined
    last: dict[Buffer, dict[int, int]] = {}
    for op, moment in zip(ops, moments, strict=True):
        for region in op.rows.values():
            uses = last.setdefault(joined.get(region.buffer, region.buffer), {})
            engine = ENGINE_OF[op.opcode]
            uses[engine] = max(uses.get(engine, 0), moment.stop)
    due = [moment.ready for moment in moments]
    if patient:
        due = list(map(max, due, _latest(ops, moments, lambda each: joined.get(each, each))))
    return [
        _Place(
            life,
            ENGINE_OF[ops[life.first].opcode],
            due[life.first],
            tuple(
                max((stop for user, stop in last[life.buffer].items() if user != engine), default=0)
                for engine in Engine
            ),
        )
        for life in schedule.places
    ]


def _latest(
    ops: Sequence[Op], moments: Sequence[Moment], place: Callable[[Buffer], Buffer]
) -> list[int]:
    """Return when each command must start at the latest, or a later one would wait."""
    end = max(moment.stop for moment in moments)
    following: dict[int, int] = {}  # by engine, the latest start of its next command
    users: dict[Buffer, dict[int, int]] = {}  # the same for commands that use a buffer
    latest = [0] * len(ops)
    for index in range(len(ops) - 1, -1, -1):
        op, engine = ops[index], ENGINE_OF[ops[index].opcode]
        stop = following.get(engine, end)
        written = op.rows.get("row" if op.opcode is Opcode.LOAD else "out_row")
        if written is not None:
            readers = users.get(place(written.buffer), {}).items()
            stop = min([stop, *(start for user, start in readers if user != engine)])
        latest[index] = following[engine] = stop - moments[index].work
        for region in op.rows.values():
            users.setdefault(place(region.buffer), {})[engine] = latest[index]
    return latest


class _Places:
    """Places that have been given, each with the times at which engines need it.

    Parameters
    ----------
    free : range
        Rows to give out.
    banks : int
        Banks of the unified buffer.
    count : int
        The most places.

    Attributes
    ----------
    rows : dict of Buffer to int
        First rows.
    """

    def __init__(self, free: range, banks: int, count: int) -> None:
        self.rows: dict[Buffer, int] = {}
        self._free, self._banks = free, banks
        self._starts, self._stops, self._firsts, self._lasts, self._engines, self._dues = (
            np.zeros(count, np.int64) for _ in range(6)
        )
        self._done = np.zeros((len(Engine), count), np.int64)

    def add(self, place: _Place) -> bool:
        """Give a buffer the place with the shortest wait; return whether there is one."""
        life, count = place.life, len(self.rows)
        buffer = life.buffer
        starts, stops = self._starts[:count], self._stops[:count]
        before, after = self._lasts[:count] < life.first, self._firsts[:count] > life.last
        beside = ~(before | after)
        later = np.array(place.done)[self._engines[:count]] - self._dues[:count]
        waits = np.where(before, self._done[place.engine, :count] - place.due, later)
        hot = (waits > 0) & ~beside
        edges, ends, waits = starts[hot], stops[hot], waits[hot]
        best: tuple[tuple[int, int, int], int] | None = None
        for low, high in self._gaps(starts[beside], stops[beside], buffer.rows):
            for start in self._candidates(buffer, low, high, edges, ends):
                over = (edges < start + buffer.rows) & (ends > start)
                wait = int(waits[over].max(initial=0))
                cold = [
                    ends[ends <= start].max(initial=low),
                    edges[edges >= start + buffer.rows].min(initial=high),
                ]
                key = wait, int(cold[1] - cold[0]), -start if buffer.side is Side.TOP else start
                best = (key, start) if best is None else min(best, (key, start))
        if best is None:
            return False
        start = self.rows[buffer] = best[1]
        self._starts[count], self._stops[count] = start, start + buffer.rows
        self._firsts[count], self._lasts[count] = life.first, life.last
        self._engines[count], self._dues[count] = place.engine, place.due
        self._done[:, count] = place.done
        return True

    def _gaps(self, starts: np.ndarray, stops: np.ndarray, rows: int) -> list[tuple[int, int]]:
        """Return first rows and ends of the gaps between places in which some rows find room."""
        low, gaps = self._free.start, []
        for start, stop in sorted(zip(starts.tolist(), stops.tolist(), strict=True)):
            if start >= low + rows:
                gaps.append((low, start))
            low = max(low, stop)
        return [*gaps, (low, self._free.stop)] if low + rows <= self._free.stop else gaps

    def _candidates(
        self, buffer: Buffer, low: int, high: int, edges: np.ndarray, ends: np.ndarray
    ) -> list[int]:
        """Return first rows at the ends of a gap, or beside rows that are still in use."""
        up = np.array([low, *ends[(ends > low) & (ends < high)]])
        down = np.array([high, *edges[(edges > low) & (edges < high)]]) - buffer.rows
        if buffer.bank is not None:
            up = up + (buffer.bank - up) % self._banks
            down = down - (down - buffer.bank) % self._banks
        starts = np.unique(np.concatenate([up, down]))
        return starts[(starts >= low) & (starts <= high - buffer.rows)].tolist()
