"""Scheduling where every row counts: parts of a program that share no buffers, one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.compiler.ops import Buffer, Tiling
from tpulite.compiler.schedule.longest import place_in_turn, place_longest
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.schedule import order_commands
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule, find_lifetimes
from tpulite.compiler.schedule.uses import Uses


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
