"""DRAM as the golden machine sees it."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES


class Dram:
    """Bytes, which of them hold something, and which addresses answer with an error.

    Parameters
    ----------
    read_errors, write_errors : iterable of range
        Addresses whose reads, or writes, are answered with an AXI error.

    Attributes
    ----------
    data : array of uint8
        The bytes; zero at the start.
    written : array of bool
        Bytes that the host or a STORE has written.

    Raises
    ------
    ValueError
        If this computer has less memory.
    """

    def __init__(
        self, size: int, *, read_errors: Iterable[range] = (), write_errors: Iterable[range] = ()
    ) -> None:
        try:
            self.data: NDArray[np.uint8] = np.zeros(size, dtype=np.uint8)
            self.written: NDArray[np.bool_] = np.zeros(size, dtype=bool)
        except MemoryError as error:
            raise ValueError(
                f"DRAM of {size:,} bytes, as programs ask for, is more than this computer has"
            ) from error
        self.read_errors = tuple(read_errors)
        self.write_errors = tuple(write_errors)

    def behind(self, address: int) -> "Dram":
        """Return the same bytes, counted from an address on, without errors."""
        behind = Dram(0)
        behind.data, behind.written = self.data[address:], self.written[address:]
        return behind

    @property
    def size(self) -> int:
        """Bytes."""
        return self.data.size

    def write(self, address: int, data: bytes | NDArray) -> None:
        """Copy bytes into DRAM; ValueError if they do not fit."""
        values = np.frombuffer(np.ascontiguousarray(data).tobytes(), dtype=np.uint8)
        self._check(address, values.size)
        self.data[address : address + values.size] = values
        self.written[address : address + values.size] = True

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a copy of ``size`` bytes; ValueError if they are not all in DRAM."""
        self._check(address, size)
        return self.data[address : address + size].copy()

    def fails(self, address: int, beats: int, *, write: bool) -> bool:
        """Say whether a burst is answered with an error."""
        errors = self.write_errors if write else self.read_errors
        stop = address + beats * BEAT_BYTES
        return any(address < error.stop and error.start < stop for error in errors)

    def _check(self, address: int, size: int) -> None:
        if address < 0 or size < 0 or address + size > self.size:
            raise ValueError(
                f"Bytes {address} to {address + size} must lie in DRAM of {self.size} bytes"
            )
