"""The program that is bound to the shape of the network, where it takes fewer cycles."""

from dataclasses import replace
from typing import TYPE_CHECKING

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Opcode
from tpulite.compiler.options import SWITCHES
from tpulite.compiler.plan.layer_cost import compute_cycles
from tpulite.compiler.stages import cost_of, cycles_of
from tpulite.compiler.state import BoundChoice, State
from tpulite.program import Program

if TYPE_CHECKING:
    from tpulite.compiler.bind.compile import RangeProgram
    from tpulite.compiler.bind.network_plan import NetworkPlan

_LARGE = 4
"""A program of more commands than such a part of the effort is predicted only if that may pay."""

_HIDDEN = 0.75
"""Part of the cycles of all engines together: where one has more, it hides the others, and a large
program is about as fast as that engine; and a plan must promise less."""

_OVER, _FAR = 1.06, 1.4
"""What the closed form may say too much; and of one or two layers, which cost little to bind."""

_SMALL, _FEW = 3, 2
"""A small program has commands for such a part of the effort, and at most so many layers."""

_LESS = 0.99
"""Part of the cost at which the program is replaced: for less, it stays as it is."""


def choose_bound(state: State) -> State:
    """Bind the network as if its shape were one of a range; keep the program if it is better.

    The closed form is asked first: what promises too little is not bound, and large programs are
    not even predicted if one of their engines hides the others. Where the user has asked for
    another order, or for less than all mechanisms, nothing is.
    """
    options, commands = state.options, state.commands
    settled = options.order != "fast" or options.allocator != "online" or not options.effort
    settled |= state.pool.pins is not None or options.batch > 1 or state.stacked
    if settled or not all(getattr(options, name) for name in SWITCHES):
        return state
    few = len(state.simplified.layers.layers) <= _FEW
    small = few and len(commands) <= options.effort // _SMALL
    large = not small and len(commands) > options.effort // _LARGE
    work = _work(state) if large else ()
    if large and max(work) > _HIDDEN * sum(work):
        return state
    network, plan = state.known.once("own shape", lambda: _own_shape(state))
    if network is None or plan is None or (large and plan.cycles > _HIDDEN * sum(work)):
        return replace(state, bound=BoundChoice(None, plan))
    cycles = cycles_of(state, commands)
    if plan.cycles > (_FAR if small else _OVER) * cycles:
        return replace(state, bound=BoundChoice(cycles, plan))
    program = state.known.once("bound", lambda: _bound(state, network))
    bound = cycles_of(state, program.commands)
    chosen = BoundChoice(cycles, plan, bound)
    if _better(state, program, chosen):
        chosen = replace(chosen, program=program)
    return replace(state, bound=chosen)


def _better(state: State, program: Program, choice: BoundChoice) -> bool:
    """Return whether a program costs less than the compiled one, and takes no more cycles."""
    assert choice.bound is not None and choice.compiled is not None
    cost, other = cost_of(state, program.commands), cost_of(state, state.commands)
    return choice.bound <= choice.compiled and cost < _LESS * other


def _work(state: State) -> tuple[int, ...]:
    """Return about the cycles of each engine: array, vector path, LOADs, STOREs."""
    images, config, mxu, vpu = state.layers.activations, state.config, 0, 0
    for layer in state.layers.layers:
        used = tuple(images[name] for name in (*layer.inputs, layer.output))
        engines = compute_cycles(layer, used, used[-1].shape[:2], config)
        mxu, vpu = mxu + engines.mxu, vpu + engines.vpu
    rows = {Opcode.LOAD: 0, Opcode.STORE: 0}
    for each in state.commands:
        if each.opcode in rows:
            rows[each.opcode] += each["lines"] * each["rows"]
    return mxu, vpu, *(count * config.row_bytes // BEAT_BYTES for count in rows.values())


def _own_shape(state: State) -> "tuple[RangeProgram, NetworkPlan] | tuple[None, None]":
    """Return the network, ready to be bound, and its plan; None twice if it cannot be."""
    from tpulite.compiler.bind.compile import compile_shape
    from tpulite.compiler.bind.own_shape import plan_own_shape

    try:
        network = compile_shape(state.simplified.layers, state.config)
        return network, plan_own_shape(network)
    except ValueError:
        return None, None


def _bound(state: State, network: "RangeProgram") -> Program:
    """Return the bound program; multiplications by zeros that passes have added do not count."""
    from tpulite.compiler.bind.own_shape import bind_own_shape

    counts, final = state.simplified.layers.macs(), state.macs
    return bind_own_shape(
        network, {name: min(count, final.get(name, count)) for name, count in counts.items()}
    )
