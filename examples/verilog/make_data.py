"""What the test bench beside it reads: DRAM before and after a run, and the host's register writes.

    python examples/verilog/make_data.py 4x4 FOLDER

Here it is a digit; any network that is one program of the machine will do. The golden machine says
what DRAM must hold at the end.
"""

import sys
from pathlib import Path

import numpy as np

import tpulite
from tpulite.configs import named_config
from tpulite.models import MLP_DIGITS, DigitsTest
from tpulite.runtime import driver
from tpulite.runtime.device import Job, RunResult
from tpulite.runtime.golden_device import GoldenDevice

DRAM_BYTES = 1 << 20
BEAT_BYTES = 16


class RecordingDevice(GoldenDevice):
    """A golden machine that writes down what happens."""

    def __init__(self, config: tpulite.Config, folder: Path) -> None:
        super().__init__(config, dram_bytes=DRAM_BYTES)
        self.folder = folder

    def run(self, job: Job) -> RunResult:
        """Run a program, and write the three files."""
        self.save("before.hex")
        writes: list[str] = []
        driver.execute(
            driver.run(job),
            read=lambda offset: 0,
            write=lambda offset, value: writes.append(f"{offset:08x}{value:08x}"),
            wait=lambda: writes.append("f" * 16),
        )
        started = writes[: writes.index("f" * 16) + 1]
        (self.folder / "writes.hex").write_text("\n".join(started) + "\n")
        result = super().run(job)
        self.save("after.hex")
        return result

    def save(self, name: str) -> None:
        """Write the beats of DRAM that are not zero, each at its number."""
        beats = self.read(0, DRAM_BYTES).reshape(-1, BEAT_BYTES)
        lines = [f"@{i:x} {beats[i, ::-1].tobytes().hex()}" for i in np.flatnonzero(beats.any(1))]
        (self.folder / name).write_text("\n".join(lines) + "\n")


config, folder = named_config(sys.argv[1]), Path(sys.argv[2])
device = RecordingDevice(config, folder)
model = tpulite.Model.load(MLP_DIGITS, config=config)
results = model.run(DigitsTest.load().images[:1], device)
print(f"{folder}: the digit is a {results.output.argmax()}")
