"""What programs need of each memory behind the chip: bytes moved, and bytes held."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, Window
from tpulite.memories import memory_name
from tpulite.program import Program
from tpulite.report.traffic import dram_traffic

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
