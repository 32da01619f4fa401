"""Draws random commands that are legal one after the other, without tokens.

Nothing here comes from the compiler or the golden machine. Sets of rows and of DRAM beats are bit
masks in plain integers, bit i for row i.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Drain, Opcode, RecordForm
from tpulite.arch.memory import Window, WindowBinding
from tpulite_tb.random_records import RecordBlock

__all__ = ["CommandDrawer", "Drawn", "mask"]


@dataclass(frozen=True)
class Drawn:
    """A command and what it touches; ``early`` are the rows of weights and records.

    ``tag`` says what is special about it, for coverage: the rounding or drain, and the tail.
    ``block`` are the channel records that a LOAD brings.
    """

    command: Command
    early: int = 0
    reads: int = 0
    writes: int = 0
    dram_reads: int = 0
    dram_writes: int = 0
    tag: tuple[str, str] = ("-", "-")
    block: RecordBlock | None = None


@dataclass
class _State:
    written: int = 0
    kept: int = 0
    records: dict[tuple[RecordForm, int], str] = field(default_factory=dict)


class CommandDrawer:
    """Draws commands whose reads are of rows that earlier ones have written.

    Parameters
    ----------
    rng : random.Random
        Source of all choices.
    config : Config
        The machine.
    windows : sequence of WindowBinding
        The DRAM windows, bound as the roles in :class:`~tpulite.arch.memory.Window` say.
    records : sequence of RecordBlock
        Blocks of channel records in the CONSTANTS window.
    """

    def __init__(
        self,
        rng: random.Random,
        config: Config,
        windows: Sequence[WindowBinding],
        records: Sequence[RecordBlock],
    ) -> None:
        self.rng = rng
        self.config = config
        self.windows = windows
        self.records = records
        self._state = _State()

    def draw(self) -> Drawn:
        """Draw the next command and let it happen."""
        choices = [self.load] * 3 + [self.load_records] * 2 + [self.matmul] * 6
        choices += [self.copy] * 2 + [self.store] * 4
        while True:
            drawn = self.rng.choice(choices)()
            if drawn is not None:
                self._happen(drawn)
                return drawn

    def fill(self) -> Drawn:
        """Draw a LOAD of many rows, let it happen, and so give the next commands something."""
        limit = self.config.ub_rows
        rows = self.rng.randint(limit // 4, limit // 2)
        row = self.rng.randint(0, limit - rows)
        command = Command.make(Opcode.LOAD, window=Window.INPUT, lines=1, rows=rows, row=row)
        drawn = self.drawn(command, writes=range(row, row + rows))
        self._happen(drawn)
        return drawn

    def load(self) -> Drawn:
        """Draw a LOAD of lines of anything."""
        window = self.rng.choice([Window.CONSTANTS, Window.INPUT, Window.INPUT, Window.SCRATCH])
        command, rows = self._transfer(Opcode.LOAD, window)
        return self.drawn(command, writes=rows)

    def load_records(self) -> Drawn:
        """Draw a LOAD of channel records."""
        return self.load_block(self.rng.choice([block for block in self.records if block.usable]))

    def load_block(self, block: RecordBlock) -> Drawn:
        """Draw a LOAD of one block of channel records."""
        rows = self.record_rows(block.form)
        row = self.rng.randrange(self.config.ub_rows - rows + 1)
        command = Command.make(
            Opcode.LOAD, window=Window.CONSTANTS, offset=block.offset, lines=1, rows=rows, row=row
        )
        tag = ("records", block.form.name.lower())
        return self.drawn(command, writes=range(row, row + rows), tag=tag, block=block)

    def store(self) -> Drawn | None:
        """Draw a STORE of lines of written rows; None if there are no such rows."""
        window = self.rng.choice([Window.OUTPUT, Window.OUTPUT, Window.SCRATCH])
        for _ in range(8):
            command, rows = self._transfer(Opcode.STORE, window)
            if self._is_written(rows):
                return self.drawn(command, reads=rows)
        return None

    def copy(self) -> Drawn | None:
        """Draw a COPY of written rows; None if there are no such rows."""
        for _ in range(8):
            lines, rows, source, source_pitch = self._lines()
            _, _, target, target_pitch = self._lines(lines, rows)
            if self.rng.random() < 0.15:
                target, target_pitch = source, source_pitch
            reads = _rows(source, source_pitch, lines, rows)
            writes = _rows(target, target_pitch, lines, rows)
            if self._is_written(reads) and not _hazard(reads, writes, range(1, len(writes) + 1)):
                low, high = self._clamp()
                command = Command.make(
                    Opcode.COPY, lines=lines, rows=rows, src_row=source, src_pitch=source_pitch,
                    dst_row=target, dst_pitch=target_pitch, low=low, high=high,
                )  # fmt: skip
                clamp = "move" if low == -128 and high == 127 else "clamp"
                tag = (clamp, "1 line" if lines == 1 else "lines")
                return self.drawn(command, reads=reads, writes=writes, tag=tag)
        return None

    def matmul(self) -> Drawn | None:
        """Draw a MATMUL on written rows; None if there are no such rows."""
        rng, size = self.rng, self.config.array_size
        k_tiles = rng.choice([1, 1, 2, 3, 4])
        m = rng.choice([1, rng.randint(1, size), size, rng.randint(1, 3 * size)])
        m = min(m, self.config.acc_rows)
        drain = rng.choice([Drain.KEEP, *[Drain.REQUANTIZE] * 3, Drain.RAW])
        outputs = {Drain.KEEP: 0, Drain.REQUANTIZE: 1, Drain.RAW: 4}[drain] * m
        form, record_row, name = RecordForm.FULL, rng.randrange(1 << 14), drain.name.lower()
        if drain == Drain.REQUANTIZE:
            if not self._state.records:
                return None
            (form, record_row), name = rng.choice(list(self._state.records.items()))
            name = f"{name} {form.name.lower()}"
        acc_row = rng.randrange(self.config.acc_rows - m + 1)
        accumulate = int(self._state.kept >> acc_row & mask(range(m)) == mask(range(m)))
        if accumulate and rng.random() < 0.2:
            accumulate = 0
        for _ in range(12):
            weight_row = rng.randrange(max(1, self.config.ub_rows - k_tiles * size + 1))
            act_row = rng.randrange(max(1, self.config.ub_rows - m + 1))
            room = (self.config.ub_rows - m - act_row) // max(1, k_tiles - 1)
            act_pitch = rng.randint(0, max(0, min(room, rng.choice([m, 2 * m, room]))))
            out_row = rng.randrange(max(1, self.config.ub_rows - outputs + 1))
            command = Command.make(
                Opcode.MATMUL, m=m, k_tiles=k_tiles, act_row=act_row, act_pitch=act_pitch,
                weight_row=weight_row, weight_zero_point=rng.choice([0, rng.randrange(-128, 128)]),
                acc_row=acc_row, accumulate=accumulate, drain=drain, record_form=form,
                record_row=record_row, out_row=out_row,
            )  # fmt: skip
            reads = _rows(act_row, act_pitch, k_tiles, m)
            early = list(self.early_rows(command))
            writes = list(range(out_row, out_row + outputs))
            each = outputs // m
            before = [(k_tiles - 1) * m + 1 + i // max(1, each) for i in range(outputs)]
            fits = max((*reads, *early, *writes)) < self.config.ub_rows
            if fits and self._is_written(reads + early) and not _hazard(reads, writes, before):
                tail = "m=1" if m == 1 else "m<N" if m < size else "m=N" if m == size else "m>N"
                return self.drawn(
                    command, early=early, reads=reads, writes=writes, tag=(name, tail)
                )
        return None

    def early_rows(self, command: Command) -> Iterable[int]:
        """Return the rows of a MATMUL's weights and records."""
        yield from _rows(command["weight_row"], 0, 1, command["k_tiles"] * self.config.array_size)
        if command["drain"] == Drain.REQUANTIZE:
            rows = self.record_rows(RecordForm(command["record_form"]))
            yield from _rows(command["record_row"], 0, 1, rows)

    def record_rows(self, form: RecordForm) -> int:
        """Return the rows of a block of channel records."""
        size = self.config.array_size
        return max(1, 16 // size) + 4 if form == RecordForm.SHORT else 16

    def drawn(
        self,
        command: Command,
        *,
        early: Iterable[int] = (),
        reads: Iterable[int] = (),
        writes: Iterable[int] = (),
        tag: tuple[str, str] = ("-", "-"),
        block: RecordBlock | None = None,
    ) -> Drawn:
        """Describe a command; rows beyond the buffer and bytes beyond the window do not count."""
        buffer = mask(range(self.config.ub_rows))
        beats = 0
        if command.opcode in (Opcode.LOAD, Opcode.STORE):
            window = self.windows[command["window"]]
            inside = mask(
                range(window.base // BEAT_BYTES, (window.base + window.size) // BEAT_BYTES)
            )
            line_bytes = command["rows"] * self.config.row_bytes
            for line in range(command["lines"]):
                start = window.base + command["offset"] + line * command["stride"]
                stop = start + line_bytes
                beats |= mask(range(start // BEAT_BYTES, -(-stop // BEAT_BYTES))) & inside
            if tag == ("-", "-"):
                tail = "partial beat" if line_bytes % BEAT_BYTES else "whole beats"
                tag = ("flip" if command["flip"] else "-", tail)
        return Drawn(
            command,
            early=mask(early) & buffer,
            reads=mask(reads) & buffer,
            writes=mask(writes) & buffer,
            dram_reads=beats if command.opcode == Opcode.LOAD else 0,
            dram_writes=beats if command.opcode == Opcode.STORE else 0,
            tag=tag,
            block=block,
        )

    def _transfer(self, opcode: Opcode, window: Window) -> tuple[Command, list[int]]:
        lines, rows, row, pitch = self._lines()
        beats = -(-rows * self.config.row_bytes // BEAT_BYTES)
        size = self.windows[window].size // BEAT_BYTES
        rest = size - beats
        stride = 0 if lines == 1 else self.rng.randint(0, min(2 * beats, rest // (lines - 1)))
        offset = self.rng.randint(0, rest - stride * (lines - 1))
        command = Command.make(
            opcode, window=window, offset=offset * BEAT_BYTES, stride=stride * BEAT_BYTES,
            lines=lines, rows=rows, row=row, pitch=pitch, flip=self.rng.random() < 0.3,
        )  # fmt: skip
        return command, _rows(row, pitch, lines, rows)

    def _lines(self, lines: int = 0, rows: int = 0) -> tuple[int, int, int, int]:
        """Draw lines, rows in a line, the first row and the pitch; some may be given."""
        rng, limit = self.rng, self.config.ub_rows
        lines = lines or rng.choice([1, 1, 2, rng.randint(1, 6)])
        rows = rows or rng.choice([1, rng.randint(1, 8), rng.randint(1, min(80, limit // 3))])
        pitch = rng.choice([0, 1, rows, rng.randint(0, 2 * rows)])
        pitch = 0 if lines == 1 else min(pitch, (limit - rows) // (lines - 1))
        return lines, rows, rng.randint(0, limit - rows - pitch * (lines - 1)), pitch

    def _clamp(self) -> tuple[int, int]:
        bounds = [self.rng.randrange(-128, 128), self.rng.randrange(-128, 128)]
        # Bounds may be the wrong way round: the upper one wins.
        low, high = self.rng.choice([(-128, 127), (0, 127), bounds])
        return low, high

    def _is_written(self, rows: Sequence[int]) -> bool:
        return not mask(rows) & ~self._state.written

    def _happen(self, drawn: Drawn) -> None:
        state, command = self._state, drawn.command
        state.written |= drawn.writes
        for form, row in list(state.records):
            if mask(range(row, row + self.record_rows(form))) & drawn.writes:
                del state.records[form, row]
        if drawn.block is not None:
            state.records[drawn.block.form, command["row"]] = drawn.block.name
        if command.opcode == Opcode.MATMUL:
            rows = mask(range(command["acc_row"], command["acc_row"] + command["m"]))
            kept = command["drain"] == Drain.KEEP
            state.kept = state.kept | rows if kept else state.kept & ~rows


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


def _rows(first: int, pitch: int, lines: int, rows: int) -> list[int]:
    return [first + line * pitch + row for line in range(lines) for row in range(rows)]


def _hazard(reads: Sequence[int], writes: Sequence[int], reads_before: Iterable[int]) -> bool:
    """Say whether a write may come before a read of the same row by the same command."""
    last_read = {row: position for position, row in enumerate(reads)}
    return any(
        last_read.get(row, -1) >= done for row, done in zip(writes, reads_before, strict=True)
    )
