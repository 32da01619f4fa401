"""What lies where in the unified buffer, and from when until when."""

from typing import NamedTuple

import numpy as np

from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.program import Program
from tpulite.report.buffer import find_lives
from tpulite.report.spending import command_layers, executed
from tpulite.report.traced_run import TracedRun

_KINDS = {Window.CONSTANTS: "weights", Window.INPUT: "input"}
_ACTIVATIONS, _LEFT = "activations", "before the run"


class Block(NamedTuple):
    """Rows of the unified buffer that hold one thing for a while."""

    layer: int  #: Number of the layer that it is written for; -1 for what was there before.
    kind: str  #: What it is.
    #: First row, and last row + 1.
    row: int
    end: int
    #: Cycle in which its first writer starts, and in which its last reader is done.
    start: int
    stop: int


def map_buffer(run: TracedRun, steps: int = 500) -> list[Block]:
    """Find the contents of the unified buffer over a run.

    Contents of the same kind and layer count as one block if they lie beside each other, or follow
    one another in the same rows; what begins or ends within the same step is taken together.

    Parameters
    ----------
    steps : int
        Steps of equal length into which it is divided.
    """
    row, name, start, stop = _cells(run)
    if not row.size:
        return []
    step = max(1, run.cycles // steps)
    gap = np.append(start[1:] - stop[:-1], 0)
    first = _firsts(np.diff(row) != 0, np.diff(name) != 0, gap[:-1] > step)
    row, name, start = row[first], name[first], start[first]
    stop = np.maximum.reduceat(stop, first)
    begin, end = start // step, stop // step
    order = np.lexsort((row, end, begin, name))
    row, name, start, stop, begin, end = (
        each[order] for each in (row, name, start, stop, begin, end)
    )
    changes = [np.diff(each) != 0 for each in (name, begin, end)]
    first = _firsts(*changes, np.diff(row) != 1)
    last = np.append(first[1:], len(row)) - 1
    layers, kinds = np.divmod(name[first], len(_names()))
    columns = (
        *(layers - 1, kinds, row[first], row[last] + 1),
        *(np.minimum.reduceat(start, first), np.maximum.reduceat(stop, first)),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Block(layer, _names()[kind], *rest) for layer, kind, *rest in rows]


def _cells(run: TracedRun) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each row of each life, row by row: its number, what it holds, from when, until when.

    What it holds is a number: that of the layer + 1, times the number of kinds, plus the kind.
    """
    lives = find_lives(run.program)
    order = np.argsort(lives.rows.astype(np.uint16), kind="stable")  # sorts quickly
    rows, born, read, over = (each[order] for each in lives)
    start, stop = _times(run)
    until = np.minimum(stop[read], start[over])
    return (
        rows,
        _contents(run.program)[born],
        start[born],
        np.maximum(until, start[born]),
    )


def _times(run: TracedRun) -> tuple[np.ndarray, np.ndarray]:
    """Return when commands start and are done; then those after the last, and before the first."""
    start = np.full(len(run.program.commands) + 2, run.cycles)
    stop = start.copy()
    start[-1] = stop[-1] = 0
    for trace in run.traces.values():
        for number, _, begin, end, _ in executed(trace):
            start[number], stop[number] = begin, end
    return start, stop


def _names() -> list[str]:
    return [_LEFT, _ACTIVATIONS, *_KINDS.values()]


def _contents(program: Program) -> np.ndarray:
    """Return what each command writes; then that of no command, and what was there before."""
    kinds = [
        _names().index(
            _KINDS.get(Window(command["window"]), _ACTIVATIONS)
            if command.opcode == Opcode.LOAD
            else _ACTIVATIONS
        )
        for command in program.commands
    ]
    return np.append((command_layers(program) + 1) * len(_names()) + kinds, [0, 0])


def _firsts(*changes: np.ndarray) -> np.ndarray:
    """Return where something begins that differs from what is before it."""
    return np.concatenate(([0], 1 + np.flatnonzero(np.logical_or.reduce(changes))))
