"""Rectangles of time x rows, placed one after the other: what lives long, or is large, first."""

from collections.abc import Mapping, Sequence

import numpy as np

from tpulite.compiler.ops import Buffer
from tpulite.compiler.schedule.scheduled import Lifetime, lower_bound


def place_longest(
    places: Sequence[Lifetime], rows: range, banks: int
) -> tuple[dict[Buffer, int], Lifetime | None]:
    """Place what lives long first, and of equals what is large; or the other way round.

    Long-lived first is how TPU-MLIR fills its groups, whose weights live as long as all slices. If
    that does not come as close to the lower bound as banks allow, the large ones go first as well,
    and the order that takes fewer rows is kept.

    Parameters
    ----------
    places : sequence of Lifetime
        Times and sizes.
    rows : range
        Rows of the unified buffer to give out.
    banks : int
        Its banks.

    Returns
    -------
    found : dict of Buffer to int
        First rows.
    missing : Lifetime, optional
        The first one that has found no place, if that is so in both orders.
    """
    best = place_in_turn(sorted(places, key=long_first), rows, banks)
    if best[1] is None and _highest_row(best[0]) < rows.start + lower_bound(places) + banks:
        return best
    other = place_in_turn(sorted(places, key=_large), rows, banks)
    if other[1] is None and (best[1] is not None or rows_used(other[0]) < rows_used(best[0])):
        return other
    return best


def _highest_row(found: Mapping[Buffer, int]) -> int:
    """Return the end of the highest place; 0 without any."""
    return max((row + buffer.rows for buffer, row in found.items()), default=0)


def rows_used(rows: Mapping[Buffer, int]) -> int:
    """Return how many rows any buffer takes."""
    used, high = 0, 0
    for start, stop in sorted((row, row + buffer.rows) for buffer, row in rows.items()):
        used += max(stop - max(start, high), 0)
        high = max(high, stop)
    return used


def long_first(each: Lifetime) -> tuple[int, int, int]:
    """Return what sorts live ranges: the longest first, and of equals the largest."""
    return each.first - each.last, -each.buffer.rows, each.first


def _large(each: Lifetime) -> tuple[int, int, int]:
    return -each.buffer.rows, each.first - each.last, each.first


def place_in_turn(
    places: Sequence[Lifetime], rows: range, banks: int
) -> tuple[dict[Buffer, int], Lifetime | None]:
    """Place rectangles in the order given, each as low as it fits.

    Parameters and results are those of :func:`place_longest`.
    """
    count = len(places)
    # Of what is placed, in ascending order of the first row.
    starts, stops, firsts, lasts = (np.empty(count, np.int64) for _ in range(4))
    found: dict[Buffer, int] = {}
    for number, each in enumerate(places):
        buffer = each.buffer
        beside = np.flatnonzero((firsts[:number] <= each.last) & (lasts[:number] >= each.first))
        start = _lowest(buffer, starts[beside].tolist(), stops[beside].tolist(), rows.start, banks)
        if start + buffer.rows > rows.stop:
            return found, each
        found[buffer] = start
        where = int(starts[:number].searchsorted(start))
        for array, value in (
            (starts, start),
            (stops, start + buffer.rows),
            (firsts, each.first),
            (lasts, each.last),
        ):
            array[where + 1 : number + 1] = array[where:number]
            array[where] = value
    return found, None


def _lowest(buffer: Buffer, starts: list[int], stops: list[int], low: int, banks: int) -> int:
    """Return the first row at which a buffer fits between others, or above them."""
    rows, bank = buffer.rows, buffer.bank
    for start, stop in zip(starts, stops, strict=True):
        place = low if bank is None else low + (bank - low) % banks
        if place + rows <= start:
            return place
        low = max(low, stop)
    return low if bank is None else low + (bank - low) % banks
