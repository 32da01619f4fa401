"""Where the cycles of a run go: each of them belongs to one layer and has one cause."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tpulite.arch.effects import tile_rows
from tpulite.arch.isa import Command, Engine
from tpulite.arch.registers import EngineState
from tpulite.program import Program
from tpulite.report.buffer import live_rows
from tpulite.report.traced_run import TracedRun
from tpulite.report.traffic import command_bytes
from tpulite.runtime.session import EngineTrace


class Cause(StrEnum):
    """What happens in a cycle."""

    MULTIPLIERS = "multipliers"  #: the matrix unit works
    WEIGHTS = "weight tiles"  #: it works, with fewer vectors for a tile of weights than it has rows
    DEPTHWISE = "depthwise"  #: it works on a depthwise convolution
    BUFFER = "buffer"  #: it stands still because others use the bank that it needs
    VECTOR = "vector path"  #: it has nothing to do; the vector path works
    DRAM = "DRAM"  #: neither works; something is loaded or stored
    WAITING = "waiting"  #: nobody works: commands, tokens and results are on their way


_CAUSES = list(Cause)


def spend_cycles(
    program: Program, traces: Mapping[Engine, EngineTrace], cycles: int
) -> list[dict[Cause, int]]:
    """Divide the cycles of a run among the layers.

    A cycle belongs to the layer that the matrix unit works on; if it does not work, to that of the
    vector path; if neither does, to the layer of the next command of one of them, or to that of the
    transfer after the last one. So layers may take turns, as those of a group do.

    Parameters
    ----------
    traces : mapping of Engine to EngineTrace
        What each engine did, on the chip or by the cycle model.
    cycles : int
        Cycles from start to interrupt.

    Returns
    -------
    list of dict of Cause to int
        Of the start, of each layer, of the end: cycles by cause, most first. Their sum is
        ``cycles``. The start is what comes before anything works or moves, the end what is left
        when the last command is done.
    """
    owners = _owners(program)
    works = {engine: _work(trace) for engine, trace in traces.items()}
    bounds = np.unique(
        np.concatenate([[0, cycles], *(work[1:].ravel() for work in works.values())])
    )
    bounds = bounds[bounds <= cycles]
    first, lengths = bounds[:-1], np.diff(bounds)
    command, engine = _who_works(works, first)
    computes = (engine == Engine.MXU) | (engine == Engine.VPU)
    after = _next_command(works, first)
    owner = np.where(computes | (after < 0), owners[command], owners[after])
    begin = min((work[1, 0] for work in works.values() if work.size), default=cycles)
    owner[first < begin] = 0

    cause = np.full(len(first), _CAUSES.index(Cause.WAITING))
    cause[(engine == Engine.LOAD) | (engine == Engine.STORE)] = _CAUSES.index(Cause.DRAM)
    cause[engine == Engine.VPU] = _CAUSES.index(Cause.VECTOR)
    matrix = engine == Engine.MXU
    kinds = np.array([_CAUSES.index(_kind(command, program)) for command in program.commands])
    cause[matrix] = kinds[command[matrix]]
    spent = np.zeros((len(program.layers) + 2, len(_CAUSES)), np.int64)
    np.add.at(spent, (owner, cause), lengths)
    if Engine.MXU in traces:
        trace = traces[Engine.MXU]
        stalls = trace.cycles[:, [EngineState.BUFFER, EngineState.AXI]].sum(axis=1)
        rows = owners[trace.index]
        np.subtract.at(spent, (rows, kinds[trace.index]), stalls)
        np.add.at(spent[:, _CAUSES.index(Cause.BUFFER)], rows, stalls)
    return [_named(row) for row in spent.tolist()]


def _owners(program: Program) -> np.ndarray:
    """Return the row of each command's layer; at the end that of END, and of no command."""
    layers = np.append(command_layers(program), -1)
    return np.where(layers < 0, len(program.layers), layers) + 1


def _work(trace: EngineTrace) -> np.ndarray:
    """Return the commands of an engine, and from when until when it works on each: [3, count]."""
    begin = trace.start + trace.cycles[:, EngineState.TOKEN]
    work = np.array([trace.index, begin, trace.stop])
    return work[:, begin < trace.stop]


def _who_works(
    works: Mapping[Engine, np.ndarray], first: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each cycle the command worked on and its engine; -1 if there is none."""
    command, engine = np.full(len(first), -1), np.full(len(first), -1)
    for each in (Engine.STORE, Engine.LOAD, Engine.VPU, Engine.MXU):  # the last one counts
        if each in works and works[each].size:
            index, begin, stop = works[each]
            last = np.searchsorted(begin, first, "right") - 1
            inside = (last >= 0) & (stop[last] > first)
            command[inside], engine[inside] = index[last[inside]], each
    return command, engine


def _next_command(works: Mapping[Engine, np.ndarray], first: np.ndarray) -> np.ndarray:
    """Return for each cycle the next command of matrix unit or vector path; -1 after the last."""
    both = [works[engine] for engine in (Engine.MXU, Engine.VPU) if engine in works]
    index, begin, _ = np.concatenate([np.empty((3, 0), np.int64), *both], axis=1)
    order = np.argsort(begin, kind="stable")
    return np.append(index[order], -1)[np.searchsorted(begin[order], first, "right")]


def _kind(command: Command, program: Program) -> Cause:
    """Return what holds a command of the matrix unit up while it works."""
    if command.engine != Engine.MXU:
        return Cause.WAITING
    if command["depthwise"]:
        return Cause.DEPTHWISE
    slots = command["rows"] * command["columns"]
    short = slots < tile_rows(command["int4"], program.config)
    return Cause.WEIGHTS if short else Cause.MULTIPLIERS


def _named(row: list[int]) -> dict[Cause, int]:
    spent = {cause: cycles for cause, cycles in zip(_CAUSES, row, strict=True) if cycles}
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


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
