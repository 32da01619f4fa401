"""Race detection: every access must be ordered, by tokens, after what it depends on."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Drain, Engine, Opcode
from tpulite.golden.effects.access import NO_ROWS, Footprint, Span
from tpulite.golden.effects.extents import Extents, geometry
from tpulite.golden.effects.grids import Grid, meet
from tpulite.golden.races.history import BeatHistory, Clock, EngineClocks, RowHistory


class Kind(StrEnum):
    """What is wrong."""

    READ_AFTER_WRITE = "reads, not ordered after the write of"
    WRITE_AFTER_READ = "writes, not ordered after the read of"
    WRITE_AFTER_WRITE = "writes, not ordered after the write of"
    UNWRITTEN = "reads what nothing has written"
    OVERLAP = "overwrites what it may not have read yet"
    STRAY = "is depthwise and has weights that are no taps"
    WAIT = "awaits a token that no earlier command gives"
    COUNTER = "gives a token to a full counter"
    LEFTOVER = "leaves tokens at the end"
    END = "does not end in its only END"
    FAULT = "stops the machine"


class Space(StrEnum):
    """Where it is wrong, and what the numbers of the place count."""

    BUFFER = "rows of the unified buffer"
    ACCUMULATOR = "rows of the accumulators"
    DRAM = "bytes of DRAM"
    TOKENS = "tokens"
    PROGRAM = "commands"


@dataclass(frozen=True)
class Violation:
    """One thing that makes a program illegal."""

    kind: Kind  #: What is wrong.
    #: Indices of the commands, in program order; the last one is the one at fault.
    commands: tuple[int, ...]
    space: Space  #: What ``place`` counts.
    #: From the first to the last place that is concerned; in between some may be legal.
    place: range
    text: str  #: All of it in one sentence.

    def __str__(self) -> str:
        return self.text


class RaceDetector:
    """Follows a command stream in program order and collects its violations.

    Parameters
    ----------
    buffer_written : array of bool, [ub_rows]
        Rows that hold something at the start.
    dram_written : array of bool
        Bytes of DRAM that hold something at the start. STOREs set what they write.
    program : range
        Bytes of DRAM that hold the commands; nothing may overwrite them.
    """

    def __init__(
        self,
        config: Config,
        *,
        buffer_written: NDArray[np.bool_],
        dram_written: NDArray[np.bool_],
        program: range = range(0),
    ) -> None:
        self.program = program
        self.violations: list[Violation] = []
        self._clocks = EngineClocks()
        self._commands: list[Command] = []
        # Program index of each engine's commands, the first one at 1, because counts start there.
        self._indices: list[list[int]] = [[-1] for _ in Engine]
        self._accumulator_written = np.zeros(config.acc_rows, dtype=bool)
        self._rows = RowHistory(buffer_written)
        self._beats = BeatHistory(dram_written)
        self._in_turn: dict[Hashable, bool] = {}

    @property
    def buffer_written(self) -> NDArray[np.bool_]:
        """Rows that hold something after the commands that were followed."""
        return self._rows.written

    def command(self, command: Command, footprint: Footprint) -> None:
        """Follow the next command of the stream."""
        self._start(command)
        if command.engine is not None:
            self._touch(command, command.engine, footprint)
            self._complete(command, command.engine)

    def follow(
        self, command: Command, extents: Extents, footprint: Callable[[], Footprint]
    ) -> None:
        """Follow the next command of the stream, and quickly, if all that it touches is in order.

        Parameters
        ----------
        command : Command
            A command that does not fault.
        footprint : callable
            Returns the same as a footprint, to find out what is wrong.
        """
        self._start(command)
        if (engine := command.engine) is not None:
            if not self._pass(command, engine, extents, footprint):
                self._touch(command, engine, footprint())
            self._complete(command, engine)

    def _start(self, command: Command) -> None:
        self._commands.append(command)
        if (engine := command.engine) is not None:
            self._indices[engine].append(len(self._commands) - 1)
            for giver in self._clocks.start(engine, command["wait"]):
                self._report(Kind.WAIT, (), Space.TOKENS, range(1), f" (from {giver.name})")

    def _complete(self, command: Command, engine: Engine) -> None:
        for taker in self._clocks.complete(engine, command["signal"]):
            self._report(Kind.COUNTER, (), Space.TOKENS, range(1), f" (to {taker.name})")

    def _clocks_of(self, command: Command, engine: Engine) -> tuple[Clock, Clock]:
        """Return what is complete before a command reads early, and before all that follows."""
        started = self._clocks.at_start(engine)
        if command.opcode == Opcode.CONV and command["prefetch"]:
            return self._clocks.at_previous_start(engine), started
        return started, started

    def _pass(
        self,
        command: Command,
        engine: Engine,
        extents: Extents,
        footprint: Callable[[], Footprint],
    ) -> bool:
        """Note what a command touches if all of that is in order; else note nothing."""
        early, started = self._clocks_of(command, engine)
        rows = self._rows
        first, reads, writes = map(rows.at, (extents.early_reads, extents.reads, extents.writes))
        if not (
            rows.may_read(first, early)
            and rows.may_read(reads, started)
            and rows.may_write(engine, writes, started)
            and self._reads_first(command, extents, footprint)
            and self._may_transfer(engine, extents, started)
        ):
            return False
        number = len(self._indices[engine]) - 1
        rows.note(engine, first + reads, writes, number)
        if extents.lines:
            self._beats.note_lines(engine, extents.lines, extents.beats, number)
        if command.opcode == Opcode.CONV:
            self._accumulate(command, extents.accumulators)
        return True

    def _reads_first(
        self, command: Command, extents: Extents, footprint: Callable[[], Footprint]
    ) -> bool:
        """Whether a command writes nothing that it may still read; one of all alike is followed."""
        if not any(meet(a, b) for a in extents.writes for b in extents.reads):
            return True
        first = extents.writes[0][0]
        places = [(start - first, grid) for start, grid in (*extents.reads, *extents.writes)]
        key = (*geometry(command), *places)
        if key not in self._in_turn:
            self._in_turn[key] = not _unread(footprint()).size
        return self._in_turn[key]

    def _may_transfer(self, engine: Engine, extents: Extents, clock: Clock) -> bool:
        """Whether lines of DRAM can be loaded or stored."""
        if not extents.lines:
            return True
        if engine == Engine.LOAD:
            return self._beats.may_load(extents.lines, extents.beats, clock)
        program = self.program.start, Grid.of(len(self.program))
        apart = not any(meet(lines, program) for lines in extents.lines)
        return apart and self._beats.may_store(extents.beats, clock)

    def _touch(self, command: Command, engine: Engine, footprint: Footprint) -> None:
        """Note what a command touches, row by row, and report what is wrong."""
        early, started = self._clocks_of(command, engine)
        self._read_rows(engine, footprint.early_reads, early)
        self._read_rows(engine, footprint.reads, started)
        self._write_rows(engine, footprint, started)
        if command.opcode == Opcode.LOAD:
            self._load(footprint.spans, started)
        elif command.opcode == Opcode.STORE:
            self._store(footprint.spans, started)
        elif command.opcode == Opcode.CONV:
            self._accumulate(command, footprint.accumulators)

    def stray_weights(self, rows: NDArray[np.int64]) -> None:
        """Report rows of the last command's tile whose weights make its sums undefined."""
        if rows.size:
            self._report(Kind.STRAY, (), Space.BUFFER, _extent(rows))

    def finish(self, *, commands_left: int) -> None:
        """Check the end of a stream: no token is left, and END is the last command.

        Parameters
        ----------
        commands_left : int
            Commands behind the END that was just followed; -1 if there was no END.
        """
        for (giver, taker), count in self._clocks.tokens_left().items():
            text = f"Tokens left at the end, from {giver.name} to {taker.name}: {count}"
            self.violations.append(Violation(Kind.LEFTOVER, (), Space.TOKENS, range(count), text))
        if commands_left:
            place = range(len(self._commands), len(self._commands) + commands_left)
            text = f"Behind END follow {commands_left} commands" if place else "There is no END"
            self.violations.append(Violation(Kind.END, (), Space.PROGRAM, place, text))

    def fault(self, text: str) -> None:
        """Report that the last command would fault."""
        self._report(Kind.FAULT, (), Space.PROGRAM, range(1), f" with {text}")

    def _read_rows(self, engine: Engine, rows: NDArray, clock: Clock) -> None:
        if not rows.size:
            return
        writer, count = self._rows.writers(rows)
        self._report_rows(
            Kind.READ_AFTER_WRITE, rows, writer, count, count > np.take(clock, writer)
        )
        unwritten = rows[~self._rows.written[rows]]
        if unwritten.size:
            self._report(Kind.UNWRITTEN, (), Space.BUFFER, _extent(unwritten))
        self._rows.note_read(engine, rows, len(self._indices[engine]) - 1)

    def _write_rows(self, engine: Engine, footprint: Footprint, clock: Clock) -> None:
        rows = footprint.writes
        if not rows.size:
            return
        # Within an engine, writes stay behind earlier reads and earlier writes.
        writer, count = self._rows.writers(rows)
        late = (count > np.take(clock, writer)) & (writer != engine)
        self._report_rows(Kind.WRITE_AFTER_WRITE, rows, writer, count, late)
        for reader in Engine:
            if reader != engine:
                count = self._rows.reads(reader, rows)
                owner = np.full(rows.size, reader)
                self._report_rows(Kind.WRITE_AFTER_READ, rows, owner, count, count > clock[reader])
        if (unread := _unread(footprint)).size:
            self._report(Kind.OVERLAP, (), Space.BUFFER, _extent(unread))
        self._rows.note_write(engine, rows, len(self._indices[engine]) - 1)

    def _load(self, spans: Iterable[Span], clock: Clock) -> None:
        for span in spans:
            count = self._beats.of(Engine.STORE, span)
            self._report_beats(
                Kind.READ_AFTER_WRITE, span, Engine.STORE, count, count > clock[Engine.STORE]
            )
            unwritten = np.flatnonzero(~self._beats.written[span.start : span.stop])
            if unwritten.size:
                self._report(Kind.UNWRITTEN, (), Space.DRAM, _extent(span.start + unwritten))
            self._beats.note(Engine.LOAD, span, len(self._indices[Engine.LOAD]) - 1)

    def _store(self, spans: Iterable[Span], clock: Clock) -> None:
        for span in spans:
            count = self._beats.of(Engine.LOAD, span)
            self._report_beats(
                Kind.WRITE_AFTER_READ, span, Engine.LOAD, count, count > clock[Engine.LOAD]
            )
            first, stop = max(span.start, self.program.start), min(span.stop, self.program.stop)
            if first < stop:
                text = " command fetch"
                self._report(Kind.WRITE_AFTER_READ, (), Space.DRAM, range(first, stop), text)
            self._beats.note(Engine.STORE, span, len(self._indices[Engine.STORE]) - 1)

    def _accumulate(self, command: Command, rows: range) -> None:
        region = slice(rows.start, rows.stop)
        if command["accumulate"] and not self._accumulator_written[region].all():
            unwritten = np.flatnonzero(~self._accumulator_written[region])
            place = _extent(rows.start + unwritten)
            self._report(Kind.UNWRITTEN, (), Space.ACCUMULATOR, place)
        # A drained sum does not go back: what lies there afterwards depends on the hardware.
        self._accumulator_written[region] = command["drain"] == Drain.KEEP

    def _report_rows(
        self, kind: Kind, rows: NDArray, owner: NDArray, count: NDArray, wrong: NDArray
    ) -> None:
        if not wrong.any():
            return
        for engine, number in np.unique(np.stack([owner[wrong], count[wrong]]), axis=1).T:
            place = _extent(rows[wrong & (owner == engine) & (count == number)])
            self._report(kind, (self._indices[engine][number],), Space.BUFFER, place)

    def _report_beats(
        self, kind: Kind, span: Span, owner: Engine, count: NDArray, wrong: NDArray
    ) -> None:
        if not wrong.any():
            return
        for number in np.unique(count[wrong]):
            beats = _extent(span.beats.start + np.flatnonzero(wrong & (count == number)))
            place = range(beats.start * BEAT_BYTES, min(beats.stop * BEAT_BYTES, span.stop))
            self._report(kind, (self._indices[owner][number],), Space.DRAM, place)

    def _report(
        self, kind: Kind, others: tuple[int, ...], space: Space, place: range, text: str = ""
    ) -> None:
        index = len(self._commands) - 1
        words = f"Command {index} {self._commands[index].opcode.name} {kind}"
        words += "".join(f" command {i} {self._commands[i].opcode.name}" for i in others) + text
        if space in (Space.BUFFER, Space.ACCUMULATOR, Space.DRAM):
            words += f": {space} {place[0]} to {place[-1]}"
        self.violations.append(Violation(kind, (*others, index), space, place, words))


def _unread(footprint: Footprint) -> NDArray:
    """Return the rows that a command overwrites though it may not have read them yet."""
    reads, writes = footprint.reads, footprint.writes
    if not (reads.size and writes.size):
        return NO_ROWS
    last_read = np.zeros(max(writes.max(), reads.max()) + 1, dtype=np.int64)
    last_read[reads] = 1 + np.arange(reads.size)
    return writes[last_read[writes] > footprint.reads_before]


def _extent(places: NDArray) -> range:
    return range(int(places.min()), int(places.max()) + 1)
