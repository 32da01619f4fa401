"""Use of the unified buffer, found from the commands alone and not from the allocator."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tpulite.golden.effects.extents import Toucher
from tpulite.golden.effects.grids import view
from tpulite.program import Program

_EMPTY = -2
"""Writer of a row that was never written."""


@dataclass(frozen=True)
class BufferUse:
    """How much of the unified buffer a program takes."""

    touched: int  #: Rows that are used for anything at any time: where the allocator has been.
    #: Most rows that hold something needed, at any command in program order. No placement of the
    #: same commands in the same order can take fewer.
    live: int
    at: int  #: Index of the first command at which there are so many.


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
    lives = find_lives(program)
    first, last = np.maximum(lives.born, 0), np.minimum(lives.read, lives.over - 1)
    needed = last >= first  # unless the first command overwrites what was left there
    count = len(program.commands) + 1
    begins, ends = (np.bincount(each[needed], minlength=count) for each in (first, last))
    live = np.cumsum(begins - np.concatenate(([0], ends[:-1])))
    return live, int(np.count_nonzero(np.bincount(lives.rows)))


class Lives(NamedTuple):
    """What rows of the unified buffer hold: for each time that a row is written, an element."""

    rows: np.ndarray  #: The row.
    #: Commands that wrote it, and that read it last; ``born`` is -1 for what an earlier program has
    #: left there, ``read`` is ``born`` if nothing reads it.
    born: np.ndarray
    read: np.ndarray
    #: The command that writes it again, after the last of the program if there is none.
    over: np.ndarray


def find_lives(program: Program) -> Lives:
    """Return what rows hold, in the order in which it is overwritten, or else at the end.

    See :func:`buffer_use`; a command that reads a row and writes it is both its last reader and
    the one that writes it again.
    """
    count = len(program.commands)
    # Of each row: its number, who wrote it, and who read it last.
    known = np.full((3, program.config.ub_rows), _EMPTY, np.int32)
    known[0] = np.arange(program.config.ub_rows)
    for start, stop in program.resident:
        known[1, start:stop], known[2, start:stop] = -1, count - 1
    read, used = known[2], known[1:]
    toucher, found, overs = Toucher(program.config), [], []
    for number, command in enumerate(program.commands):
        touched = toucher.touched(command)
        for place in (*touched.reads, *touched.early_reads):
            view(read, place)[...] = number
        for place in touched.writes:
            found.append(view(known, place).copy().reshape(len(known), -1))
            overs.append(number)
            view(used, place)[...] = number
    found.append(known)
    over = np.repeat([*overs, count], [each.shape[1] for each in found])
    rows, born, read = np.concatenate(found, axis=1)
    held = born > _EMPTY
    return Lives(rows[held], born[held], read[held], over[held])
