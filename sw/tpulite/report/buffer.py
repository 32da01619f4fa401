"""Use of the unified buffer, found from the commands alone and not from the allocator."""

from dataclasses import dataclass

import numpy as np

from tpulite.golden.effects.extents import Toucher
from tpulite.golden.effects.grids import view
from tpulite.program import Program

__all__ = ["BufferUse", "buffer_use", "live_rows"]


@dataclass(frozen=True)
class BufferUse:
    """How much of the unified buffer a program takes.

    Parameters
    ----------
    touched : int
        Rows that are used for anything at any time: where the allocator has been.
    live : int
        Most rows that hold something needed, at any command in program order. No placement of the
        same commands in the same order can take fewer.
    at : int
        Index of the first command at which there are so many.
    """

    touched: int
    live: int
    at: int


def buffer_use(program: Program) -> BufferUse:
    """Find how much of the unified buffer a program takes.

    A row is live from the command that writes it to the last one that reads it before it is
    written again; a command that reads a row and writes it does so in place. What an earlier
    program has left there is live throughout, until it is overwritten.

    Parameters
    ----------
    program : Program
        A legal program.
    """
    live, touched = live_rows(program)
    at = int(live.argmax())
    return BufferUse(touched, int(live[at]), at)


def live_rows(program: Program) -> tuple[np.ndarray, int]:
    """Return how many rows hold something needed at each command, and how many are ever used.

    See :func:`buffer_use`.
    """
    rows, last = program.config.ub_rows, len(program.commands) - 1
    born, read = np.full(rows, -1), np.full(rows, -1)
    for start, stop in program.resident:
        born[start:stop], read[start:stop] = 0, last
    begins, ends = np.zeros(last + 2, np.int64), np.zeros(last + 2, np.int64)
    toucher = Toucher(program.config)
    for number, command in enumerate(program.commands):
        touched = toucher.touched(command)
        for place in (*touched.reads, *touched.early_reads):
            view(read, place)[...] = number
        for place in touched.writes:
            here = view(born, place), view(read, place)
            _close(begins, ends, here[0], np.minimum(here[1], number - 1))
            for rows in here:
                rows[...] = number
    _close(begins, ends, born, read)
    live = np.cumsum(begins - np.concatenate(([0], ends[:-1])))
    return live, int(np.count_nonzero(born >= 0))


def _close(begins: np.ndarray, ends: np.ndarray, born: np.ndarray, read: np.ndarray) -> None:
    """Count lives from ``born`` to ``read``; rows that were never written have none."""
    lived = (born >= 0) & (read >= born)
    np.add.at(begins, born[lived], 1)
    np.add.at(ends, read[lived], 1)
