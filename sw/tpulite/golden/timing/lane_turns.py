"""When sums of the vector path enter the requantizer's lanes, which the matrix unit has first."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from tpulite.arch.timing import ELEMENTWISE


def late_turns(
    outputs: int, busy: np.ndarray, delays: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return from which row on sums are so many cycles late, if there is one of a row each cycle.

    Parameters
    ----------
    busy : ndarray of bool, shape (cycles,)
        When sums of the matrix unit enter the lanes, from the cycle in which the first row's could.
    delays : sequence of (int, int)
        From which row on rows come so many cycles late.

    Examples
    --------
    >>> late_turns(3, np.array([False, True, True, False]), [])
    [(0, 0), (1, 1), (1, 2)]
    """
    late, first, result, waiting = 0, 0, [(0, 0)], deque(delays)
    for cycle in busy.nonzero()[0].tolist():
        while waiting and waiting[0][0] + late <= cycle:
            first, delay = waiting.popleft()
            late = max(late, delay)
            result.append((first, late))
        row = cycle - late
        if row >= outputs:
            break
        if row >= first:
            late += 1
            result.append((row, late))
    return result + [(row, max(late, delay)) for row, delay in waiting]


def last_turn(
    outputs: int,
    window: int,
    slices: int,
    busy: np.ndarray,
    delays: Sequence[tuple[int, int]],
    *,
    turns_each: int = 1,
) -> int:
    """Return the cycle in which the last sum of a VECTOR enters the lanes.

    What is between the reducer of windows and the lanes stands still while a sum waits for these;
    the reducer goes on until it has a second window complete.

    Parameters
    ----------
    outputs, window, slices : int
        Output vectors, rows that are read for each, and its steps into the pipeline.
    busy : ndarray of bool, shape (cycles,)
        When sums of the matrix unit enter; none do beyond. Cycles count from that in which the
        reducer has the first row.
    delays : sequence of (int, int)
        From which row on rows are so many cycles late.
    turns_each : int
        Steps of a sum, which enters the lanes after the last of them.

    Examples
    --------
    >>> last_turn(3, 4, 1, np.zeros(0, bool), []), last_turn(3, 4, 1, np.arange(99) < 50, [])
    (17, 55)
    """
    busy_cycles = np.flatnonzero(busy)
    turns = _Turns(busy)
    pace, late = max(window, slices), deque(delays)
    complete = delay = index = 0  # cycle in which the reducer has a window complete
    while index < outputs:
        row = index * window + window - 1
        while late and late[0][0] <= row:
            delay = max(delay, late.popleft()[1])
        before = complete + window if index else 0
        complete = max(row + delay, before, turns.left)
        for step in range(1, slices + 1):
            turns.enter(complete, waits=step % turns_each == 0)
        index += 1
        # Windows that nothing hinders.
        position = int(np.searchsorted(busy_cycles, min(complete, turns.next)))
        clear = int(busy_cycles[position]) if position < len(busy_cycles) else 1 << 60
        until = min(outputs, late[0][0] // window if late else outputs)
        free = min(until - index, (clear - complete - ELEMENTWISE - 1) // pace - 1) - ELEMENTWISE
        if free > 0:
            turns.skip(free * pace)
            complete += free * pace
            index += free
    return turns.finish()


class _Turns:
    """The pipeline in front of the lanes: its steps, each in the cycle of its number and ``late``.

    Parameters
    ----------
    busy : ndarray of bool, shape (cycles,)
        When the lanes have no room.
    """

    def __init__(self, busy: np.ndarray) -> None:
        self.left = -1  # cycle in which the last one entered the pipeline
        self.late = 0
        self._step = -1  # in which the last one entered
        self._inside: deque[int] = deque()  # steps in which those inside want to leave
        self._free = _next_free(busy)

    def enter(self, after: int, *, waits: bool) -> None:
        """Let one enter in the first step after a cycle; whether it will wait for the lanes."""
        step = self._step + 1
        while self._inside and self._inside[0] + self.late <= max(after + 1, step + self.late):
            step = max(step, self._inside[0])
            self._leave()
        step = max(step, after + 1 - self.late)
        self._step, self.left = step, step + self.late
        if waits:
            self._inside.append(step + ELEMENTWISE)

    @property
    def next(self) -> int:
        """Cycle in which the first one inside wants to leave."""
        return self._inside[0] + self.late

    def skip(self, cycles: int) -> None:
        """Let so many cycles pass in which none waits and the same happens again and again."""
        self._step += cycles
        self.left += cycles
        self._inside = deque(step + cycles for step in self._inside)

    def finish(self) -> int:
        """Let all leave; return the cycle in which the last one does."""
        while self._inside:
            self._leave()
        return self._last

    def _leave(self) -> int:
        """Let the first one of the pipeline leave when there is room for it."""
        step = self._inside.popleft()
        cycle = step + self.late
        self._last = int(self._free[cycle]) if cycle < len(self._free) else cycle
        self.late = self._last - step
        return self._last


def _next_free(busy: np.ndarray) -> np.ndarray:
    """Return for each cycle the first one from it on in which there is room."""
    cycles = np.where(busy, len(busy), np.arange(len(busy)))
    return np.minimum.accumulate(cycles[::-1])[::-1]
