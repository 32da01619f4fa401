"""The golden machine as a device."""

from collections.abc import Iterable

import numpy as np

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.golden.effects.footprint import decode_commands
from tpulite.golden.machine import Machine, RaceError
from tpulite.golden.machine.dram import Dram
from tpulite.golden.machine.replay import MOST_BYTES, Replay
from tpulite.runtime.device import FaultReport, Job, RunResult

__all__ = ["GoldenDevice", "RaceError"]


class GoldenDevice:
    """A device without a clock: exact results, and an error for every program that is not legal.

    A program that ran without a fault is not judged again while it and its windows stay the same.

    Follows :class:`tpulite.runtime.device.Device`.

    Parameters
    ----------
    config : Config
        The machine.
    dram_bytes : int
        Size of DRAM.
    read_errors, write_errors : iterable of range
        Addresses whose reads, or writes, are answered with an AXI error.
    """

    def __init__(
        self,
        config: Config,
        *,
        dram_bytes: int = 1 << 26,
        read_errors: Iterable[range] = (),
        write_errors: Iterable[range] = (),
    ) -> None:
        self.config = config
        self.dram_bytes = dram_bytes
        self._dram = Dram(dram_bytes, read_errors=read_errors, write_errors=write_errors)
        self._machine = Machine(config)
        self._stopped: FaultReport | None = None
        self._replays: dict[tuple[Job, bytes], Replay] = {}

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy bytes into DRAM; ValueError if they do not fit."""
        self._dram.write(address, data)

    def read(self, address: int, size: int) -> np.ndarray:
        """Return ``size`` bytes of DRAM as a fresh uint8 array; ValueError if outside."""
        return self._dram.read(address, size)

    def run(self, job: Job) -> RunResult:
        """Run a program to its END or its fault.

        Raises
        ------
        RaceError
            If the program is not legal: a race, a read of something that nothing wrote, or an
            illegal use of tokens.
        RuntimeError
            If the device has stopped at a fault and was not reset.
        """
        if self._stopped is not None:
            raise RuntimeError(f"The device has stopped at {self._stopped}; it must be reset first")
        size = COMMAND_BYTES * job.program_length
        data = self._dram.read(job.program_address, size).tobytes()
        key = job, data
        if (known := self._replays.get(key)) is not None:
            done = self._machine.run_again(known, self._dram)
        else:
            done = self._machine.run(
                decode_commands(data),
                job.windows,
                self._dram,
                resident=job.resident,
                program_address=job.program_address,
            )
            kept = sum(replay.nbytes for replay in self._replays.values())
            if done.replay is not None and kept + done.replay.nbytes <= MOST_BYTES:
                self._replays[key] = done.replay
        if done.fault is not None:
            self._stopped = FaultReport(done.fault.code, done.index, done.fault.address)
        return RunResult(self._stopped)

    def reset(self) -> None:
        """Soft reset: leave QUIESCED, be ready for the next program."""
        self._stopped = None
