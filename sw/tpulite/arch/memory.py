"""The DRAM side of the contract: windows and the reference memory."""

from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "ADDRESS_BITS",
    "PAGE_BYTES",
    "REFERENCE_MEMORY",
    "WINDOWS",
    "MemoryTiming",
    "Window",
    "WindowBinding",
]

WINDOWS = 4
"""Number of DRAM windows."""

ADDRESS_BITS = 40
"""Width of an AXI address; the upper bits of 64-bit address registers beyond it are zero."""

PAGE_BYTES = 4096
"""AXI bursts do not cross a multiple of it."""


class Window(IntEnum):
    """Windows as the compiler uses them; to the hardware they are just numbers."""

    CONSTANTS = 0  #: weights and channel records, read
    INPUT = 1  #: network inputs, read
    OUTPUT = 2  #: network outputs, written
    SCRATCH = 3  #: tensors that do not fit the unified buffer, read and written


@dataclass(frozen=True)
class WindowBinding:
    """Where a window lies in DRAM and who may use it.

    Parameters
    ----------
    base : int
        Address of its first byte, a multiple of 16.
    size : int
        Its bytes, a multiple of 16 below 2**32; 0 closes the window.
    read, write : bool
        Whether LOAD may read it and STORE may write it.
    """

    base: int = 0
    size: int = 0
    read: bool = False
    write: bool = False


@dataclass(frozen=True)
class MemoryTiming:
    """Timing of a DRAM model, in clock edges.

    Parameters
    ----------
    read_latency : int
        From the edge that accepts AR to the edge that transfers its first R beat.
    write_response : int
        From the edge that transfers the last W beat to the edge that transfers B.
    """

    read_latency: int = 50
    write_response: int = 8


REFERENCE_MEMORY = MemoryTiming()
"""What cycle counts refer to. AR, AW and W are always ready; reads are answered in order, one beat
a cycle, any number outstanding."""
