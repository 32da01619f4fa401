"""An order of commands whose buffers all have a place.

Verification of places: nothing that is needed at the same time lies in the same rows.

This knows nothing of how places are found. What it needs it takes from the commands: from the
first to the last one that touches a buffer, its rows belong to it.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.effects import WINDOWED
from tpulite.arch.isa import Command, Opcode
from tpulite.compiler.ops import Buffer, Op, Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.allocate import (
    Allocation,
    place_buffers,
    place_in_turn,
    place_longest,
    rows_used,
)
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.schedule import LEAD, addressed, order_commands, schedule
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule, find_lifetimes
from tpulite.compiler.schedule.uses import Uses
from tpulite.golden.effects.extents import Toucher
from tpulite.golden.effects.grids import expand


def schedule_ops(
    tiling: Tiling,
    config: Config,
    options: Options,
    *,
    part_by_part: bool = False,
    lead: int = LEAD,
) -> Schedule | Shortage:
    """Schedule commands; see :func:`tpulite.compiler.schedule.schedule.schedule`.

    Parameters
    ----------
    tiling : Tiling
        Commands in an order in which they could run one after the other.
    part_by_part : bool
        Whether rows are so few that parts of the program are packed one by one.
    lead : int
        Loads that go ahead of a command, beyond those that it needs.
    """
    lead = lead if options.prefetch else 0
    return (schedule_by_parts if part_by_part else schedule)(tiling, config, lead=lead)


def allocate_buffers(ordered: Schedule, config: Config, options: Options) -> Allocation:
    """Place the buffers of a schedule.

    An allocator that finds no place leaves buffers where they are while scheduling.
    """
    allocation = place_buffers(ordered, config, options.allocator)
    if isinstance(allocation, Shortage):  # the places found while scheduling
        allocation = place_buffers(ordered, config)
        assert isinstance(allocation, Allocation)
    return verified(ordered, allocation.rows, config)


def verified(ordered: Schedule, rows: Mapping[Buffer, int], config: Config) -> Allocation:
    """Return an allocation of the buffers of a schedule; AssertionError if some overlap."""
    if violations := verify_places(ordered, rows, config):
        raise AssertionError(f"Buffers overlap: {violations[0]}")
    return Allocation(rows, rows_used(rows), ordered.bound)


def schedule_by_parts(tiling: Tiling, config: Config, *, lead: int) -> Schedule | Shortage:
    """Order the commands of a network part by part, and pack those parts that need it.

    Between two parts nothing is in the unified buffer, so no load goes ahead from one into the
    other. Where a part finds no place in the usual way, its commands keep their order and its
    buffers are packed; at last in any bank, as banks are about speed alone.

    Parameters and results are those of
    :func:`tpulite.compiler.schedule.schedule.schedule`.
    """
    order: list[int] = []
    places: dict[Buffer, int] = {}
    joined: dict[Buffer, Buffer] = {}
    anywhere: set[Buffer] = set()
    most = 0
    for part in _parts(tiling, config):
        some = replace(tiling, ops=tiling.ops[part.start : part.stop])
        uses = Uses(some, config)
        ordered = order_commands(some, config, uses, lead)
        if isinstance(ordered, Shortage):
            packed = _pack(uses.lifetimes, range(tiling.first_row, config.ub_rows), config.ub_banks)
            if packed is None:
                return ordered
            ordered = [*range(len(some.ops))], packed, 0
            anywhere |= set(packed)
        indices, found, reached = ordered
        order += [part.start + i for i in indices]
        places |= found
        joined |= uses.joined
        most = max(most, reached)
    ops = tuple(tiling.ops[i] for i in order)
    lifetimes = find_lifetimes(ops)
    rows = {each.buffer: places[joined.get(each.buffer, each.buffer)] for each in lifetimes}
    anywhere |= {buffer for buffer, root in joined.items() if root in anywhere}
    return Schedule(ops, lifetimes, joined, rows, tiling.first_row, most, frozenset(anywhere))


def _parts(tiling: Tiling, config: Config) -> Iterator[range]:
    """Yield runs of commands that share no buffers with others."""
    spans = sorted(Uses(tiling, config).spans.values())
    start, end = 0, -1
    for first, last in spans:
        if first > end >= 0:
            yield range(start, end + 1)
            start = end + 1
        end = max(end, last)
    yield range(start, len(tiling.ops))


def _pack(places: Sequence[Lifetime], rows: range, banks: int) -> dict[Buffer, int] | None:
    """Return places of buffers whose commands keep their order; None if none are found."""
    early = sorted(places, key=lambda each: (each.first, -each.buffer.rows))
    for step in (banks, 1):
        found, missing = place_longest(places, rows, step)
        if missing is not None:
            found, missing = place_in_turn(early, rows, step)
        if missing is None:
            return found
    return None


_Span = tuple[int, int]


def verify_places(
    schedule: Schedule, rows: Mapping[Buffer, int], config: Config
) -> tuple[str, ...]:
    """Return what is wrong with the places of the buffers of a schedule.

    A place must lie in the rows that are given out and begin in its bank, if it may not begin
    anywhere, and no other buffer may take any of its rows while it is needed. Only a buffer that is
    ``over`` another one may take just its rows, and only if no command touches a row of the old
    buffer after the new one is written there; within a command that is read before it is written.

    Parameters
    ----------
    schedule : Schedule
        Commands in their final order, and what may begin in any bank; no more is looked at.
    rows : mapping of Buffer to int
        First row of every buffer that is not resident.

    Returns
    -------
    tuple of str
        Violations; empty if all is well.
    """
    ops = schedule.ops
    spans = _spans(ops)
    violations = []
    places: dict[Buffer, int] = {}
    for buffer in spans:
        first_row = schedule.first_row if buffer.row is None else 0
        row = rows.get(buffer) if buffer.row is None else buffer.row
        if row is None:
            violations.append(f"{buffer.name!r} has no place")
            continue
        if row < first_row or row + buffer.rows > config.ub_rows:
            stop = row + buffer.rows
            violations.append(
                f"{buffer.name!r} takes rows {row} to {stop - 1}, "
                f"but there are {first_row} to {config.ub_rows - 1}"
            )
        movable = buffer.row is None and buffer not in schedule.anywhere
        if movable and buffer.bank is not None and row % config.ub_banks != buffer.bank:
            violations.append(
                f"{buffer.name!r} begins in bank {row % config.ub_banks}, not in {buffer.bank}"
            )
        places[buffer] = row
    for new, old in _overlaps(places, spans):
        if _is_over(old, new):
            new, old = old, new
        if places[new] != places[old] or new.rows != old.rows or not _is_over(new, old):
            at = f"command {spans[new][0]} ({ops[spans[new][0]].opcode.name})"
            violations.append(f"{new.name!r} overlaps {old.name!r} from {at} on")
        elif (index := _first_clash(ops, new, old, spans, config)) is not None:
            violations.append(
                f"{new.name!r} overwrites {old.name!r} before command {index} "
                f"({ops[index].opcode.name}) touches it"
            )
    return tuple(violations)


def _spans(ops: tuple[Op, ...]) -> dict[Buffer, _Span]:
    """Return the first and the last command that touch each buffer; resident ones live forever."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for index, op in enumerate(ops):
        for region in op.rows.values():
            first.setdefault(region.buffer, index)
            last[region.buffer] = index
    end = len(ops) - 1
    return {
        buffer: (start, last[buffer]) if buffer.row is None else (0, end)
        for buffer, start in first.items()
    }


def _overlaps(
    places: Mapping[Buffer, int], spans: Mapping[Buffer, _Span]
) -> list[tuple[Buffer, Buffer]]:
    """Return pairs that overlap in time and rows, the one that begins later first.

    A sweep over time: a buffer that begins is compared with its neighbors among those that are
    there. These lie apart, or in one place, in ascending order; once something else overlaps, some
    further pairs may be missed.
    """
    coming = sorted(places, key=lambda buffer: (spans[buffer][0], -spans[buffer][1]))
    leaving = sorted(places, key=lambda buffer: spans[buffer][1])
    order = {buffer: number for number, buffer in enumerate(coming)}
    alive: list[tuple[int, int, int]] = []  # first row, end, number
    pairs: list[tuple[Buffer, Buffer]] = []
    gone = 0
    for number, buffer in enumerate(coming):
        now = spans[buffer][0]
        while spans[leaving[gone]][1] < now:
            old = leaving[gone]
            entry = (places[old], places[old] + old.rows, order[old])
            del alive[bisect_left(alive, entry)]
            gone += 1
        start, stop = places[buffer], places[buffer] + buffer.rows
        at = bisect_left(alive, (start, stop, number))
        after = at
        while after < len(alive) and alive[after][0] < stop:
            pairs.append((buffer, coming[alive[after][2]]))
            after += 1
        before = at - 1
        while before >= 0 and alive[before][1] > start:
            pairs.append((buffer, coming[alive[before][2]]))
            before -= 1
        insort(alive, (start, stop, number))
    return pairs


def _is_over(new: Buffer, old: Buffer) -> bool:
    """Whether a buffer may take the place of another one, perhaps by way of others."""
    over = new.over
    while over is not None and over is not old:
        over = over.over
    return over is old and old.row is None


def _first_clash(
    ops: tuple[Op, ...],
    new: Buffer,
    old: Buffer,
    spans: Mapping[Buffer, _Span],
    config: Config,
) -> int | None:
    """Return the first command that touches a row of ``old`` that ``new`` has been written to."""
    written = np.zeros(new.rows, bool)
    for index in range(spans[new][0], spans[old][1] + 1):
        op = ops[index]
        mine = {region.buffer for region in op.rows.values()}
        if old in mine:
            late = written[_touched(op, old, config)].any()
            if late or (new in mine and not _in_turn(op, new, old, config)):
                return index
        if new in mine:
            written[_touched(op, new, config)] = True
    return None


def _touched(op: Op, buffer: Buffer, config: Config) -> np.ndarray:
    """Return the rows of a buffer that a command reads or writes."""
    # All buffers are put far apart, so that what lies near this one belongs to it.
    far = 1 << 32
    places = {
        name: region.row + far * (1 if region.buffer is buffer else number + 2)
        for number, (name, region) in enumerate(op.rows.items())
    }
    touched = Toucher(config).touched(Command.make(op.opcode, **addressed(op, places)))
    grids = (*touched.reads, *touched.writes, *touched.early_reads)
    rows = np.concatenate([np.empty(0, np.int64), *map(expand, grids)]) - far
    return rows[(rows >= 0) & (rows < buffer.rows)]


def _in_turn(op: Op, new: Buffer, old: Buffer, config: Config) -> bool:
    """Whether one command reads each row of ``old`` before it writes it as a row of ``new``."""
    if op.opcode is not Opcode.VECTOR:
        return not np.intersect1d(_touched(op, old, config), _touched(op, new, config)).size
    get = op.fields.get
    number = np.arange(get("rows", 0) * get("columns", 0))
    y, x = np.divmod(number, max(get("columns", 0), 1))
    # The output vector that writes each row first.
    written = np.full(new.rows, len(number))
    if op.rows["out_row"].buffer is new:
        out = op.rows["out_row"].row + y * get("out_pitch", 0) + x * get("out_step", 0)
        np.minimum.at(written, out, number)
    windowed = get("operation") in WINDOWED
    pitch = get("window_pitch", 0)
    window = [
        wy * pitch + wx
        for wy in range(get("window_rows", 1) if windowed else 1)
        for wx in range(get("window_columns", 1) if windowed else 1)
    ]
    for name in ("a", "b"):
        region = op.rows.get(f"{name}_row")
        if region is not None and region.buffer is old:
            read = region.row + y * get(f"{name}_pitch", 0) + x * get(f"{name}_step", 0)
            if any((written[read + offset] < number).any() for offset in window):
                return False
    return True
