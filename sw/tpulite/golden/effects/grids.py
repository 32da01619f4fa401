"""Rows as grids: what commands touch, without a list of every row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FEW = 4  # runs of places that are looked at one by one


class Grid(NamedTuple):
    """Places in a regular order, none of them twice."""

    size: int  #: Consecutive places of a run.
    extent: int  #: Places from the first one to behind the last one.
    #: How many runs there are and how far they are apart, level by level, the outermost first.
    counts: tuple[int, ...] = ()
    pitches: tuple[int, ...] = ()

    @classmethod
    def of(cls, size: int, *levels: tuple[int, int]) -> "Grid":
        """Return the grid with counts and pitches of these levels.

        Examples
        --------
        >>> Grid.of(2, (3, 5)).extent
        12
        """
        levels = tuple((count, pitch) for count, pitch in levels if count > 1)
        extent = size + sum((count - 1) * pitch for count, pitch in levels)
        return cls(size, extent, tuple(n for n, _ in levels), tuple(pitch for _, pitch in levels))


Place = tuple[int, Grid]
"""A grid and its first place."""


def view(array: NDArray, place: Place) -> NDArray:
    """Return what an array [..., places] holds at a grid, [..., *counts, size]; not a copy.

    Examples
    --------
    >>> view(np.arange(20), (3, Grid.of(2, (3, 5)))).ravel().tolist()
    [3, 4, 8, 9, 13, 14]
    """
    start, (size, _, counts, pitches) = place
    if not counts:
        return array[..., start : start + size]
    step = array.itemsize
    return np.ndarray(
        (*array.shape[:-1], *counts, size),
        array.dtype,
        array,
        start * step,
        (*array.strides[:-1], *(pitch * step for pitch in pitches), step),
    )


def expand(place: Place) -> NDArray[np.int64]:
    """Return all places of a grid.

    Examples
    --------
    >>> expand((3, Grid.of(2, (3, 5)))).tolist()
    [3, 4, 8, 9, 13, 14]
    """
    start, (size, _, counts, pitches) = place
    found = np.arange(start, start + size)
    for count, pitch in zip(reversed(counts), reversed(pitches), strict=True):
        found = np.add.outer(np.arange(count) * pitch, found).ravel()
    return found


def meet(a: Place, b: Place) -> bool:
    """Whether two grids may have a place in common: one begins before the end of the other."""
    return a[0] < b[0] + b[1].extent and b[0] < a[0] + a[1].extent


def cover(places: NDArray[np.int64]) -> tuple[Place, ...]:
    """Return grids that cover some places, each exactly once.

    Examples
    --------
    >>> cover(np.array([7, 8, 3, 4])) == ((3, Grid.of(2)), (7, Grid.of(2)))
    True
    """
    if not places.size:
        return ()
    ordered = np.sort(places)
    ordered = ordered[np.diff(ordered, prepend=ordered[0] - 1) > 0]
    ends = np.flatnonzero(np.diff(ordered) > 1)
    starts = ordered[np.concatenate([[0], ends + 1])]
    sizes = ordered[np.concatenate([ends, [len(ordered) - 1]])] + 1 - starts
    if len(starts) > _FEW and (sizes == sizes[0]).all() and (levels := _levels(starts)):
        return ((int(starts[0]), Grid.of(int(sizes[0]), *levels)),)
    return tuple(
        (int(start), Grid.of(int(size))) for start, size in zip(starts, sizes, strict=True)
    )


def _levels(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return counts and pitches of numbers that are a grid, the outermost first; else nothing."""
    levels = []
    while len(starts) > 1:
        gaps = np.diff(starts)
        others = np.flatnonzero(gaps != gaps[0])
        count = int(others[0]) + 1 if others.size else len(starts)
        if len(starts) % count:
            return []
        blocks = starts.reshape(-1, count)
        if (blocks - blocks[:, :1] != blocks[0] - blocks[0, 0]).any():
            return []
        levels.insert(0, (count, int(gaps[0])))
        starts = blocks[:, 0]
    return levels
