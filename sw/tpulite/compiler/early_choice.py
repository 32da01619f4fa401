"""Vectors as early as they can come, where the program then takes fewer cycles."""

from collections.abc import Sequence
from dataclasses import replace

from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Op
from tpulite.compiler.schedule.early_vectors import put_vectors_early
from tpulite.compiler.spread_choice import spread
from tpulite.compiler.stages import allocate, cost_of, encode, schedule
from tpulite.compiler.state import State

_MOST = 4_000
"""Larger programs are predicted only if layers of the vector path change places: that pays most."""

_LESS = 0.995
"""Part of the cycles at which vectors come early: for less, programs stay as they are."""


def put_early(state: State) -> State:
    """Put vectors behind what they need, where the program then costs less.

    Buffers have been spread by then; those of the new order are if it is taken.
    """
    options, ops = state.options, state.tiling.ops
    if options.order != "fast" or not (options.block_start and options.prefetch):
        return state
    early_ops = put_vectors_early(ops, state.config)
    large = len(state.commands) > _MOST
    if early_ops == ops or (large and _vectors(early_ops) == _vectors(ops)):
        return state
    early = allocate(schedule(replace(state, early=True)))
    if early.shortage is not None:
        return state
    early = encode(early)
    if cost_of(early, early.commands) > _LESS * cost_of(state, state.commands):
        return state
    return early if "spread-buffers" in options.without else spread(early)


def _vectors(ops: Sequence[Op]) -> list[int]:
    """Return the layers of VECTORs in their order."""
    return [op.layer for op in ops if op.opcode is Opcode.VECTOR]
