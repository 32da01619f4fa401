"""The cycle model's unified buffer: what the matrix unit asks of its banks, and who must wait.

Ports that walk through consecutive rows, one a cycle, stay in step, so what matters is the *phase*
of a request: its bank less its cycle, modulo the banks. A walker keeps its phase until it meets a
request of a better port in the same phase, waits for a cycle, and goes on in the next lower phase.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from tpulite.arch.timing import STARVED
from tpulite.golden.timing.phases import FREE

_LATE = 1 << 60


def walk(
    phases: Sequence[bytes | bytearray],
    begin: int,
    phase: int,
    rows: int,
    banks: int,
    *,
    starve: bool,
    trace: bytearray | None = None,
) -> int:
    """Return the cycle after the one in which a walker's last row is accepted.

    Parameters
    ----------
    phases : sequence of bytes
        For each better port the phases of its requests, cycle by cycle; nothing is requested
        beyond.
    begin : int
        First cycle of the walker, an index of the phases.
    rows : int
        Rows that it needs, one after the other.
    banks : int
        Banks of the buffer.
    starve : bool
        Whether it must wait as long as it takes; else it wins after 16 refusals in a row.
    trace : bytearray, optional
        Where its own phases are noted.

    Examples
    --------
    >>> walk([bytes([0, 0, 1, FREE, FREE])], 0, 0, 2, 8, starve=True)
    3
    """
    refusals = 0
    last = -1
    while True:
        stop = begin + rows
        met = stop
        for better in phases:
            found = better.find(phase, begin, met)
            if found >= 0:
                met = found
        if trace is not None:
            end = min(met + 1, stop)
            trace[begin:end] = bytes([phase]) * (end - begin)
        if met == stop:
            return stop
        refusals = refusals + 1 if met == last + 1 else 1
        rows -= met - begin
        begin = met + 1
        last = met
        if refusals > STARVED and not starve:
            refusals = 0
            rows -= 1
        else:
            phase = (phase - 1) % banks


class Stream(Protocol):
    """Requests of a port in consecutive cycles."""

    def phases(self, first: int, stop: int) -> bytes:
        """Return their phases from one cycle to another, or fewer if there are no more.

        Cycles are counted from the first request; phases from cycle 0 of the run.
        """
        ...


class Traffic:
    """What a port asks for in a run, as far as it is known: streams, one after the other.

    Parameters
    ----------
    banks : int
        Banks of the buffer.
    """

    def __init__(self, banks: int) -> None:
        self.banks = banks
        self.stop = 0  # cycle after the last request
        self._begins: list[int] = []
        self._stops: list[int] = []
        self._streams: list[Stream] = []

    def add(self, begin: int, stop: int, stream: Stream) -> None:
        """Add the requests from a cycle to another one."""
        self._begins.append(begin)
        self._stops.append(stop)
        self._streams.append(stream)
        self.stop = stop

    def end(self, stop: int) -> None:
        """Say when the last stream ends, which was not known when it was added."""
        self._stops[-1] = self.stop = stop

    def delay(
        self,
        row: int,
        begin: int,
        rows: int,
        *,
        starve: bool,
        pace: int = 1,
        buffered: bool = False,
        beside: "Sequence[Traffic]" = (),
    ) -> int:
        """Return when the last one of some rows is accepted, if a worse port wants them.

        Parameters
        ----------
        row, begin : int
            The first row, and the cycle from which it is wanted.
        rows : int
            Rows, one after the other.
        starve : bool
            Whether they wait as long as it takes; at a slow pace they do.
        pace : int
            Cycles from a row to the next.
        buffered : bool
            Whether rows come at that pace and those that had to wait follow one a cycle.
        beside : sequence of Traffic
            Other ports that are better, at the pace of a row a cycle.
        """
        if not self.meets(begin, begin + rows * pace):
            return begin + (rows - 1) * pace
        length = rows * (6 if beside else pace + 1) + STARVED
        while True:
            phases = self.phases(begin, begin + length)
            if pace > 1:
                end = self._stroll(phases, row - begin, rows, pace, buffered=buffered)
            else:
                others = [t.phases(begin, begin + length) for t in beside if t.stop > begin]
                phase = (row - begin) % self.banks
                end = walk([phases, *others], 0, phase, rows, self.banks, starve=starve)
            if end <= length or begin + length >= self.stop:
                return begin + end - 1
            length *= 2

    def meets(self, begin: int, stop: int) -> bool:
        """Whether anything is asked for from a cycle to another one."""
        return begin < self.stop and self.next(begin) < stop

    def next(self, begin: int) -> int:
        """Return the first cycle of the stream that goes on after a cycle, a late one if none."""
        first = bisect_right(self._stops, begin)
        return self._begins[first] if first < len(self._begins) else _LATE

    def _stroll(self, phases: bytes, phase: int, rows: int, pace: int, *, buffered: bool) -> int:
        """Return the cycle after the one in which the last row is accepted, at a slow pace."""
        cycle = 0
        for row in range(rows):
            if buffered:
                cycle = max(cycle, row * pace)
            while cycle < len(phases) and phases[cycle] == (phase + row - cycle) % self.banks:
                cycle += 1
            cycle += 1 if buffered else pace
        return cycle if buffered else cycle - pace + 1

    def phases(self, begin: int, stop: int) -> bytes:
        """Return the phases of all requests from a cycle to another one."""
        first = bisect_right(self._stops, begin)
        if first == len(self._stops):
            return b""
        if self._begins[first] <= begin and self._stops[first] >= stop:
            start = self._begins[first]
            return self._streams[first].phases(begin - start, stop - start)
        window = bytearray([FREE]) * (stop - begin)
        for i in range(first, len(self._begins)):
            start = self._begins[i]
            if start >= stop:
                break
            part = self._streams[i].phases(max(0, begin - start), stop - start)
            at = max(0, start - begin)
            window[at : at + len(part)] = part
        return bytes(window)
