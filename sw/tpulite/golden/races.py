"""Race detection: every access must be ordered, by tokens, after what it depends on."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Drain, Engine, Opcode
from tpulite.golden.access import Footprint, Span
from tpulite.golden.clocks import NOBODY, Clock, EngineClocks

__all__ = ["Kind", "RaceDetector", "Space", "Violation"]


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
    """One thing that makes a program illegal.

    Parameters
    ----------
    kind : Kind
        What is wrong.
    commands : tuple of int
        Indices of the commands, in program order; the last one is the one at fault.
    space : Space
        What ``place`` counts.
    place : range
        From the first to the last place that is concerned; in between some may be legal.
    text : str
        All of it in one sentence.
    """

    kind: Kind
    commands: tuple[int, ...]
    space: Space
    place: range
    text: str

    def __str__(self) -> str:
        return self.text


class RaceDetector:
    """Follows a command stream in program order and collects its violations.

    Parameters
    ----------
    config : Config
        The machine.
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
        self.buffer_written = buffer_written.copy()
        self.dram_written = dram_written
        self.program = program
        self.violations: list[Violation] = []
        self._clocks = EngineClocks()
        self._commands: list[Command] = []
        # Program index of each engine's commands, the first one at 1, because counts start there.
        self._indices: dict[int, list[int]] = {engine: [-1] for engine in Engine}
        self._accumulator_written = np.zeros(config.acc_rows, dtype=bool)
        # Each row's last writer, and for each engine its last reader, as counts of that engine's
        # commands. In DRAM only STORE writes and only LOAD reads, beat by beat: all lines start at
        # a beat, so two lines share a byte of a beat if and only if they share the beat.
        self._writer = np.full(config.ub_rows, NOBODY)
        self._written_by = np.zeros(config.ub_rows, dtype=np.int64)
        self._read_by = np.zeros((len(Engine), config.ub_rows), dtype=np.int64)
        beats = -(-len(dram_written) // BEAT_BYTES)
        self._stored_by = np.zeros(beats, dtype=np.int32)
        self._loaded_by = np.zeros(beats, dtype=np.int32)

    def command(self, command: Command, footprint: Footprint) -> None:
        """Follow the next command of the stream."""
        self._commands.append(command)
        if (engine := command.engine) is None:
            return
        self._indices[engine].append(len(self._commands) - 1)
        for giver in self._clocks.start(command):
            self._report(Kind.WAIT, (), Space.TOKENS, range(1), f" (from {giver.name})")
        started = self._clocks.at_start(engine)
        early = self._clocks.at_previous_start(engine)
        prefetch = command.opcode == Opcode.CONV and command["prefetch"]
        self._read_rows(engine, footprint.early_reads, early if prefetch else started)
        self._read_rows(engine, footprint.reads, started)
        self._write_rows(engine, footprint, started)
        if command.opcode == Opcode.LOAD:
            self._load(footprint.spans, started)
        elif command.opcode == Opcode.STORE:
            self._store(footprint.spans, started)
        elif command.opcode == Opcode.CONV:
            self._accumulate(command, footprint.accumulators)
        for taker in self._clocks.complete(command):
            self._report(Kind.COUNTER, (), Space.TOKENS, range(1), f" (to {taker.name})")

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
        writer, count = self._writer[rows], self._written_by[rows]
        self._report_rows(Kind.READ_AFTER_WRITE, rows, writer, count, count > clock[writer])
        unwritten = rows[~self.buffer_written[rows]]
        if unwritten.size:
            self._report(Kind.UNWRITTEN, (), Space.BUFFER, _extent(unwritten))
        self._read_by[engine][rows] = len(self._indices[engine]) - 1

    def _write_rows(self, engine: Engine, footprint: Footprint, clock: Clock) -> None:
        rows = footprint.writes
        if not rows.size:
            return
        # Within an engine, writes stay behind earlier reads and earlier writes.
        writer, count = self._writer[rows], self._written_by[rows]
        late = (count > clock[writer]) & (writer != engine)
        self._report_rows(Kind.WRITE_AFTER_WRITE, rows, writer, count, late)
        for reader in Engine:
            if reader != engine:
                count = self._read_by[reader][rows]
                owner = np.full(rows.size, reader)
                self._report_rows(Kind.WRITE_AFTER_READ, rows, owner, count, count > clock[reader])
        if footprint.reads.size:
            last_read = np.zeros(len(self._writer), dtype=np.int64)
            last_read[footprint.reads] = 1 + np.arange(footprint.reads.size)
            early = rows[last_read[rows] > footprint.reads_before]
            if early.size:
                self._report(Kind.OVERLAP, (), Space.BUFFER, _extent(early))
        self._writer[rows] = engine
        self._written_by[rows] = len(self._indices[engine]) - 1
        self.buffer_written[rows] = True

    def _load(self, spans: Iterable[Span], clock: Clock) -> None:
        for span in spans:
            beats = slice(span.beats.start, span.beats.stop)
            count = self._stored_by[beats]
            self._report_beats(
                Kind.READ_AFTER_WRITE, span, Engine.STORE, count, count > clock[Engine.STORE]
            )
            unwritten = np.flatnonzero(~self.dram_written[span.start : span.stop])
            if unwritten.size:
                self._report(Kind.UNWRITTEN, (), Space.DRAM, _extent(span.start + unwritten))
            self._loaded_by[beats] = len(self._indices[Engine.LOAD]) - 1

    def _store(self, spans: Iterable[Span], clock: Clock) -> None:
        for span in spans:
            beats = slice(span.beats.start, span.beats.stop)
            count = self._loaded_by[beats]
            self._report_beats(
                Kind.WRITE_AFTER_READ, span, Engine.LOAD, count, count > clock[Engine.LOAD]
            )
            first, stop = max(span.start, self.program.start), min(span.stop, self.program.stop)
            if first < stop:
                text = " command fetch"
                self._report(Kind.WRITE_AFTER_READ, (), Space.DRAM, range(first, stop), text)
            self._stored_by[beats] = len(self._indices[Engine.STORE]) - 1
            self.dram_written[span.start : span.stop] = True

    def _accumulate(self, command: Command, rows: range) -> None:
        region = slice(rows.start, rows.stop)
        if command["accumulate"]:
            unwritten = np.flatnonzero(~self._accumulator_written[region])
            if unwritten.size:
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


def _extent(places: NDArray) -> range:
    return range(int(places.min()), int(places.max()) + 1)
