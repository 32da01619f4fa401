"""Runs on the Verilated chip that something happens in: started, let go for a while, finished."""

from tpulite.runtime import driver
from tpulite.runtime.device import Job, RunResult
from tpulite_verilated.rtl_device import RtlDevice

__all__ = ["outcome", "start"]


def start(device: RtlDevice, job: Job) -> None:
    """Start a program and do not wait for it; OSError if the chip refuses."""
    sequence = driver.run(job)
    step = next(sequence)
    while not isinstance(step, driver.Wait):
        assert step.value is not None
        device.write_register(step.offset, step.value)
        step = next(sequence)


def outcome(device: RtlDevice) -> RunResult:
    """Return what came of a run, after its interrupt, which is cleared.

    Raises
    ------
    OSError
        If the chip does not answer OKAY.
    ValueError
        If it reports a fault that there is not.
    """
    return driver.execute(
        driver.outcome(), device.read_register, device.write_register, device.wait
    )
