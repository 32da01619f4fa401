"""The cycle model: when every command of a program runs, and what its engine waits for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Engine, disassemble
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, MemoryTiming
from tpulite.arch.registers import EngineState
from tpulite.arch.timing import AXI_SLICES
from tpulite.golden.timing.burst_stores import BurstStores, DataPath
from tpulite.golden.timing.clockwork import Clockwork, Record
from tpulite.golden.timing.loads import Loads
from tpulite.golden.timing.matrix import Matrix
from tpulite.golden.timing.stores import Stores
from tpulite.golden.timing.vectors import Vectors
from tpulite.program import Program


@dataclass(frozen=True, slots=True)
class CommandTimes:
    """When a command runs, in cycles from the start, and what its engine does meanwhile.

    The cycles from ``first`` to ``stop`` count for the command, as in the trace of the chip; they
    are the sum of ``busy``, ``token``, ``buffer`` and ``axi``. Those of an engine's commands do
    not overlap.
    """

    engine: Engine | None  #: Who executes it; None for END.
    dispatch: int  #: Cycle in which it enters its queue.
    start: int  #: Cycle in which its tokens are taken.
    #: First cycle, and last cycle + 1, that its engine counts for it.
    first: int
    stop: int
    #: Cycles in which the engine works, waits for tokens, is held up by the unified buffer, or by
    #: DRAM.
    busy: int
    token: int
    buffer: int
    axi: int
    giver: Engine | None  #: Who gave the last token that it waited for.

    @classmethod
    def of(cls, record: Record) -> "CommandTimes":
        """Freeze what the model has noted."""
        cycles = record.stop - record.first
        return cls(
            Engine(record.engine) if record.engine >= 0 else None,
            record.dispatch,
            record.start,
            record.first,
            record.stop,
            cycles - record.token - record.buffer - record.axi,
            record.token,
            record.buffer,
            record.axi,
            Engine(record.giver) if record.giver >= 0 else None,
        )


@dataclass(frozen=True, eq=False)
class EngineTimes:
    """What the model predicts of one engine, in the form of the chip's trace."""

    index: np.ndarray  #: Indices of its commands.
    #: First cycle, and last cycle + 1, that counts for each.
    start: np.ndarray
    stop: np.ndarray
    cycles: np.ndarray  #: Cycles in each state.


@dataclass(frozen=True)
class Timeline:
    """What the cycle model predicts of a program."""

    commands: tuple[Command, ...]  #: The program.
    cycles: int  #: Cycles from start to interrupt.
    times: tuple[CommandTimes, ...]  #: When each command runs.

    def engine(self, engine: Engine) -> dict[EngineState, int]:
        """Return the cycles of an engine in each state; their sum is :attr:`cycles`."""
        mine = [times for times in self.times if times.engine == engine]
        states = {
            EngineState.BUSY: sum(times.busy for times in mine),
            EngineState.TOKEN: sum(times.token for times in mine),
            EngineState.BUFFER: sum(times.buffer for times in mine),
            EngineState.AXI: sum(times.axi for times in mine),
        }
        return {EngineState.IDLE: self.cycles - sum(states.values()), **states}

    def traces(self) -> dict[Engine, EngineTimes]:
        """Return what each engine does, as the traces of a device that has a clock."""
        numbers: dict[Engine, list[tuple[int, ...]]] = {engine: [] for engine in Engine}
        for index, x in enumerate(self.times):
            if x.engine is not None:
                spent = 0, x.busy, x.token, x.buffer, x.axi
                numbers[x.engine].append((index, x.first, x.stop, *spent))
        traces = {}
        for engine, rows in numbers.items():
            each = np.array(rows, np.int64).reshape(len(rows), 3 + len(EngineState))
            traces[engine] = EngineTimes(each[:, 0], each[:, 1], each[:, 2], each[:, 3:])
        return traces

    def dump(self) -> str:
        """Return a table with a line a command, then the engines' cycles in each state."""
        lines = [_line("command", *_COLUMNS)]
        for index, (command, times) in enumerate(zip(self.commands, self.times, strict=True)):
            if times.engine is None:
                lines.append(_line(index, times.dispatch, *[""] * 7, disassemble(command)))
                continue
            numbers = (getattr(times, name) for name in _COLUMNS[:-1])
            lines.append(_line(index, *numbers, disassemble(command)))
        lines.append(f"{self.cycles:,} cycles")
        for engine in Engine:
            states = self.engine(engine)
            words = [f"{state.name.lower()} {cycles:,}" for state, cycles in states.items()]
            lines.append(f"{engine.name:<5} {', '.join(words)}")
        return "\n".join(lines)


_COLUMNS = ("dispatch", "start", "first", "stop", "busy", "token", "buffer", "axi", "fields")


def _line(index: object, *columns: object) -> str:
    *numbers, text = columns
    return f"{index!s:>7}" + "".join(f"{number!s:>9}" for number in numbers) + f"  {text}"


def predict(
    commands: Sequence[Command], config: Config, memory: MemoryTiming = REFERENCE_MEMORY
) -> Timeline:
    """Predict when every command of a program runs on a machine.

    It is assumed that the program is legal and that DRAM windows and program begin at multiples of
    4 KiB, as :class:`tpulite.runtime.session.Session` places them. What is modeled, and how well,
    is in ``docs/decisions/0004-the-cycle-model.md``.

    Parameters
    ----------
    commands : sequence of Command
        The program with tokens, END last.
    memory : MemoryTiming, optional
        The DRAM beside it, by default the reference memory.

    Raises
    ------
    ValueError
        If a command waits for a token that never comes.

    Examples
    --------
    >>> from tpulite.arch.isa import Opcode
    >>> load = Command.make(Opcode.LOAD, lines=1, rows=16)
    >>> predict((load, Command.make(Opcode.END)), Config()).cycles
    125
    """
    machine = _machine(commands, config, memory)
    cycles = machine.run()
    return Timeline(tuple(commands), cycles, tuple(map(CommandTimes.of, machine.records)))


def predict_cycles(
    commands: Sequence[Command], config: Config, memory: MemoryTiming = REFERENCE_MEMORY
) -> int:
    """Predict the cycles of a program from start to interrupt: :func:`predict`, and faster."""
    return _machine(commands, config, memory).run()


def program_cycles(program: Program) -> int:
    """Predict the cycles of a program beside the memory that it is for."""
    return predict_cycles(program.commands, program.config, program.memory)


def total_cycles(programs: Iterable[Program]) -> int:
    """Predict the cycles of programs that run in turn, as those of equal layers do."""
    return sum(measured_once(programs, program_cycles))


def measured_once(programs: Iterable[Program], measure: Callable[[Program], int]) -> list[int]:
    """Return a measure of each program; it is taken once of those that only data tell apart.

    Parameters
    ----------
    measure : callable
        Returns what follows from commands, machine and memory of a program.
    """
    known: list[tuple[Program, int]] = []
    found = []
    for program in programs:
        like = (value for other, value in known if _differ_in_data(program, other))
        if (value := next(like, None)) is None:
            value = measure(program)
            known.append((program, value))
        found.append(value)
    return found


def _differ_in_data(program: Program, other: Program) -> bool:
    """Return whether two programs differ in nothing that takes time."""
    same = (program.config, program.memory) == (other.config, other.memory)
    return same and program.commands == other.commands


def program_timeline(program: Program) -> Timeline:
    """Predict when every command of a program runs beside the memory that it is for."""
    return predict(program.commands, program.config, program.memory)


def _machine(commands: Sequence[Command], config: Config, memory: MemoryTiming) -> Clockwork:
    if config.axi_slices:  # for the chip it is a slower memory
        memory = _later(memory)
    machine = Clockwork(commands, config, memory)
    reads = DataPath(memory)
    writes = reads if memory.shared else DataPath(memory)
    constants = DataPath(memory.constants) if isinstance(memory, MemoryPair) else reads
    # First STORE: of what happens in one cycle it comes first.
    stores = BurstStores(machine, writes) if memory.is_limited else Stores(machine)
    loads = Loads(machine, reads, constants)
    machine.heads = [loads, stores, Matrix(machine), Vectors(machine)]
    return machine


def _later(memory: MemoryTiming) -> MemoryTiming:
    """Return a memory as it is for a chip whose AXI port has register slices."""
    if isinstance(memory, MemoryPair):
        memory = replace(memory, of_constants=_later(memory.of_constants))
    return replace(
        memory,
        read_latency=memory.read_latency + AXI_SLICES,
        write_response=memory.write_response + AXI_SLICES,
    )
