"""A device of your own: anything that can write and read DRAM and run a program.

Run it with ``python examples/own_device.py``. This one passes everything to the golden model and
counts the bytes; in the same way a driver of a board would pass them to PCI Express or a UART.
"""

import numpy as np

import tpulite
from tpulite.models import CNN_DIGITS, DigitsTest
from tpulite.runtime.device import Job, RunResult
from tpulite.runtime.golden_device import GoldenDevice


class CountingDevice:
    """The protocol ``tpulite.Device``: config, dram_bytes, write, read, run, reset."""

    def __init__(self, config: tpulite.Config) -> None:
        self.config = config
        self.inner = GoldenDevice(config)
        self.dram_bytes = self.inner.dram_bytes
        self.written = self.fetched = self.runs = 0

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy bytes into DRAM."""
        self.written += len(data) if isinstance(data, bytes) else data.nbytes
        self.inner.write(address, data)

    def read(self, address: int, size: int) -> np.ndarray:
        """Return bytes of DRAM."""
        self.fetched += size
        return self.inner.read(address, size)

    def run(self, job: Job) -> RunResult:
        """Run a program to its END or its fault."""
        self.runs += 1
        return self.inner.run(job)

    def reset(self) -> None:
        """Be ready for the next program, after a fault, too."""
        self.inner.reset()


device = CountingDevice(tpulite.Config())
pixels = DigitsTest.load().images[:4].reshape(4, 16, 16, 1)
results = tpulite.run(CNN_DIGITS, pixels, device)
print(f"classes: {results.output.argmax(axis=-1).tolist()}")
print(f"{device.runs} runs, {device.written:,} bytes written, {device.fetched:,} bytes read")
