"""Stages: each makes one field of the state, from groups of layers to a program.

None of them knows how fast the machine is. What a program takes is predicted at the end: searches
(:mod:`tpulite.compiler.searches`) choose by it.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Engine, Opcode
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite.arch.registers import EngineState
from tpulite.compiler.document_groups import document_groups
from tpulite.compiler.encode.assemble import assemble as assemble_program
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.group.search import group_layers
from tpulite.compiler.lower.tile_groups import tile_groups
from tpulite.compiler.ops import Tiling
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import Placement, place_activations
from tpulite.compiler.schedule.early_vectors import put_vectors_early
from tpulite.compiler.schedule.fit import allocate_buffers, schedule_ops
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.schedule import encode as encode_schedule
from tpulite.compiler.schedule.schedule import schedule_commands
from tpulite.compiler.state import State, memoized, stage
from tpulite.golden.timing import Timeline, predict, predict_cycles

_CHOICES = ("limits", "groups", "plans", "pinned_rows")
"""Fields that decide what is lowered."""

_SECOND = 32
"""Bits of what decides between programs that are equal in what counts first."""


@stage("limits")
def group(state: State) -> dict[str, Any]:
    """Choose groups by their estimated costs; layers alone are cut as they must be."""
    choose = document_groups if state.options.groups == "document" else group_layers
    groups = choose(state.layers, state.config, state.options, refused=state.limits.refused)
    return {"groups": state.limits.cut(groups)}


@stage("limits", "groups", "pinned_rows")
def place(state: State) -> dict[str, Any]:
    """Decide which activations stay on chip, and where the others lie in DRAM."""
    return {"placement": _place(state, state.pool.empty())}


def _place(state: State, pool: ConstantPool) -> Placement:
    """Return where activations are; the pool takes those that are constant."""
    layers, config, options = state.layers, state.config, state.options
    outside, taken = state.limits.outside, state.pinned_rows
    return place_activations(
        layers, state.groups, config, options, pool=pool, outside=outside, taken=taken
    )


@stage(*_CHOICES)
def tile(state: State) -> dict[str, Any]:
    """Lower groups to commands without addresses; pack their constants."""
    pool = state.pool.empty()
    _place(state, pool)
    return {"tiling": _tile(state, pool), "pool": pool}


def _tile(state: State, pool: ConstantPool) -> Tiling:
    """Return commands; the pool takes their constants."""
    return tile_groups(
        state.layers,
        state.groups,
        state.placement,
        pool,
        state.config,
        state.options,
        shares=state.limits.shares,
        plans=state.plans.convs,
    )


@stage(*_CHOICES, "early")
def schedule(state: State) -> dict[str, Any]:
    """Put loads ahead of their use, or say which buffer finds no place."""
    tiling = state.tiling
    if state.early:
        tiling = replace(tiling, ops=put_vectors_early(tiling.ops, state.config))
    found = schedule_ops(
        tiling,
        state.config,
        state.options,
        part_by_part=state.limits.part_by_part,
        lead=state.plans.lead,
    )
    short = isinstance(found, Shortage)
    return {"schedule": None if short else found, "shortage": found if short else None}


@stage(*_CHOICES, "early")
def allocate(state: State) -> dict[str, Any]:
    """Give each buffer rows."""
    if state.shortage is not None:
        return {"allocation": None}
    return {"allocation": allocate_buffers(state.schedule, state.config, state.options)}


def lower(state: State) -> State:
    """Run the stages that need rows of the unified buffer."""
    return allocate(schedule(tile(state)))


@stage(*_CHOICES, "early")
def encode(state: State) -> dict[str, Any]:
    """Insert rows and tokens into commands."""
    commands, owners = encode_schedule(state.schedule, state.allocation.rows)
    tokens = insert_tokens(commands, state.config, prefetch=state.options.prefetch)
    return {"commands": tokens, "owners": owners}


@stage(*_CHOICES, "early", "allocation", "bound")
def assemble(state: State) -> dict[str, Any]:
    """Join commands, constants and tensors; the machine of the program lacks its speed."""
    if state.bound is not None and state.bound.program is not None:
        return {"program": state.bound.program}
    program = assemble_program(
        state.layers,
        state.macs,
        state.placement,
        state.pool,
        state.commands,
        state.owners,
        state.config,
        state.options.batch,
        state.tiling.resident,
    )
    return {"program": program}


def predict_cost(state: State) -> tuple[float, int]:
    """Return the cost of a placed network, infinite if it does not fit, and its commands.

    The cost is cycles; of equally fast programs that which moves fewer bytes of DRAM costs less, by
    a fraction of a cycle. If the user wants little traffic, bytes count first.
    """
    commands = _predicted(state)
    if isinstance(commands, int):
        return math.inf, commands
    return cost_of(state, commands), len(commands)


def predict_idle(state: State) -> int:
    """Return the cycles in which the busiest engine waits; 0 if something does not fit."""
    commands = _predicted(state)
    if isinstance(commands, int):
        return 0
    return idle_cycles(commands, state.machine, state.options.timing)


def cost_of(state: State, commands: tuple[Command, ...]) -> float:
    """Return what :func:`predict_cost` is of commands."""
    cycles = cycles_of(state, commands)
    moved = traffic(commands, state.machine)
    if state.options.optimize == "memory":
        return (moved << _SECOND) + cycles
    return cycles + moved / (1 << _SECOND)


def cycles_of(state: State, commands: tuple[Command, ...]) -> int:
    """Predict the cycles of a program; passes ask for those of one program again and again."""
    machine, memory = state.machine, state.options.timing
    return _note_cycles(state, commands, lambda: predict_cycles(commands, machine, memory))


def timeline_of(state: State, commands: tuple[Command, ...]) -> Timeline:
    """Predict when the commands of a program run, and note its cycles."""
    timeline = predict(commands, state.machine, state.options.timing)
    _note_cycles(state, commands, lambda: timeline.cycles)
    return timeline


def _note_cycles(state: State, commands: tuple[Command, ...], find: Callable[[], int]) -> int:
    """Return the cycles of a program as they were found first."""
    key = "cycles", id(commands), state.machine, state.options.timing
    # It keeps the commands, too, so that no others have their id.
    return state.known.once(key, lambda: (commands, find()))[1]


@memoized(*_CHOICES)
def _predicted(state: State) -> tuple[Command, ...] | int:
    """Return commands with tokens; if something does not fit, only how many there would be.

    Unlike the stages it keeps nothing that only a chosen program needs.
    """
    config, options, limits = state.config, state.options, state.limits
    tiling = _tile(state, state.pool.empty())
    if options.allocator == "online" and not limits.part_by_part:
        lead = state.plans.lead if options.prefetch else 0
        found = schedule_commands(tiling, config, lead=lead)
    else:
        found = schedule_ops(
            tiling, config, options, part_by_part=limits.part_by_part, lead=state.plans.lead
        )
        if not isinstance(found, Shortage):
            found = encode_schedule(found, allocate_buffers(found, config, options).rows)
    if isinstance(found, Shortage):
        return len(tiling.ops)
    commands, _ = found
    return insert_tokens(commands, config, prefetch=options.prefetch)


def idle_cycles(
    commands: tuple[Command, ...], config: Config, memory: MemoryTiming = REFERENCE_MEMORY
) -> int:
    """Return the cycles in which the busiest engine of a program waits."""
    timeline = predict(commands, config, memory)
    busy = max(timeline.engine(engine)[EngineState.BUSY] for engine in Engine)
    return timeline.cycles - busy


def traffic(commands: tuple[Command, ...], config: Config) -> int:
    """Return bytes that go to and come from DRAM, commands included."""
    moves = (each for each in commands if each.opcode in (Opcode.LOAD, Opcode.STORE))
    rows = sum(each["lines"] * each["rows"] for each in moves)
    return rows * config.row_bytes + len(commands) * COMMAND_BYTES
