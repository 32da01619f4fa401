"""Programs that ran without a fault or violation, executed again without looking for any.

What commands touch follows from the program and its windows; a second run of the same program need
not find it out again, nor one whose windows all lie so many pages further on. Only data change, and
they change no command: no depthwise weights that have to be zero, no rows that an earlier run has
left, no errors of the memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.effects import tile_count
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import PAGE_BYTES, WindowBinding
from tpulite.golden.effects.access import NO_ROWS, FaultSite, Footprint
from tpulite.golden.machine.datapath import Datapath
from tpulite.golden.machine.dram import Dram
from tpulite.golden.ops import matmul_int32

MOST_BYTES = 1 << 27
"""Indices of rows that programs may keep; those of large feature maps are more."""


@dataclass(frozen=True, eq=False)
class _Step:
    """A command, what it touches, and for a plain CONV the rows that it multiplies."""

    command: Command
    access: Footprint
    vectors: NDArray[np.int64] | None = None
    first: int = 0
    depth: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the indices."""
        access = self.access
        kept = (access.early_reads, access.reads, access.writes)
        vectors = access.vectors if self.vectors is None else self.vectors
        return sum(array.nbytes for array in (*kept, vectors))

    def execute(self, datapath: Datapath, dram: Dram) -> FaultSite | None:
        """Execute the command."""
        if self.command.opcode == Opcode.STORE:
            for _ in datapath.store(self.command, self.access, dram):
                pass
            return None
        if self.vectors is None:
            return datapath.execute(self.command, self.access, dram)
        buffer = datapath.buffer.view(np.int8)
        weights = buffer[self.first : self.first + self.depth]
        activations = buffer[self.vectors].reshape(len(self.vectors), len(weights))
        return datapath.drain(self.command, self.access, matmul_int32(activations, weights))


@dataclass(frozen=True, eq=False)
class Replay:
    """A program that ran to its END."""

    steps: Sequence[_Step]  #: Its commands; their addresses count from :func:`origin_of`.
    written: NDArray[np.bool_]  #: Array of bool, [ub_rows]. Rows that hold something behind it.
    nbytes: int  #: Bytes of the indices that it keeps.

    def run(self, datapath: Datapath, dram: Dram) -> tuple[int, FaultSite] | None:
        """Execute it; return index and site of a fault, which only data can cause.

        Parameters
        ----------
        dram : Dram
            The memory from the origin on.
        """
        for index, step in enumerate(self.steps):
            if (site := step.execute(datapath, dram)) is not None:
                return index, site
        return None


def origin_of(windows: Iterable[WindowBinding]) -> int:
    """Return the address from which those of a program count: the page of its first window."""
    first = min((window.base for window in windows if window.size), default=0)
    return first // PAGE_BYTES * PAGE_BYTES


class Recorder:
    """Follows the commands of a first run."""

    def __init__(self, config: Config, windows: Sequence[WindowBinding]) -> None:
        self._config, self._origin = config, origin_of(windows)
        self._steps: list[_Step] | None = []
        self._bytes = 0

    def command(self, command: Command, access: Footprint) -> None:
        """Take the next command and what it touches."""
        if self._steps is None or command.opcode == Opcode.END:
            return
        if command.opcode == Opcode.CONV and command["depthwise"]:
            self._steps = None
            return
        step = self._step(command, access)
        self._bytes += step.nbytes
        if self._bytes > MOST_BYTES:
            self._steps = None
            return
        self._steps.append(step)

    def replay(self, written: NDArray[np.bool_]) -> Replay | None:
        """Return the whole program; None if a second run could differ in more than data."""
        return None if self._steps is None else Replay(self._steps, written.copy(), self._bytes)

    def _step(self, command: Command, access: Footprint) -> _Step:
        """Return a command with what its execution needs of what it touches."""
        if command.opcode in (Opcode.LOAD, Opcode.STORE):
            spans = tuple(span.moved(-self._origin) for span in access.spans)
            return _Step(command, Footprint(spans=spans))
        plain = command.opcode == Opcode.CONV
        plain = plain and not any(command[name] for name in ("byte_step", "transposed", "int4"))
        if not plain or command["weight_zero_point"] or (access.vectors < 0).any():
            return _Step(command, replace(access, reads_before=NO_ROWS))
        rows = tile_count(command) * self._config.array_size
        few = Footprint(
            early_reads=access.early_reads[rows:].copy(),
            writes=access.writes,
            accumulators=access.accumulators,
        )
        vectors = np.ascontiguousarray(access.vectors.T)
        return _Step(command, few, vectors, command["weight_row"], rows)
