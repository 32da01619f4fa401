"""Runs of which it is known what each engine did: predicted, or recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tpulite.arch.isa import Engine
from tpulite.golden.timing import program_timeline
from tpulite.program import Program
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.session import EngineTrace, Results, Session, program_graph

CYCLE_MODEL = "cycle model"


@dataclass(frozen=True)
class TracedRun:
    """A run of a program: what each engine did, by the cycle model or by the chip's trace ports."""

    program: Program  #: The program.
    traces: Mapping[Engine, EngineTrace]  #: What each engine did.
    cycles: int  #: Cycles of the run.

    @classmethod
    def of(cls, program: Program, results: Results, device: str) -> Self:
        """Return what a device recorded; ValueError if it has no clock or keeps no trace."""
        if results.cycles is None or not results.traces:
            raise ValueError(f"{device} has no clock, or records no trace")
        return cls(program, results.traces, results.cycles)

    @classmethod
    def predicted(cls, program: Program) -> Self:
        """Return what the cycle model says."""
        timeline = program_timeline(program)
        return cls(program, timeline.traces(), timeline.cycles)


def trace_program(program: Program, device: str = CYCLE_MODEL, *, seed: int = 2024) -> TracedRun:
    """Find out what each engine does while a program runs that is no network's.

    Parameters and errors are those of :func:`trace_runs`.
    """
    if device == CYCLE_MODEL:
        return TracedRun.predicted(program)
    session = Session(program, device)
    session.record_traces(True)
    inputs = random_inputs(program_graph(program), 1, seed)
    return TracedRun.of(program, session.run(inputs), device)


def trace_runs(
    model: Model, device: str = CYCLE_MODEL, *, seed: int = 2024
) -> tuple[TracedRun, ...]:
    """Find out what each engine does while a network runs.

    Parameters
    ----------
    model : Model
        The network; it is compiled if it is not yet.
    device : str
        The cycle model, or a device with a clock that records traces, on which random inputs run.
    seed : int
        Seed of these inputs; cycles do not depend on them.

    Returns
    -------
    tuple of TracedRun
        One for each program, in order. What stays resident has been loaded before.

    Raises
    ------
    ValueError
        If there is no such device, or it has no clock or keeps no trace.
    """
    programs = model.steady_programs
    if device == CYCLE_MODEL:
        return tuple(map(TracedRun.predicted, programs))
    runner = Runner(model, device)
    runner.record_traces(True)
    inputs = random_inputs(model.graph, 1, seed)
    one = {name: x.reshape(model.graph.tensors[name].shape) for name, x in inputs.items()}
    (results,) = [runner.run(one).segments for _ in range(1 + model.options.resident)][-1]
    pairs = zip(programs, results, strict=True)
    return tuple(TracedRun.of(program, result, device) for program, result in pairs)
