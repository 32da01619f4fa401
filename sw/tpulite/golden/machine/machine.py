"""The golden machine: executes a command stream in program order, exact to the bit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import COMMANDS, Command, Opcode, illegal_combination
from tpulite.arch.memory import WindowBinding
from tpulite.arch.registers import Fault
from tpulite.counted import first_of
from tpulite.golden.effects.access import FaultSite, Footprint, Span
from tpulite.golden.effects.footprint import bursts, footprint
from tpulite.golden.machine.datapath import Datapath
from tpulite.golden.machine.dram import Dram
from tpulite.golden.machine.replay import Recorder, Replay
from tpulite.golden.races.detector import RaceDetector, Violation


class RaceError(RuntimeError):
    """A program is not legal: its results would depend on timing.

    Parameters
    ----------
    violations : tuple of Violation
        All that was found.
    """

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        self.violations = violations
        lines = first_of([str(violation) for violation in violations], separator="; ")
        super().__init__(f"The program is not legal. {lines}")


@dataclass(frozen=True)
class StoredLine:
    """Bytes that a command has written to DRAM."""

    command: int
    address: int
    data: NDArray[np.uint8]


@dataclass(frozen=True)
class Execution:
    """What a run did."""

    fault: FaultSite | None  #: What stopped it before END.
    index: int  #: Index of the last command: END, or the one at fault.
    violations: tuple[Violation, ...]  #: What makes the program illegal.
    stores: tuple[StoredLine, ...]  #: All writes to DRAM, in program order.
    #: The program, to be run again by :meth:`Machine.run_again` with the same windows, or all of
    #: them so many pages further on; None if that could be illegal, or it is too large.
    replay: Replay | None = None


class Machine:
    """Executes programs; the unified buffer keeps its contents from run to run.

    Commands are executed one after the other, which is legal because program order is a legal
    serial execution. Whatever could make a real machine differ is a violation, found beside it.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.datapath = Datapath(config)
        self._written = np.zeros(config.ub_rows, dtype=bool)

    def run(
        self,
        commands: Sequence[Command | Fault],
        windows: Sequence[WindowBinding],
        dram: Dram,
        *,
        resident: Iterable[tuple[int, int]] = (),
        strict: bool = True,
        program_address: int | None = None,
    ) -> Execution:
        """Execute a program to its END or its first fault.

        After a fault, the rows that the program writes count as unwritten: how many of its
        commands a real machine executes is a matter of timing.

        Parameters
        ----------
        commands : sequence of Command or Fault
            The command stream; a fault stands for a command that does not decode.
        dram : Dram
            The memory, written in place.
        resident : iterable of (int, int)
            Ranges ``[start, stop)`` of rows that earlier runs have left for this one.
        strict : bool
            Raise an error at the end if there is any violation.
        program_address : int, optional
            Where the commands lie in DRAM. By default they lie elsewhere: nothing can overwrite
            them and no read error can hit them.

        Raises
        ------
        ValueError
            If a window does not lie in DRAM.
        RaceError
            If the program is not legal and ``strict``.
        """
        for number, window in enumerate(windows):
            if window.base + window.size > dram.size:
                raise ValueError(
                    f"Window {number} must end within the {dram.size} bytes of DRAM, "
                    f"not at {window.base + window.size}"
                )
        address = program_address or 0
        bytes_in_dram = 0 if program_address is None else COMMAND_BYTES * len(commands)
        detector = RaceDetector(
            self.config,
            buffer_written=self._written & _mask(self.config.ub_rows, resident),
            dram_written=dram.written,
            program=range(address, address + bytes_in_dram),
        )
        stores: list[StoredLine] = []
        resident = tuple(resident)
        recorder = Recorder(self.config, windows)
        fault: FaultSite | None = FaultSite(Fault.OVERRUN, address + COMMAND_BYTES * len(commands))
        index = len(commands)
        for i, command in enumerate(commands):
            place = address + COMMAND_BYTES * i
            unreadable = bytes_in_dram and dram.fails(
                place, COMMAND_BYTES // BEAT_BYTES, write=False
            )
            if (code := Fault.FETCH if unreadable else self._dispatch_fault(command)) is not None:
                fault, index = FaultSite(code, place), i
                break
            assert isinstance(command, Command)
            access = footprint(command, self.config, windows)
            if dram.read_errors or dram.write_errors:
                access = _with_memory_errors(command, access, dram, self.config)
            detector.command(command, access)
            recorder.command(command, access)
            if command.opcode == Opcode.CONV and command["depthwise"] and access.fault is None:
                detector.stray_weights(self.datapath.stray_weights(command, access))
            if command.opcode == Opcode.END:
                detector.finish(commands_left=len(commands) - i - 1)
                fault, index = None, i
                break
            if command.opcode == Opcode.STORE:
                lines = self.datapath.store(command, access, dram)
                stores += [StoredLine(i, start, data) for start, data in lines]
                site = access.fault
            else:
                site = self.datapath.execute(command, access, dram)
            if site is not None:
                fault, index = site, i
                break
        self._written |= detector.buffer_written
        if fault is not None:
            self._forget(commands, windows)
        violations = tuple(detector.violations)
        if strict and violations:
            raise RaceError(violations)
        clean = fault is None and not violations and not resident
        clean = clean and not (dram.read_errors or dram.write_errors)
        replay = recorder.replay(detector.buffer_written) if clean else None
        return Execution(fault, index, violations, tuple(stores), replay)

    def run_again(self, replay: Replay, dram: Dram) -> Execution:
        """Execute a program that ran before, which only a channel record can stop now.

        Stores are written, but not listed. After a fault its rows count as unwritten, as in a run.

        Parameters
        ----------
        dram : Dram
            The memory, counted from the page of its first window.
        """
        found = replay.run(self.datapath, dram)
        if found is None:
            self._written |= replay.written
            return Execution(None, len(replay.steps), (), ())
        self._written &= ~replay.written
        return Execution(found[1], found[0], (), ())

    def _forget(
        self, commands: Sequence[Command | Fault], windows: Sequence[WindowBinding]
    ) -> None:
        for command in commands:
            if self._dispatch_fault(command) is None:
                assert isinstance(command, Command)
                self._written[footprint(command, self.config, windows).writes] = False

    def _dispatch_fault(self, command: Command | Fault) -> Fault | None:
        if isinstance(command, Fault):
            return command
        values = {"opcode": command.opcode, **command.fields}
        problem = COMMANDS[command.opcode].problem(values)
        if problem is None:
            problem = illegal_combination(command, self.config)
        return None if problem is None else Fault.FIELD


def _mask(rows: int, ranges: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    mask = np.zeros(rows, dtype=bool)
    for start, stop in ranges:
        mask[start:stop] = True
    return mask


def _with_memory_errors(
    command: Command, access: Footprint, dram: Dram, config: Config
) -> Footprint:
    """Cut a transfer off before the first burst that the memory answers with an error."""
    store = command.opcode == Opcode.STORE
    for i, span in enumerate(access.spans):
        for address, beats in bursts(span.start, len(span.beats), config.burst_beats):
            if dram.fails(address, beats, write=store):
                spans = list(access.spans[:i])
                if store and address > span.start:
                    spans.append(Span(span.start, address, span.rows))
                code = Fault.WRITE if store else Fault.READ
                return replace(access, spans=tuple(spans), fault=FaultSite(code, address))
    return access
