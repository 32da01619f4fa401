"""The program that is bound to the shape of the network, where it takes fewer cycles."""

from dataclasses import replace

from tpulite.compiler.bind.compile import RangeProgram, compile_shape
from tpulite.compiler.bind.own_shape import BoundChoice, bind_own_shape, plan_own_shape
from tpulite.compiler.options import SWITCHES
from tpulite.compiler.stages import cost_of
from tpulite.compiler.state import State
from tpulite.golden.timing import predict_cycles
from tpulite.program import Program

__all__ = ["choose_bound"]

_SLACK = 1.05
"""A program that takes so many times the cycles of its MACs is as fast as any."""

_OVER, _FAR = 1.06, 1.4
"""What the closed form may say too much; and for small programs, which cost little to bind."""

_SMALL = 3
"""A small program has commands for such a part of the effort."""

_LESS = 0.99
"""Part of the cost at which the program is replaced: for less, it stays as it is."""


def choose_bound(state: State) -> State:
    """Bind the network as if its shape were one of a range; keep the program if it is better.

    The closed form is asked first: what promises too little is not bound. Where the user has asked
    for another order, or for less than all mechanisms, nothing is.
    """
    options, commands = state.options, state.commands
    settled = options.order != "fast" or options.allocator != "online" or not options.effort
    settled |= state.pool.pins is not None or options.batch > 1 or state.stacked
    if settled or not all(getattr(options, name) for name in SWITCHES):
        return state
    cycles = predict_cycles(commands, state.machine)
    small = len(commands) <= options.effort // _SMALL
    if not small and cycles <= _SLACK * _least_cycles(state):
        return state
    network = state.known.once("own shape", lambda: _own_shape(state))
    if network is None:
        return replace(state, bound=BoundChoice(cycles, None))
    plan = plan_own_shape(network)
    if plan.cycles > (_FAR if small else _OVER) * cycles:
        return replace(state, bound=BoundChoice(cycles, plan))
    program = state.known.once("bound", lambda: _bound(state, network))
    chosen = BoundChoice(cycles, plan, predict_cycles(program.commands, state.machine))
    if _better(state, program, chosen):
        chosen = replace(chosen, program=program)
    return replace(state, bound=chosen)


def _better(state: State, program: Program, choice: BoundChoice) -> bool:
    """Return whether a program costs less than the compiled one, and takes no more cycles."""
    assert choice.bound is not None
    cost, other = cost_of(state, program.commands), cost_of(state, state.commands)
    return choice.bound <= choice.compiled and cost < _LESS * other


def _least_cycles(state: State) -> int:
    """Return the cycles of all multiplications, if the array were always full."""
    counts, final = state.layers.macs(), state.macs
    macs = sum(min(count, final.get(name, count)) for name, count in counts.items())
    return macs // state.config.array_size**2


def _own_shape(state: State) -> RangeProgram | None:
    """Return the network, ready to be bound; None if it cannot be."""
    try:
        network = compile_shape(state.simplified.layers, state.config)
        plan_own_shape(network)
    except ValueError:
        return None
    return network


def _bound(state: State, network: RangeProgram) -> Program:
    """Return the bound program; multiplications by zeros that passes have added do not count."""
    counts, final = state.simplified.layers.macs(), state.macs
    return bind_own_shape(
        network, {name: min(count, final.get(name, count)) for name, count in counts.items()}
    )
