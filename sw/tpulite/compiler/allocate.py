"""Places in the unified buffer, given out and taken back in program order."""

from bisect import insort
from itertools import pairwise

from tpulite.compiler.ops import Buffer, Side

__all__ = ["Allocator", "DoesNotFitError"]


class DoesNotFitError(Exception):
    """Buffers that must be there at the same time do not fit; ``name`` is that of the last one."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(f"No place for {buffer.rows} rows: {buffer.name}")
        self.name = buffer.name


class Allocator:
    """Each buffer has a side of the unified buffer from which its place is searched.

    What lives long lies at the bottom, what comes and goes at the top, so that gaps stay large.
    Next-fit takes what was freed last at last, so that engines seldom wait.

    Parameters
    ----------
    start, stop : int
        Rows to give out.
    banks : int
        Banks of the unified buffer.
    """

    def __init__(self, start: int, stop: int, banks: int) -> None:
        self._start, self._stop, self._banks = start, stop, banks
        self._next = {Side.NEXT: start, Side.TOP: stop}
        self._used: list[tuple[int, int]] = []
        self._places: dict[Buffer, tuple[int, int]] = {}

    def allocate(self, buffer: Buffer) -> bool:
        """Find a place for a buffer; return whether there is one."""
        bounds = [(self._start, self._start), *self._used, (self._stop, self._stop)]
        gaps = [(a[1], b[0]) for a, b in pairwise(bounds) if b[0] - a[1] >= buffer.rows]
        start = {Side.BOTTOM: self._lowest, Side.NEXT: self._after, Side.TOP: self._below}[
            buffer.side
        ](buffer, gaps)
        if start is None:
            return False
        self._places[buffer] = (start, start + buffer.rows)
        insort(self._used, self._places[buffer])
        return True

    def _lowest(self, buffer: Buffer, gaps: list[tuple[int, int]], least: int = 0) -> int | None:
        for low, high in gaps:
            start = self._align(buffer, max(low, least))
            if start + buffer.rows <= high:
                return start
        return None

    def _after(self, buffer: Buffer, gaps: list[tuple[int, int]]) -> int | None:
        """Return the first place behind the last one given out, else the lowest."""
        start = self._lowest(buffer, gaps, self._next[Side.NEXT])
        if start is None:
            start = self._lowest(buffer, gaps)
        if start is not None:
            self._next[Side.NEXT] = start + buffer.rows
        return start

    def _below(self, buffer: Buffer, gaps: list[tuple[int, int]]) -> int | None:
        """Return the first place below the last one given out, else the highest."""
        start = self._highest(buffer, gaps, self._next[Side.TOP])
        # Down there lies what lives long: rather begin again than make holes between it.
        if start is None or start < (self._start + self._stop) // 2:
            again = self._highest(buffer, gaps, self._stop)
            start = again if again is not None else start
        if start is not None:
            self._next[Side.TOP] = start
        return start

    def _highest(self, buffer: Buffer, gaps: list[tuple[int, int]], most: int) -> int | None:
        for low, high in reversed(gaps):
            start = min(high, most) - buffer.rows
            if buffer.bank is not None:
                start -= (start - buffer.bank) % self._banks
            if start >= low:
                return start
        return None

    def _align(self, buffer: Buffer, start: int) -> int:
        return start if buffer.bank is None else start + (buffer.bank - start) % self._banks

    def free(self, buffer: Buffer) -> None:
        """Take a place back."""
        self._used.remove(self._places.pop(buffer))

    def row(self, buffer: Buffer) -> int:
        """Return the first row of a buffer."""
        return self._places[buffer][0]

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self._places
