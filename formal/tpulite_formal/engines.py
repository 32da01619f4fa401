"""What surrounds an engine, and steps of its state that it does not take.

Waivers of coverage (`tb/coverage_waivers.csv`) follow from these steps: run control resets engines
as :func:`surround` says.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import ResetSignal, Signal
from amaranth.lib import wiring

from tpulite.arch.registers import EngineState
from tpulite_formal.harness import Harness

__all__ = ["prove_steps", "surround"]


def surround(h: Harness, engine: wiring.PureInterface) -> None:
    """Let an engine be reset only while it is stopped and quiet, and be stopped until then.

    A reset of the whole chip is the begin of a run.
    """
    stopped = Signal(name="stopped_before")
    h.m.d.sync += stopped.eq(engine.stop)
    h.assume(~stopped | engine.stop)
    h.assume(~ResetSignal() | (engine.stop & engine.quiet))


def prove_steps(
    h: Harness, engine: wiring.PureInterface, steps: Sequence[tuple[EngineState, EngineState]]
) -> None:
    """Ask for steps that the engine does not take, and for runs in which it waits in these ways."""
    state = engine.state
    before = Signal.like(state, name="state_before", reset_less=True)
    h.m.d.sync += before.eq(state)
    taken = [(before == first) & (state == second) for first, second in steps]
    named = ", ".join(f"from {first.name} to {second.name}" for first, second in steps)
    h.prove("steps", f"it does not go {named}", ~reduce(or_, taken))
    for wait in sorted({state for step in steps for state in step} - {EngineState.IDLE}):
        h.cover(wait.name.lower(), f"it waits: {wait.name}", state == wait)
    h.cover("again", "it is reset after work", ResetSignal() & (before == EngineState.BUSY))
