"""Allocation: a place in the unified buffer for every buffer of a schedule."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.compiler.ops import Buffer
from tpulite.compiler.options import ALLOCATORS
from tpulite.compiler.schedule.longest import place_longest, rows_used
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.scheduled import Schedule


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
    config : Config
        The machine.
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
