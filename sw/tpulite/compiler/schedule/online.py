"""Places in the unified buffer, given out and taken back in program order."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from tpulite.compiler.ops import Buffer, Side


@dataclass(frozen=True)
class Shortage:
    """What is returned instead of places: buffers that must be there at one time do not fit."""

    buffer: Buffer  #: The one that finds no place.
    #: Rows that are free at that time, and most of them that lie together.
    free: int
    largest: int
    row_bytes: int  #: Bytes of a row.
    allocator: str  #: Which allocator gives up.

    def __str__(self) -> str:
        buffer = self.buffer
        bank = "" if buffer.bank is None else f" from bank {buffer.bank} on"
        return (
            f"{buffer.name!r} needs {buffer.rows} rows ({buffer.rows * self.row_bytes} bytes)"
            f"{bank}, but when it is needed {self.free} rows are free, at most {self.largest} of "
            f"them together (allocator {self.allocator!r})"
        )


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
        # First rows and ends of all gaps, in ascending order; gaps never touch.
        self._lows, self._highs = ([start], [stop]) if start < stop else ([], [])
        self._places: dict[Buffer, int] = {}

    @property
    def free_rows(self) -> tuple[int, int]:
        """Rows that are free, and most of them that lie together."""
        sizes = [high - low for low, high in zip(self._lows, self._highs, strict=True)]
        return sum(sizes), max(sizes, default=0)

    def allocate(self, buffer: Buffer, blocked: Sequence[tuple[int, int]] = ()) -> bool:
        """Find a place for a buffer; return whether there is one.

        Parameters
        ----------
        buffer : Buffer
            What needs a place.
        blocked : sequence of (int, int)
            First rows and ends of places that somebody else takes before the buffer is done.
        """
        gaps = self._lows, self._highs
        if blocked:
            self._lows, self._highs = _without(*gaps, sorted(blocked))
        if buffer.side is Side.TOP:
            start = self._below(buffer)
        elif buffer.side is Side.BOTTOM:
            start = self._lowest(buffer)
        else:
            start = self._after(buffer)
        self._lows, self._highs = gaps
        if start is None:
            return False
        self.take(buffer, start)
        return True

    def take(self, buffer: Buffer, start: int) -> None:
        """Give a buffer a place that is known to be free."""
        self._places[buffer] = start
        self._take(start, start + buffer.rows)

    def free(self, buffer: Buffer) -> None:
        """Take a place back."""
        start = self._places.pop(buffer)
        stop = start + buffer.rows
        lows, highs = self._lows, self._highs
        i = bisect_left(lows, start)
        if i and highs[i - 1] == start:  # it touches the gap before, or those on both sides
            if i < len(lows) and lows[i] == stop:
                stop = highs[i]
                del lows[i], highs[i]
            highs[i - 1] = stop
        elif i < len(lows) and lows[i] == stop:
            lows[i] = start
        else:
            lows.insert(i, start)
            highs.insert(i, stop)

    def row(self, buffer: Buffer) -> int:
        """Return the first row of a buffer."""
        return self._places[buffer]

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self._places

    def _take(self, start: int, stop: int) -> None:
        lows, highs = self._lows, self._highs
        i = bisect_right(lows, start) - 1
        low, high = lows[i], highs[i]
        if low < start:
            highs[i] = start
            if stop < high:
                lows.insert(i + 1, stop)
                highs.insert(i + 1, high)
        elif stop < high:
            lows[i] = stop
        else:
            del lows[i], highs[i]

    def _lowest(self, buffer: Buffer, least: int = 0) -> int | None:
        rows, bank = buffer.rows, buffer.bank
        for low, high in zip(self._lows, self._highs, strict=True):
            start = max(low, least)
            if bank is not None:
                start += (bank - start) % self._banks
            if start + rows <= high:
                return start
        return None

    def _after(self, buffer: Buffer) -> int | None:
        """Return the first place behind the last one given out, else the lowest."""
        start = self._lowest(buffer, self._next[Side.NEXT])
        if start is None:
            start = self._lowest(buffer)
        if start is not None:
            self._next[Side.NEXT] = start + buffer.rows
        return start

    def _below(self, buffer: Buffer) -> int | None:
        """Return the first place below the last one given out, else the highest."""
        start = self._highest(buffer, self._next[Side.TOP])
        # Down there lies what lives long: rather begin again than make holes between it.
        if start is None or start < (3 * self._start + self._stop) // 4:
            again = self._highest(buffer, self._stop)
            start = again if again is not None else start
        if start is not None:
            self._next[Side.TOP] = start
        return start

    def _highest(self, buffer: Buffer, most: int) -> int | None:
        rows, bank = buffer.rows, buffer.bank
        lows, highs = self._lows, self._highs
        for i in range(len(lows) - 1, -1, -1):
            start = min(highs[i], most) - rows
            if bank is not None:
                start -= (start - bank) % self._banks
            if start >= lows[i]:
                return start
        return None


def _without(
    lows: list[int], highs: list[int], blocked: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Return the gaps less what is blocked, which is sorted."""
    left_lows, left_highs = [], []
    for low, high in zip(lows, highs, strict=True):
        for start, stop in blocked:
            if start < high and stop > low:
                if start > low:
                    left_lows.append(low)
                    left_highs.append(start)
                low = stop
        if low < high:
            left_lows.append(low)
            left_highs.append(high)
    return left_lows, left_highs
