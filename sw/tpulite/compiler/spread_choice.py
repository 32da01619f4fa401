"""Other rows for the buffers of a program, where engines then wait less for each other."""

from collections.abc import Mapping
from dataclasses import replace

from tpulite.arch.isa import Command
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.ops import Buffer
from tpulite.compiler.schedule.fit import verified
from tpulite.compiler.schedule.schedule import encode
from tpulite.compiler.schedule.spread import Moment, spread_buffers
from tpulite.compiler.stages import cycles_of, timeline_of
from tpulite.compiler.state import State

_MOST = 4_000
"""Programs of more commands keep their rows: each is predicted four times."""

_LESS = 0.999
"""Part of the cycles at which buffers get other rows: for less, programs stay as they are."""


def spread(state: State) -> State:
    """Give buffers other rows, where the program takes fewer cycles.

    When commands would run if each buffer had rows of its own says when rows are needed and when
    they are free again; and whether there is anything to gain.
    """
    options = state.options
    settled = options.allocator != "online" or state.limits.part_by_part
    if settled or len(state.commands) > _MOST:
        return state
    least = _LESS * cycles_of(state, state.commands)
    alone = timeline_of(state, _alone(state))
    if alone.cycles > least:
        return state
    times = alone.times[: len(state.schedule.ops)]
    moments = [Moment(each.first, each.stop - each.first - each.token, each.stop) for each in times]
    best = state
    for patient in (False, True):
        rows = spread_buffers(state.schedule, moments, state.config, patient=patient)
        if rows is None:
            continue
        allocation = verified(state.schedule, rows, state.config)
        commands = _commands(state, rows)
        if (cycles := cycles_of(state, commands)) < least:
            best, least = replace(state, allocation=allocation, commands=commands), cycles
    return best


def _commands(state: State, rows: Mapping[Buffer, int]) -> tuple[Command, ...]:
    """Return the program with its buffers in some rows."""
    commands, _ = encode(state.schedule, rows)
    return insert_tokens(commands, state.config, prefetch=state.options.prefetch)


def _alone(state: State) -> tuple[Command, ...]:
    """Return commands that do not wait until the rows of a buffer are free: for timing alone."""
    commands, _ = encode(state.schedule, state.allocation.rows)
    rows = state.allocation.rows
    fresh: dict[int, list[range]] = {}
    for place in state.schedule.places:
        start = rows[place.buffer]
        fresh.setdefault(place.first, []).append(range(start, start + place.buffer.rows))
    return insert_tokens(commands, state.config, prefetch=state.options.prefetch, fresh=fresh)
