"""The chip of a LiteX system as a device, reached through LiteX's bridge from a UART to the bus."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.memory import WindowBinding
from tpulite.arch.registers import IDENTIFICATION, Control, RunState, offset_of
from tpulite.needs import require_package
from tpulite.runtime import driver
from tpulite.runtime.device import Job, RunResult

__all__ = ["DRAM_BYTES", "DRAM_ORIGIN", "REGISTERS", "LitexDevice", "parsed_address"]

REGISTERS = 0x8000_0000
"""Address of the chip's registers on the bus."""

DRAM_ORIGIN = 0x4100_0000
"""First byte of main memory that the host has; firmware lies below."""

DRAM_BYTES = 0x0100_0000
"""What the host has of it: there is a board with 32 MiB in all."""

_BAUD = 115_200
_WORD = 4
_PATTERN = 0x5450_4C54


class LitexDevice:
    """A device at the other end of a line; follows :class:`tpulite.runtime.device.Device`.

    Main memory must be initialized, which LiteX's BIOS does. Firmware must not use the chip.

    Parameters
    ----------
    config : Config
        The machine that the chip must be.
    address : str
        ``tcp:HOST:PORT``, or ``uart:/dev/ttyUSB0``, perhaps with a baud rate: ``@1000000``.
    dram_bytes : int
        How much of the memory is to be used.

    Raises
    ------
    OSError
        If the line cannot be opened or breaks.
    ValueError
        If there is another chip, or not so much memory.
    """

    def __init__(self, config: Config, *, address: str = "", dram_bytes: int = DRAM_BYTES) -> None:
        port, baud = parsed_address(address)
        if dram_bytes > DRAM_BYTES:
            raise ValueError(
                f"Device litex has {DRAM_BYTES} bytes of DRAM for the host, not {dram_bytes}"
            )
        require_package("litex", "litex", "The device litex")
        from tpulite_litex.line import Line  # needs LiteX

        self.config = config
        self.dram_bytes = dram_bytes
        self._line = Line(f"litex:{address}", port, baud)
        self._line.synchronize(REGISTERS + offset_of("ID"), IDENTIFICATION)
        self._execute(driver.identify(config))
        self._recover()
        self._line.write_words(DRAM_ORIGIN, [_PATTERN])
        if (found := self._line.read_words(DRAM_ORIGIN, 1)) != [_PATTERN]:
            raise OSError(
                f"litex:{address}: main memory reads {found[0]:#x}, not what was written:"
                " has LiteX's BIOS initialized it?"
            )

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy bytes into DRAM; ValueError if they do not fit."""
        values = np.frombuffer(np.ascontiguousarray(data).tobytes(), dtype=np.uint8)
        self._check(address, values.size)
        begin, end = address // _WORD * _WORD, -(-(address + values.size) // _WORD) * _WORD
        if (begin, end) != (address, address + values.size):
            whole = self.read(begin, end - begin)
            whole[address - begin : address - begin + values.size] = values
            values = whole
        self._line.write_words(DRAM_ORIGIN + begin, values.view("<u4").tolist())

    def read(self, address: int, size: int) -> np.ndarray:
        """Return ``size`` bytes of DRAM as a fresh uint8 array; ValueError if outside."""
        self._check(address, size)
        begin, end = address // _WORD * _WORD, -(-(address + size) // _WORD) * _WORD
        words = self._line.read_words(DRAM_ORIGIN + begin, (end - begin) // _WORD)
        values = np.array(words, "<u4").view(np.uint8)
        return values[address - begin : address - begin + size].copy()

    def run(self, job: Job) -> RunResult:
        """Run a program to its END or its fault; the buffer keeps its contents between runs."""
        windows = tuple(
            WindowBinding(DRAM_ORIGIN + each.base, each.size, each.read, each.write)
            for each in job.windows
        )
        placed = Job(DRAM_ORIGIN + job.program_address, job.program_length, windows, job.watchdog)
        return self._execute(driver.run(placed))

    def reset(self) -> None:
        """Soft reset: leave QUIESCED, be ready for the next program."""
        self._execute(driver.soft_reset())

    def close(self) -> None:
        """Close the line; the chip stays as it is."""
        self._line.close()

    def read_register(self, offset: int) -> int:
        """Read a register of the chip."""
        return self._line.read_words(REGISTERS + offset, 1)[0]

    def write_register(self, offset: int, value: int) -> None:
        """Write a register of the chip."""
        self._line.write_words(REGISTERS + offset, [value])

    def _recover(self) -> None:
        """End what was under way when an earlier line broke."""
        status = offset_of("STATUS")
        if self.read_register(status) == RunState.RUNNING:
            self.write_register(offset_of("CONTROL"), Control.STOP)
        while (state := self.read_register(status)) in (RunState.RUNNING, RunState.STOPPING):
            pass
        if state == RunState.QUIESCED:
            self.reset()
        pending = offset_of("IRQ_STATUS")
        self.write_register(pending, self.read_register(pending))

    def _execute(self, sequence: driver.Sequence[driver.T]) -> driver.T:
        return driver.execute(sequence, self.read_register, self.write_register, self._wait)

    def _wait(self) -> None:
        while not self.read_register(offset_of("IRQ_STATUS")):
            pass

    def _check(self, address: int, size: int) -> None:
        if address < 0 or size < 0 or address + size > self.dram_bytes:
            raise ValueError(
                f"Bytes {address} to {address + size} must lie in DRAM of {self.dram_bytes} bytes"
            )


def parsed_address(address: str) -> tuple[str, int]:
    """Return pyserial's name of a line, and its baud rate; ValueError if it is none."""
    kind, _, rest = address.partition(":")
    port, _, baud = rest.partition("@")
    if kind == "tcp" and ":" in port:
        return f"socket://{port}", _BAUD
    if kind == "uart" and port and (baud or "1").isdigit():
        return port, int(baud or _BAUD)
    raise ValueError(
        f"Device litex must be litex:tcp:HOST:PORT or litex:uart:/dev/ttyUSB0, not litex:{address}"
    )
