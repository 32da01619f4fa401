"""The DRAM side of the contract: windows and the reference memory."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

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
    """Where a window lies in DRAM and who may use it."""

    base: int = 0  #: Address of its first byte, a multiple of 16.
    size: int = 0  #: Its bytes, a multiple of 16 below 2**32; 0 closes the window.
    #: Whether LOAD may read it and STORE may write it.
    read: bool = False
    write: bool = False


@dataclass(frozen=True)
class MemoryTiming:
    """Timing of a DRAM model, in clock edges.

    AR, AW and W are always ready. A data path takes bursts in the order in which they come: a read
    when its AR is accepted, a write when its last W beat is. It takes ``beat_cycles`` for each
    beat, and rests ``burst_cycles`` after each burst; the beats of a write pass it as they come.

    Parameters
    ----------
    read_latency : int
        From the edge that accepts AR to the edge that transfers its first R beat, if the data path
        is free.
    write_response : int
        From the edge that transfers the last W beat to the edge that transfers B, if the data path
        has taken the beats by then.
    beat_cycles : int
        Edges of the data path for a beat of 16 bytes; 0 is a data path that is never busy, so that
        AXI alone is the limit, at a beat a cycle.
    burst_cycles : int
        Edges between two bursts on the data path, as for opening a row.
    shared : bool
        Whether reads and writes take turns on one data path, as in a DRAM, or have one each.

    Raises
    ------
    ValueError
        If a number of cycles is negative.
    """

    read_latency: int = 50
    write_response: int = 8
    beat_cycles: int = 0
    burst_cycles: int = 0
    shared: bool = False

    def __post_init__(self) -> None:
        for each in fields(MemoryTiming):
            if getattr(self, each.name) < 0:
                raise ValueError(f"{each.name} must be at least 0, not {getattr(self, each.name)}")

    @property
    def is_limited(self) -> bool:
        """Whether the data path can be busy, so that AXI is not the only limit."""
        return self.beat_cycles > 0 or self.burst_cycles > 0

    @property
    def constants(self) -> "MemoryTiming":
        """The memory in which constants and commands lie."""
        return self

    @property
    def tensors(self) -> "MemoryTiming":
        """The memory in which inputs, outputs and scratch lie."""
        return self

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "MemoryTiming":
        """Return the memory that ``dataclasses.asdict`` has made ``values`` of.

        Raises
        ------
        TypeError, ValueError
            If there is no such memory.
        """
        if "of_constants" not in values:
            return MemoryTiming(**values)
        return MemoryPair(**{**values, "of_constants": MemoryTiming(**values["of_constants"])})


REFERENCE_MEMORY = MemoryTiming()
"""What cycle counts refer to, if no other memory is named."""


@dataclass(frozen=True)
class MemoryPair(MemoryTiming):
    """Two memories behind the AXI port: one for constants and commands, one for everything else.

    The fields of :class:`MemoryTiming` are those of the memory of tensors. A burst goes to the
    memory in which its address lies, and passes a data path of that memory: the two do not wait for
    each other. Reads of both are answered in the order of their requests, as those of one AXI ID
    must be: beats that are ready early wait, and then come one a cycle. Constants are only read: a
    write to their memory is answered with an error.

    Raises
    ------
    ValueError
        If a number of cycles is negative, or the memory of constants is a pair itself.
    """

    #: The memory of constants and commands; ``write_response`` and ``shared`` do not matter.
    of_constants: MemoryTiming = REFERENCE_MEMORY

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.of_constants, MemoryPair):
            raise ValueError("the memory of constants must be one memory, not a pair")

    @property
    def is_limited(self) -> bool:
        """Whether AXI is not the only limit: of a pair always, as reads wait for each other."""
        return True

    @property
    def constants(self) -> MemoryTiming:
        """The memory in which constants and commands lie."""
        return self.of_constants

    @property
    def tensors(self) -> MemoryTiming:
        """The memory in which inputs, outputs and scratch lie."""
        return MemoryTiming(
            **{each.name: getattr(self, each.name) for each in fields(MemoryTiming)}
        )
