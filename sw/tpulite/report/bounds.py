"""Fewest cycles that programs can take on a machine."""

from collections.abc import Iterable

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import MemoryPair, Window
from tpulite.program import Program


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
