"""The golden machine as a device."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.golden.effects.footprint import decode_commands
from tpulite.golden.machine import Execution, Machine, RaceError
from tpulite.golden.machine.dram import Dram
from tpulite.golden.machine.replay import MOST_BYTES, Replay, origin_of
from tpulite.runtime.device import FaultReport, Job, RunResult

__all__ = ["GoldenDevice", "RaceError"]


@dataclass(frozen=True, eq=False)
class _Judged:
    """A program that ran without a fault."""

    replay: Replay  #: What runs it again.
    written: NDArray[np.bool_]  #: Bytes of its windows that held something before it ran.

    def holds(self, written: NDArray[np.bool_]) -> bool:
        """Return whether it reads nothing unwritten from windows with these bytes, either."""
        return len(written) == len(self.written) and bool((written >= self.written).all())


class GoldenDevice:
    """A device without a clock: exact results, and an error for every program that is not legal.

    A program that ran without a fault is not judged again while it and its windows stay the same,
    or lie whole pages further on and hold something wherever they did.

    Follows :class:`tpulite.runtime.device.Device`.

    Parameters
    ----------
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
        self._judged: dict[tuple[Job, bytes], _Judged] = {}

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
        if (known := self._known(job, data)) is not None:
            done = self._machine.run_again(known, self._dram.behind(origin_of(job.windows)))
        else:
            done = self._judge(job, data)
        if done.fault is not None:
            self._stopped = FaultReport(done.fault.code, done.index, done.fault.address)
        return RunResult(self._stopped)

    def reset(self) -> None:
        """Soft reset: leave QUIESCED, be ready for the next program."""
        self._stopped = None

    def _known(self, job: Job, data: bytes) -> Replay | None:
        """Return a program that need not be judged."""
        known = self._replays.get((job, data))
        if known is None:
            like = self._judged.get((_from_origin(job), data))
            if like is not None and like.holds(self._written(job)):
                known = self._replays[job, data] = like.replay
        return known

    def _judge(self, job: Job, data: bytes) -> Execution:
        """Run a program, and keep it if it need not be judged again."""
        written = self._written(job).copy()
        done = self._machine.run(
            decode_commands(data),
            job.windows,
            self._dram,
            resident=job.resident,
            program_address=job.program_address,
        )
        kept = sum(each.replay.nbytes for each in self._judged.values())
        if done.replay is not None and kept + done.replay.nbytes <= MOST_BYTES:
            self._replays[job, data] = done.replay
            self._judged[_from_origin(job), data] = _Judged(done.replay, written)
        return done

    def _written(self, job: Job) -> NDArray[np.bool_]:
        """Return which bytes hold something, from the page of the first window to the last one."""
        stop = max(window.base + window.size for window in job.windows)
        return self._dram.written[origin_of(job.windows) : stop]


def _from_origin(job: Job) -> Job:
    """Return a job as it is if all lies whole pages nearer to the beginning of DRAM."""
    origin = origin_of(job.windows)
    windows = tuple(replace(window, base=window.base - origin) for window in job.windows)
    return replace(job, program_address=job.program_address - origin, windows=windows)
