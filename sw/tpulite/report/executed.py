"""What the engines did in a run, command by command, and what follows from it cycle by cycle."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite.program import Program
from tpulite.report.buffer import live_rows
from tpulite.report.traced_run import TracedRun
from tpulite.report.traffic import command_bytes
from tpulite.runtime.results import EngineTrace


class Executed(NamedTuple):
    """A command that an engine executed."""

    number: int  #: Which command of the program.
    #: First cycle that counted for it, that in which it had its tokens, last cycle + 1.
    first: int
    start: int
    stop: int
    states: np.ndarray  #: Cycles in each :class:`tpulite.arch.registers.EngineState`.


def executed(trace: EngineTrace) -> Iterator[Executed]:
    """Yield the commands of an engine, in order."""
    start = trace.start + trace.cycles[:, EngineState.TOKEN]
    columns = (trace.index, trace.start, start, trace.stop)
    rows = zip(*(column.tolist() for column in columns), trace.cycles, strict=True)
    yield from map(Executed._make, rows)


def command_layers(program: Program) -> np.ndarray:
    """Return the number of each command's layer; -1 if it has none, as END."""
    owners = np.full(len(program.commands), -1)
    for number, layer in enumerate(program.layers):
        owners[[*layer.commands, *layer.others]] = number
    return owners


def bytes_a_cycle(run: TracedRun, engine: Engine) -> Iterator[tuple[int, float]]:
    """Yield the bytes a cycle that LOAD or STORE moves from a cycle on: each command's average."""
    yield 0, 0.0
    if engine not in run.traces:
        return
    end = 0
    for index, _, start, stop, _ in executed(run.traces[engine]):
        if start > end > 0:
            yield end, 0.0
        moved = command_bytes(run.program.commands[index], run.program.config)
        yield start, moved / max(1, stop - start)
        end = stop
    yield end, 0.0


def rows_needed(run: TracedRun) -> Iterator[tuple[int, float]]:
    """Yield the rows of the unified buffer that are needed, for the program as far as it has come.

    Commands that others have overtaken count when they are reached in the order of the program.
    """
    live, _ = live_rows(run.program)
    starts = sorted(
        (start, index) for trace in run.traces.values() for index, _, start, *_ in executed(trace)
    )
    latest = -1
    for start, index in starts:
        if index > latest:
            yield start, float(live[latest + 1 : index + 1].max())
            latest = index
