"""Networks placed in DRAM, with their inputs and what must come out, for runs by the thousand."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tpulite.arch.memory import Window
from tpulite.bench.workload import Outcome, Run
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.program import Program
from tpulite.runtime.device import Device, Job, open_device
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite_tb.machines import SMALL
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation

__all__ = ["DRAM_BYTES", "NETWORKS", "PlacedNetwork", "placed", "placed_run"]

DRAM_BYTES = 1 << 18

_FILES = {"mlp": MLP_DIGITS, "cnn": CNN_DIGITS}
_DRAWN = (10, 26, 30, 31)
"""Seeds of graphs that have products, depthwise ones, sums, tables, pools and transfers."""

NETWORKS = (*_FILES, *(f"drawn {seed}" for seed in _DRAWN))
"""Networks of :func:`placed`: the digits' two, and random graphs of layers."""

_WATCHDOG = 2_000
"""Cycles; the memory answers within a tenth of them."""


@dataclass(frozen=True, eq=False)
class PlacedNetwork:
    """A network that has run once on the golden machine."""

    job: Job  #: Its program and windows.
    before: np.ndarray  #: Ndarray of uint8, [DRAM_BYTES]. DRAM before a run.
    after: np.ndarray  #: Ndarray of uint8, [DRAM_BYTES]. And after it.

    def place(self, device: Device) -> None:
        """Write DRAM as it is before a run."""
        device.write(0, self.before)

    def is_right(self, device: Device) -> bool:
        """Tell whether the output is right, every bit."""
        dram = device.read(0, DRAM_BYTES)
        return bool((dram == self.after)[self._span(Window.OUTPUT)].all())

    def strayed(self, device: Device) -> bool:
        """Tell whether anything outside the windows that may be written has changed."""
        changed = device.read(0, DRAM_BYTES) != self.before
        for window in (Window.OUTPUT, Window.SCRATCH):
            changed[self._span(window)] = False
        return bool(changed.any())

    def _span(self, window: Window) -> slice:
        binding = self.job.windows[window]
        return slice(binding.base, binding.base + binding.size)


@cache
def placed(name: str) -> PlacedNetwork:
    """Return one of :data:`NETWORKS` for :data:`SMALL`, with random inputs that the name fixes."""
    program = _program(name)
    device = open_device("golden", SMALL, dram_bytes=DRAM_BYTES)
    session = Session(program, device)
    rng = np.random.default_rng(NETWORKS.index(name))
    inputs = {
        spec.name: rng.integers(0, 100, spec.shape).astype(spec.dtype) for spec in program.inputs
    }
    job = replace(session.job, watchdog=_WATCHDOG)
    assert session.run(inputs).fault is None
    after = device.read(0, DRAM_BYTES)
    before = after.copy()
    for window in (Window.OUTPUT, Window.SCRATCH):
        binding = job.windows[window]
        before[binding.base : binding.base + binding.size] = 0
    return PlacedNetwork(job, before, after)


def placed_run(name: str) -> Run:
    """Return how one of :data:`NETWORKS` runs, as a workload does, on a device of :data:`SMALL`.

    It is exact if every bit of the output is right and nothing else was written; a fault is not.
    """

    def run(device: Device) -> Outcome:
        network = placed(name)
        network.place(device)
        result = device.run(network.job)
        right = result.fault is None and network.is_right(device) and not network.strayed(device)
        return Outcome((), result.counters["cycles"], result.counters, right)

    return run


def _program(name: str) -> Program:
    if name in _FILES:
        (program,) = Model.load(_FILES[name], config=SMALL).programs
        return program
    seed = int(name.removeprefix("drawn "))
    case = random_compilation(Seeded(seed), most=6, largest=300, config=SMALL)
    program = case.compile_if_it_fits()
    assert program is not None, name
    return program
