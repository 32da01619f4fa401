"""What commands touch, as data: rows of the unified buffer, accumulators, bytes of DRAM, faults."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.registers import Fault

NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class FaultSite:
    """Why a command stops the machine, and where (see :class:`~tpulite.arch.registers.Fault`)."""

    code: Fault
    address: int


@dataclass(frozen=True)
class Span:
    """A line of a transfer: DRAM bytes ``[start, stop)`` and the rows that hold them.

    Only a STORE that faults within a line has bytes that end within a row.
    """

    start: int
    stop: int
    rows: range

    def moved(self, by: int) -> "Span":
        """Return the same line so many bytes further on."""
        return Span(self.start + by, self.stop + by, self.rows)

    @property
    def beats(self) -> range:
        """Indices of the 16-byte beats that the bytes touch; a line starts at a beat."""
        return range(self.start // BEAT_BYTES, -(-self.stop // BEAT_BYTES))


@dataclass(frozen=True)
class Footprint:
    """Everything that a command touches before it ends, or before its fault."""

    #: Rows of weights, records and parameters, read before anything is written. With ``prefetch``
    #: they may be read as soon as the MXU's previous command has started.
    early_reads: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)
    #: All other rows read, and the rows written, each in order.
    reads: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)
    writes: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)
    #: How many of ``reads`` have surely happened when each of ``writes`` does.
    reads_before: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)
    #: Vectors of a CONV's stream in order, as rows; a vector of padding is -1. Its shape is
    #: [k_tiles, positions], in dense mode [k_tiles, positions, 2].
    vectors: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)
    spans: tuple[Span, ...] = ()  #: Lines in DRAM, read by LOAD, written by STORE, in order.
    accumulators: range = range(0)  #: Accumulator rows of a CONV.
    fault: FaultSite | None = None  #: What stops the command.
