"""The cycle model's weights and records on their way out of the unified buffer."""

from collections.abc import Sequence

from tpulite.arch.interleave import MOST_PAIRED
from tpulite.golden.timing.banks import Traffic, walk
from tpulite.golden.timing.phases import FREE

_FURTHEST = 8  # cycles of a row that the model looks ahead
_NONE = bytes([FREE])


class OperandFetch:
    """The first weight tile of a command, and its records, past the activations of others.

    Nothing is computed before somebody asks.

    Parameters
    ----------
    reads : Traffic
        Activations, which come first.
    odd : Traffic
        Odd vectors of pairs, which come before weights at their port, too.
    weights, records : tuple of int
        First row, the cycle from which it is wanted, and rows; weights come before records.
    starve : bool
        Whether activations never wait.
    """

    __slots__ = ("_made", "_odd", "_reads", "_records", "_starve", "_weights")

    def __init__(
        self,
        reads: Traffic,
        odd: Traffic,
        weights: tuple[int, int, int],
        records: tuple[int, int, int],
        *,
        starve: bool,
    ) -> None:
        self._reads, self._odd, self._weights, self._records = reads, odd, weights, records
        self._starve = starve
        self._made: tuple[bytes, bytes] | None = None

    def last(self) -> tuple[int, int]:
        """Return the cycles of the last weights and of the last records."""
        weights, records = self.made()
        return self._weights[1] + len(weights) - 1, self._records[1] + len(records) - 1

    def add_to(self, ports: Sequence[Traffic], slack: int) -> None:
        """Let others meet these rows, which may be late by so many cycles."""
        for which, (_, begin, rows) in enumerate((self._weights, self._records)):
            if rows:
                ports[which].add(begin, begin + rows + slack, _Requests(self, which))

    def made(self) -> tuple[bytes, bytes]:
        """Return the phases of both, each from its first cycle on."""
        if self._made is not None:
            return self._made
        begins = [begin for _, begin, rows in (self._weights, self._records) if rows]
        first = min(begins)
        rows = self._weights[2] + self._records[2]
        odd = self._odd.meets(first, max(begins) + rows)
        length = max(begins) - first + rows * (MOST_PAIRED if odd else _FURTHEST)
        better = [self._reads.phases(first, first + length)]
        if odd:
            better.append(self._odd.phases(first, first + length))
        banks, starve = self._reads.banks, self._starve
        traces = []
        for which, (row, begin, rows) in enumerate((self._weights, self._records)):
            trace = bytearray([FREE]) * length
            at, phase = begin - first, (row - begin) % banks
            if not rows:
                end = at = 0
            elif odd and not which:
                end = _between(better, at, phase, rows, banks, trace)
            else:
                end = walk(better, at, phase, rows, banks, starve=starve, trace=trace)
            better.append(bytes(trace))
            traces.append(bytes(trace[at:end]))
        self._made = traces[0], traces[1]
        return self._made


def _between(
    better: list[bytes], begin: int, phase: int, rows: int, banks: int, trace: bytearray
) -> int:
    """Walk as :func:`tpulite.golden.timing.banks.walk` does, where nothing is read that is odd."""
    even, odd = better
    cycle = begin
    while rows and cycle < len(trace):
        busy = odd[cycle : cycle + 1] not in (b"", _NONE)
        if not busy:
            trace[cycle] = phase
        if busy or even[cycle : cycle + 1] == bytes([phase]):
            phase = (phase - 1) % banks
        else:
            rows -= 1
        cycle += 1
    return cycle + rows


class _Requests:
    """The weights, or the records, of a fetch as a stream."""

    __slots__ = ("_fetch", "_which")

    def __init__(self, fetch: OperandFetch, which: int) -> None:
        self._fetch, self._which = fetch, which

    def phases(self, first: int, stop: int) -> bytes:
        """Return the phases from one cycle to another, counted from the first request."""
        return self._fetch.made()[self._which][first:stop]
