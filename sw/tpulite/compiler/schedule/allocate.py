"""Allocation: a place in the unified buffer for every buffer of a schedule."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.ops import Buffer
from tpulite.compiler.options import ALLOCATORS
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule, lower_bound


@dataclass(frozen=True, eq=False)
class Allocation:
    """Where buffers lie."""

    rows: Mapping[Buffer, int]  #: First row of every buffer that is not resident.
    peak: int  #: Rows that any of them takes at any time.
    bound: int  #: Rows that every placement of this schedule takes at least.


def place_buffers(
    schedule: Schedule, config: Config, allocator: str = "online"
) -> Allocation | Shortage:
    """Give every buffer of a schedule a place.

    Parameters
    ----------
    schedule : Schedule
        Commands in their final order.
    allocator : str
        ``online`` takes the places found while scheduling, which leave what was freed last alone
        as long as possible, so that engines seldom wait; ``longest`` packs buffers from the
        first row on, those that live long first, which takes fewer rows and more cycles.

    Returns
    -------
    Allocation or Shortage
        Rows, and how many are used; or what finds no place.

    Raises
    ------
    ValueError
        If there is no such allocator.
    """
    if allocator not in ALLOCATORS:
        raise ValueError(f"allocator must be one of {', '.join(ALLOCATORS)}, not {allocator!r}")
    if allocator == "online":
        found: Mapping[Buffer, int] | Shortage = schedule.rows
    else:
        found = _place(schedule, config)
    if isinstance(found, Shortage):
        return found
    return Allocation(found, rows_used(found), schedule.bound)


def _place(schedule: Schedule, config: Config) -> Mapping[Buffer, int] | Shortage:
    """Pack what lives long first; return the row of every buffer, or what finds no place."""
    places, rows = schedule.places, range(schedule.first_row, config.ub_rows)
    found, missing = place_longest(places, rows, config.ub_banks)
    if missing is not None:
        beside = [
            range(found[each.buffer], found[each.buffer] + each.buffer.rows)
            for each in places
            if each.buffer in found and each.first <= missing.last and each.last >= missing.first
        ]
        gaps = _gaps(beside, rows)
        return Shortage(
            missing.buffer,
            free=sum(gaps),
            largest=max(gaps),
            row_bytes=config.row_bytes,
            allocator="longest",
        )
    joined = schedule.joined
    return {each.buffer: found[joined.get(each.buffer, each.buffer)] for each in schedule.lifetimes}


def _gaps(taken: Iterable[range], rows: range) -> list[int]:
    """Return the sizes of the gaps between ranges of rows, before and behind them."""
    gaps, low = [], rows.start
    for piece in sorted(taken, key=lambda piece: piece.start):
        gaps.append(max(piece.start - low, 0))
        low = max(low, piece.stop)
    return [*gaps, rows.stop - low]


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
