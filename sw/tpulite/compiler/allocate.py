"""Places in the unified buffer, given out and taken back in program order."""

from bisect import insort
from itertools import pairwise

from tpulite.compiler.ops import Buffer

__all__ = ["Allocator", "DoesNotFitError"]


class DoesNotFitError(Exception):
    """Buffers that must be there at the same time do not fit."""


class Allocator:
    """Next-fit allocation: what was freed last is used last, so that engines seldom wait.

    Parameters
    ----------
    start, stop : int
        Rows to give out.
    banks : int
        Banks of the unified buffer.
    """

    def __init__(self, start: int, stop: int, banks: int) -> None:
        self._start, self._stop, self._banks = start, stop, banks
        self._next = start
        self._used: list[tuple[int, int]] = []
        self._places: dict[Buffer, tuple[int, int]] = {}

    def allocate(self, buffer: Buffer) -> bool:
        """Find a place for a buffer; return whether there is one."""
        bounds = [(self._start, self._start), *self._used, (self._stop, self._stop)]
        gaps = [(a[1], b[0]) for a, b in pairwise(bounds) if a[1] < b[0]]
        starts = [max(low, self._next) for low, high in gaps if high > self._next]
        starts += [low for low, _ in gaps]
        for start in starts:
            if buffer.bank is not None:
                start += (buffer.bank - start) % self._banks
            if any(low <= start and start + buffer.rows <= high for low, high in gaps):
                self._places[buffer] = (start, start + buffer.rows)
                insort(self._used, self._places[buffer])
                self._next = start + buffer.rows
                return True
        return False

    def free(self, buffer: Buffer) -> None:
        """Take a place back."""
        self._used.remove(self._places.pop(buffer))

    def row(self, buffer: Buffer) -> int:
        """Return the first row of a buffer."""
        return self._places[buffer][0]

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self._places
