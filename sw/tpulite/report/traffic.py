"""What programs move between the chip and DRAM, and the fewest cycles that it takes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import MemoryPair, Window
from tpulite.program import Program


@dataclass(frozen=True)
class Traffic:
    """Bytes of one run, whole beats: what READ_BEATS and WRITE_BEATS of the chip count."""

    #: Bytes that LOAD reads from, and STORE writes to, each window; 0 where there are none.
    loads: Mapping[Window, int]
    stores: Mapping[Window, int]
    commands: int  #: Bytes of the commands, which are fetched once.

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
