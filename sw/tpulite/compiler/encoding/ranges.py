"""Sets of rows, or of beats, as ranges; those of a whole image in a few numbers."""

from collections.abc import Sequence
from itertools import pairwise
from typing import overload

__all__ = ["Lines", "Ranges", "line_ranges", "merge_ranges", "shift_ranges"]

Ranges = Sequence[range]
"""Ranges in ascending order that do not touch each other."""

_FEW = 4  # ranges that are as quick one by one


class Lines(Sequence[range]):
    """Ranges of one size: lines a pitch apart, in blocks a pitch apart.

    Parameters
    ----------
    start : int
        First place.
    size : int
        Places of a line.
    counts, pitches : (int, int)
        Blocks, and lines of a block; places from one to the next.
    """

    __slots__ = ("counts", "pitches", "size", "start")

    def __init__(
        self, start: int, size: int, counts: tuple[int, int], pitches: tuple[int, int]
    ) -> None:
        self.start = start
        self.size = size
        self.counts = counts
        self.pitches = pitches

    def __len__(self) -> int:
        return self.counts[0] * self.counts[1]

    @overload
    def __getitem__(self, index: int) -> range: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[range, ...]: ...

    def __getitem__(self, index: int | slice) -> range | tuple[range, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        block, line = divmod(range(len(self))[index], self.counts[1])
        first = self.start + block * self.pitches[0] + line * self.pitches[1]
        return range(first, first + self.size)


def line_ranges(start: int, size: int, pitch: int, count: int) -> Ranges:
    """Return lines whose starts are a pitch apart; those that touch are one range.

    Examples
    --------
    >>> line_ranges(8, 4, 16, 2), line_ranges(8, 4, 4, 2)
    ((range(8, 12), range(24, 28)), (range(8, 16),))
    """
    if count == 1 or pitch <= size:
        return (range(start, start + (count - 1) * pitch + size),)
    if count <= _FEW:
        starts = range(start, start + count * pitch, pitch)
        return tuple(range(first, first + size) for first in starts)
    return Lines(start, size, (1, count), (0, pitch))


def merge_ranges(ranges: Sequence[range]) -> Ranges:
    """Sort ranges and join those that touch.

    Examples
    --------
    >>> merge_ranges([range(8, 9), range(2, 5), range(4, 8)])
    (range(2, 9),)
    """
    ordered = sorted(ranges, key=lambda piece: piece.start)
    merged = ordered[:1]
    for piece in ordered[1:]:
        if piece.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, piece.stop))
        else:
            merged.append(piece)
    return _as_lines(merged) or tuple(merged)


def shift_ranges(ranges: Ranges, rows: int) -> Ranges:
    """Return ranges that many rows later."""
    if isinstance(ranges, Lines):
        return Lines(ranges.start + rows, ranges.size, ranges.counts, ranges.pitches)
    return tuple(range(piece.start + rows, piece.stop + rows) for piece in ranges)


def _as_lines(ranges: list[range]) -> Lines | None:
    """Return many ranges as lines, if they have such an order."""
    if len(ranges) <= _FEW:
        return None
    starts, size = [piece.start for piece in ranges], len(ranges[0])
    pitch = starts[1] - starts[0]
    others = (i for i, (a, b) in enumerate(pairwise(starts), 1) if b - a != pitch)
    count = next(others, len(starts))
    blocks = -(-len(starts) // count)
    block_pitch = starts[count] - starts[0] if blocks > 1 else 0
    lines = Lines(starts[0], size, (blocks, count), (block_pitch, pitch))
    return lines if len(lines) == len(ranges) and list(lines) == ranges else None
