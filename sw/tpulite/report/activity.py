"""How much of the time each engine works: what its dynamic power follows."""

from collections.abc import Sequence

import numpy as np

from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite.report.traced_run import TracedRun

Activity = dict[Engine, dict[EngineState, float]]
"""Of each engine the parts of all cycles that it spends in each state; they sum to 1."""


def engine_activity(runs: Sequence[TracedRun]) -> Activity:
    """Return what part of all cycles each engine spends in each state, as its counters say.

    While it is idle its clock may stop (``Build.clock_gates``). Without runs nothing is returned.
    """
    cycles = sum(run.cycles for run in runs)
    if not cycles:
        return {}
    activity: Activity = {}
    for engine in Engine:
        spent = np.sum([run.traces[engine].cycles.sum(axis=0) for run in runs], axis=0)
        parts = {state: float(spent[state]) / cycles for state in EngineState}
        parts[EngineState.IDLE] = 1.0 - float(sum(spent[1:])) / cycles
        activity[engine] = parts
    return activity


def activity_line(activity: Activity) -> str:
    """Return what engines do in words, for 80 columns.

    Examples
    --------
    >>> states = {EngineState.BUSY: 0.25, EngineState.IDLE: 0.5}
    >>> activity_line({Engine.LOAD: states, Engine.MXU: states})
    'engines, busy/idle: LOAD 25/50%, MXU 25/50%'
    """
    engines = (
        f"{engine.name} {100 * states[EngineState.BUSY]:.0f}/{states[EngineState.IDLE]:.0%}"
        for engine, states in activity.items()
    )
    return f"engines, busy/idle: {', '.join(engines)}"
