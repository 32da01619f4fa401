"""The cycle model: when every command of a program runs, and what its engine waits for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.arch.isa import Command
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, MemoryTiming
from tpulite.arch.timing import AXI_SLICES
from tpulite.golden.timing.burst_stores import BurstStores
from tpulite.golden.timing.clockwork import Clockwork
from tpulite.golden.timing.data_path import DataPath
from tpulite.golden.timing.loads import Loads
from tpulite.golden.timing.matrix import Matrix
from tpulite.golden.timing.stores import Stores
from tpulite.golden.timing.timeline import CommandTimes, Timeline
from tpulite.golden.timing.vectors import Vectors
from tpulite.program import Program

__all__ = [
    "CommandTimes",
    "Timeline",
    "measured_once",
    "predict",
    "predict_cycles",
    "program_cycles",
    "program_timeline",
    "total_cycles",
]


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
