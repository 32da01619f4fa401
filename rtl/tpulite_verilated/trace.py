"""What engines did in a run, command by command, from the chip's trace ports."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.registers import EngineState

__all__ = ["ROW_WORDS", "EngineTrace", "trace_from_rows"]

ROW_WORDS = 2 + len(EngineState) - 1
"""Words of a row of a raw trace: first cycle, last cycle + 1, cycles in each state but IDLE."""


@dataclass(frozen=True)
class EngineTrace:
    """What one engine did in a run; one entry for each command that it worked on."""

    index: NDArray[np.int64]  #: Indices of the commands.
    #: First cycle, and last cycle + 1, that the engine counted for the command. Cycle 0 is the
    #: first one of the counter CYCLES.
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    cycles: NDArray[np.int64]  #: Cycles in each state; the column IDLE is zero.


def trace_from_rows(rows: NDArray[np.int64], *, first: int) -> EngineTrace:
    """Turn a raw trace into an :class:`EngineTrace`.

    Parameters
    ----------
    rows : array of int, one row of :data:`ROW_WORDS` for each index
        The raw trace.
    first : int
        What the raw trace calls cycle 0.
    """
    (index,) = np.nonzero(rows[:, 1])
    worked = rows[index]
    return EngineTrace(
        index,
        worked[:, 0] - first,
        worked[:, 1] - first,
        np.pad(worked[:, 2:], ((0, 0), (1, 0))),
    )
