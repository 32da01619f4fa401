"""What programs move to and from each memory, what they hold there, and the fewest cycles."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, Window
from tpulite.memories import memory_name
from tpulite.program import Program


@dataclass(frozen=True)
class Traffic:
    """Bytes of one run, whole beats: what READ_BEATS and WRITE_BEATS of the chip count."""

    #: Bytes that LOAD reads from, and STORE writes to, each window; 0 where there are none.
    loads: Mapping[Window, int]
    stores: Mapping[Window, int]
    commands: int  #: Bytes of the commands, which are fetched once.

    def __add__(self, other: "Traffic") -> "Traffic":
        loads, stores = (
            {window: mine[window] + more[window] for window in mine}
            for mine, more in ((self.loads, other.loads), (self.stores, other.stores))
        )
        return Traffic(loads, stores, self.commands + other.commands)

    @property
    def read_bytes(self) -> int:
        """All bytes read from DRAM."""
        return sum(self.loads.values()) + self.commands

    @property
    def written_bytes(self) -> int:
        """All bytes written to DRAM."""
        return sum(self.stores.values())


def command_bytes(command: Command, config: Config) -> int:
    """Return the bytes that a LOAD or STORE moves, whole beats."""
    beats = -(-command["rows"] * config.row_bytes // BEAT_BYTES)
    return command["lines"] * beats * BEAT_BYTES


def dram_traffic(program: Program) -> Traffic:
    """Count the bytes that a run of a program moves.

    Parameters
    ----------
    program : Program
        A program that runs to its END.
    """
    counts: dict[Opcode, Counter[int]] = {Opcode.LOAD: Counter(), Opcode.STORE: Counter()}
    for command in program.commands:
        if command.opcode in counts:
            counts[command.opcode][command["window"]] += command_bytes(command, program.config)
    loads, stores = (
        {window: counts[opcode][window] for window in Window}
        for opcode in (Opcode.LOAD, Opcode.STORE)
    )
    return Traffic(loads, stores, len(program.commands) * COMMAND_BYTES)


def limit_cycles(programs: Iterable[Program]) -> int:
    """Return the sum of the bounds of programs that run one after the other.

    The bound of a program is the larger of its MACs, N² in each cycle, and its :func:`dram_cycles`.
    """
    return sum(
        max(-(-each.macs // each.config.array_size**2), dram_cycles(each)) for each in programs
    )


def dram_cycles(program: Program) -> int:
    """Return the cycles in which DRAM delivers every operand once, and takes the results.

    Both come at the same time, unless they share the data path of the program's memory. Constants
    in a memory of their own do, too, but for what AXI moves: 16 bytes a cycle.
    """
    constants = 0 if program.resident else len(program.constants)
    read = program.window_bytes[Window.INPUT]
    written, memory = program.window_bytes[Window.OUTPUT], program.memory
    if isinstance(memory, MemoryPair):
        apart = (
            max(constants * max(memory.constants.beat_cycles, 1), constants + read) // BEAT_BYTES
        )
    else:
        apart, read = 0, read + constants
    taken = read + written if memory.shared else max(read, written)
    return max(apart, taken // BEAT_BYTES * max(memory.beat_cycles, 1))


_TENSORS = (Window.INPUT, Window.OUTPUT, Window.SCRATCH)


@dataclass(frozen=True)
class MemoryUse:
    """What the programs of a network need of a memory in one run."""

    memory: str  #: Its name, as ``--memory`` takes it.
    holds: str  #: What lies in it: ``constants and commands``, ``tensors``, or ``everything``.
    #: Bytes that move, whole beats.
    read_bytes: int
    written_bytes: int
    #: Bytes that it must hold: constants and commands of all programs, and the inputs, outputs and
    #: scratch of the program that has the most, as programs run one after the other. Padding
    #: between windows does not count.
    peak_bytes: int

    def line(self) -> str:
        """Return the figures in words."""
        return (
            f"{self.memory} ({self.holds}): {self.read_bytes:,} bytes read, "
            f"{self.written_bytes:,} written, {self.peak_bytes:,} held at the peak"
        )

    def as_dict(self) -> dict[str, object]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def memory_uses(programs: Sequence[Program]) -> tuple[MemoryUse, ...]:
    """Return what programs need of their memory, or of each if there are two: constants first.

    Parameters
    ----------
    programs : sequence of Program
        All for the same memory.

    Returns
    -------
    tuple of MemoryUse
        One for each memory; none if there are no programs.
    """
    if not programs:
        return ()
    memory, traffic = programs[0].memory, [dram_traffic(program) for program in programs]
    constants = MemoryUse(
        "",
        "constants and commands",
        sum(each.loads[Window.CONSTANTS] + each.commands for each in traffic),
        sum(each.stores[Window.CONSTANTS] for each in traffic),
        sum(len(each.constants) + COMMAND_BYTES * len(each.commands) for each in programs),
    )
    tensors = MemoryUse(
        "",
        "tensors",
        sum(each.loads[window] for each in traffic for window in _TENSORS),
        sum(each.stores[window] for each in traffic for window in _TENSORS),
        max(sum(each.window_bytes[window] for window in _TENSORS) for each in programs),
    )
    names = memory_name(memory).split("+")
    if isinstance(memory, MemoryPair):
        return (
            replace(constants, memory=names[1]),
            replace(tensors, memory=names[0]),
        )
    both = MemoryUse(
        names[0],
        "everything",
        constants.read_bytes + tensors.read_bytes,
        constants.written_bytes + tensors.written_bytes,
        constants.peak_bytes + tensors.peak_bytes,
    )
    return (both,)


def memory_lines(programs: Sequence[Program]) -> list[str]:
    """Return a line for each memory; none beside the reference memory, which is nobody's."""
    if not programs or programs[0].memory == REFERENCE_MEMORY:
        return []
    return [use.line() for use in memory_uses(programs)]
