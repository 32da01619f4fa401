"""Runs of networks that are cut off at any cycle, and what the chip does after that."""

import random
from dataclasses import dataclass
from functools import cache

from tpulite.arch.registers import Control, Fault, RunState, offset_of
from tpulite_tb.machines import SMALL
from tpulite_tb.placed import DRAM_BYTES, NETWORKS, placed
from tpulite_tb.starts import outcome, start
from tpulite_verilated.rtl_device import RtlDevice

__all__ = ["CutOff", "cut_off", "stopped"]

_STALLS = (0.0, 0.3)


@dataclass(frozen=True)
class CutOff:
    """A run that was cut off."""

    network: str  #: What ran.
    cycle: int  #: How many cycles after START.
    how: str  #: By ``reset``, which the memory gets, too, or by ``stop``.
    finished: bool  #: The run was over by then.


def cut_off(seed: int) -> CutOff:
    """Cut a run off at a drawn cycle, by reset or STOP; the next run must be right in every bit.

    The memory stalls in half of the runs. Nothing outside the windows may be written, ever.
    """
    rng = random.Random(seed)
    name, how = rng.choice(NETWORKS), ("reset", "stop")[seed % 2]
    stall = rng.choice(_STALLS)
    network = placed(name)
    cycle = rng.randrange(_cycles(name, stall))
    device = _device(stall, seed)
    network.place(device)
    start(device, network.job)
    device.step(cycle)
    finished = device.read_register(offset_of("STATUS")) == RunState.IDLE
    if how == "reset":
        device.full_reset()
    else:
        finished = not stopped(device)
    assert not network.strayed(device), "something was written that no window allows"
    network.place(device)
    result = device.run(network.job)
    assert result.fault is None, result.fault
    assert network.is_right(device), "the run after it is wrong"
    assert not network.strayed(device), "the run after it wrote what no window allows"
    return CutOff(name, cycle, how, finished)


def stopped(device: RtlDevice) -> bool:
    """Say STOP and do a soft reset, or learn that the run is over."""
    try:
        device.write_register(offset_of("CONTROL"), Control.STOP)
    except OSError:
        assert device.read_register(offset_of("STATUS")) == RunState.IDLE
    device.wait()
    fault = outcome(device).fault
    if fault is None:
        return False
    assert fault.code == Fault.STOPPED, fault
    device.reset()
    return True


def _device(stall: float, seed: int) -> RtlDevice:
    jitter = int(50 * stall)
    return RtlDevice(SMALL, dram_bytes=DRAM_BYTES, stall=stall, jitter=jitter, seed=seed)


@cache
def _cycles(name: str, stall: float) -> int:
    """Return how long a network runs."""
    device = _device(stall, 0)
    network = placed(name)
    network.place(device)
    result = device.run(network.job)
    assert result.fault is None and network.is_right(device)
    return result.counters["cycles"]
