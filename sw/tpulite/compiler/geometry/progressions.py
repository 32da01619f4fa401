"""Positions along an axis as arithmetic progressions: what single commands can move."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_PERIOD = 8
"""Progressions interleave at most so often: that is how large images are scaled."""


class Progression(NamedTuple):
    """Outputs ``start``, ``start + step``, ... are the inputs ``first``, ``first + stride``, ..."""

    start: int
    step: int
    length: int
    first: int
    stride: int


def consecutive(indices: Sequence[int]) -> bool:
    """Return whether positions follow each other."""
    return all(index == indices[0] + i for i, index in enumerate(indices))


def progressions(indices: Sequence[int]) -> tuple[Progression, ...]:
    """Return positions as few progressions that do not fall.

    Examples
    --------
    >>> [tuple(each) for each in progressions([0, 0, 1, 1, 2, 2])]
    [(0, 2, 3, 0, 1), (1, 2, 3, 0, 1)]
    """
    ways = (
        tuple(run for phase in range(period) for run in _runs(indices, phase, period))
        for period in range(1, min(_PERIOD, len(indices)) + 1)
    )
    return min(ways, key=len)


def _runs(indices: Sequence[int], phase: int, period: int) -> Iterator[Progression]:
    positions = range(phase, len(indices), period)
    values = [indices[i] for i in positions]
    start = 0
    while start < len(values):
        stop, stride = start + 1, 0
        if stop < len(values) and values[stop] >= values[start]:
            stride = values[stop] - values[start]
            while stop < len(values) and values[stop] - values[stop - 1] == stride:
                stop += 1
        yield Progression(positions[start], period, stop - start, values[start], stride)
        start = stop
