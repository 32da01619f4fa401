"""What random commands have done so far, and what the next one may therefore do.

Nothing here comes from the compiler or the golden machine; what commands touch is what
:mod:`tpulite.arch.effects` specifies. Sets of rows and of DRAM beats are bit
masks in plain integers, bit i for row i.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.effects import Effects, effects
from tpulite.arch.isa import Command, Drain, Opcode
from tpulite.arch.memory import WindowBinding
from tpulite_tb.random_records import Block, BlockKind

__all__ = ["Drawn", "State", "hazard", "mask"]


@dataclass(frozen=True)
class Drawn:
    """A command and what it touches; ``early`` are the rows of weights, records and parameters.

    ``tags`` say what is special about it, for coverage: pairs of a title and what it counts.
    ``block`` are the constants that a LOAD brings.
    """

    command: Command
    early: int = 0
    reads: int = 0
    writes: int = 0
    dram_reads: int = 0
    dram_writes: int = 0
    tags: tuple[tuple[str, str], ...] = ()
    block: Block | None = None


class State:
    """Rows that are written, accumulators that hold sums, and constants in the buffer.

    Parameters
    ----------
    rng : random.Random
        Source of all choices.
    config : Config
        The machine.
    windows : sequence of WindowBinding
        The DRAM windows, bound as the roles in :class:`~tpulite.arch.memory.Window` say.
    blocks : sequence of Block
        Constants in the CONSTANTS window.
    """

    def __init__(
        self,
        rng: random.Random,
        config: Config,
        windows: Sequence[WindowBinding],
        blocks: Sequence[Block],
    ) -> None:
        self.rng = rng
        self.config = config
        self.windows = windows
        self.blocks = blocks
        self._written = 0
        self._kept = 0
        self._resident: dict[int, Block] = {}

    def is_written(self, rows: Iterable[int]) -> bool:
        """Say whether all rows hold something."""
        return not mask(rows) & ~self._written

    def written_run(self, length: int) -> int | None:
        """Draw the first one of ``length`` consecutive rows that hold something."""
        return self._draw_run(self._written, length)

    def kept_run(self, length: int) -> int | None:
        """Draw the first one of ``length`` consecutive accumulator rows that hold sums."""
        return self._draw_run(self._kept, length)

    def written_runs(self) -> list[range]:
        """Return all runs of rows that hold something."""
        runs, first = [], None
        for row in range(self.config.ub_rows + 1):
            written = self._written >> row & 1
            if written and first is None:
                first = row
            elif not written and first is not None:
                runs.append(range(first, row))
                first = None
        return runs

    def resident(self, *kinds: BlockKind) -> tuple[int, Block] | None:
        """Draw a block in the unified buffer, with its first row; None if there is none."""
        found = [(row, block) for row, block in self._resident.items() if block.kind in kinds]
        return self.rng.choice(found) if found else None

    def happen(self, drawn: Drawn) -> None:
        """Let a command happen."""
        command = drawn.command
        self._written |= drawn.writes
        for row, block in list(self._resident.items()):
            if mask(range(row, row + block.rows)) & drawn.writes:
                del self._resident[row]
        if drawn.block is not None:
            self._resident[command["row"]] = drawn.block
        if command.opcode == Opcode.CONV:
            count = command["rows"] * command["columns"]
            rows = mask(range(command["acc_row"], command["acc_row"] + count))
            kept = command["drain"] == Drain.KEEP
            self._kept = self._kept | rows if kept else self._kept & ~rows

    def drawn(
        self,
        command: Command,
        *,
        touched: Effects | None = None,
        tags: tuple[tuple[str, str], ...] = (),
        block: Block | None = None,
    ) -> Drawn:
        """Describe a command; rows beyond the buffer and bytes beyond the window do not count.

        What it touches need not be given, if it is known.
        """
        touched = touched or effects(command, self.config)
        buffer = mask(range(self.config.ub_rows))
        beats = self._beats(command["window"], touched) if touched.lines else 0
        return Drawn(
            command,
            early=mask(touched.early) & buffer,
            reads=mask(touched.reads) & buffer,
            writes=mask(touched.writes) & buffer,
            dram_reads=beats if command.opcode == Opcode.LOAD else 0,
            dram_writes=beats if command.opcode == Opcode.STORE else 0,
            tags=tags,
            block=block,
        )

    def _draw_run(self, present: int, length: int) -> int | None:
        starts, covered = present, 1
        while covered < length:
            step = min(covered, length - covered)
            starts &= starts >> step
            covered += step
        numbers = [number for number in range(starts.bit_length()) if starts >> number & 1]
        return self.rng.choice(numbers) if numbers else None

    def _beats(self, number: int, touched: Effects) -> int:
        window = self.windows[number]
        inside = mask(range(window.base // BEAT_BYTES, (window.base + window.size) // BEAT_BYTES))
        beats, base = 0, window.base
        for line in touched.lines:
            first, stop = base + line.start, base + line.stop
            beats |= mask(range(first // BEAT_BYTES, -(-stop // BEAT_BYTES)))
        return beats & inside


def mask(numbers: Iterable[int]) -> int:
    """Return the set of numbers as a bit mask.

    Examples
    --------
    >>> bin(mask([0, 3]))
    '0b1001'
    """
    if isinstance(numbers, range) and numbers.step == 1:
        return ((1 << len(numbers)) - 1) << numbers.start if numbers else 0
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def hazard(reads: Sequence[int], writes: Sequence[int], reads_before: Iterable[int]) -> bool:
    """Say whether a write may come before a read of the same row by the same command.

    ``reads_before`` tells how many of the reads have happened at each write.
    """
    last_read = {row: position for position, row in enumerate(reads)}
    return any(
        last_read.get(row, -1) >= done for row, done in zip(writes, reads_before, strict=True)
    )
