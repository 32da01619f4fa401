"""Single bit flips in the registers and memories of the chip while it runs a network."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from tpulite.arch.registers import RunState, offset_of
from tpulite.runtime.device import FaultReport
from tpulite_tb.machines import SMALL
from tpulite_tb.placed import DRAM_BYTES, NETWORKS, PlacedNetwork, placed
from tpulite_tb.starts import outcome, start
from tpulite_verilated.rtl_device import RtlDevice
from tpulite_verilated.state import StateDevice, Variable

__all__ = ["Fate", "Flip", "components", "flip"]

_PATIENCE = 1_000_000
"""Cycles that a run may take longer than without a flip: 500 times the watchdog."""

_RUN = tuple(name for name in NETWORKS if name != "cnn")
"""What runs; the digits' CNN takes ten times as long as all others."""

_WHOLE = ("load", "store")
"""Blocks that are one component, as their parts are small."""


class Fate(StrEnum):
    """What a flip did to the run."""

    MASKED = "masked"
    """Nothing: no fault, every bit of the output is right."""
    DETECTED = "detected"
    """The chip reported a fault, or refused what the host asked for."""
    SILENT = "silent"
    """No fault, and the output is wrong."""
    MUTE = "mute"
    """No interrupt, but STATUS says that the chip has stopped."""
    HUNG = "hung"
    """No interrupt, and STATUS says that it runs, or the chip answers no more."""


@dataclass(frozen=True)
class Flip:
    """A flip and what came of it."""

    component: str  #: One of :func:`components`.
    variable: Variable  #: The register or memory.
    bit: int  #: Which bit of it.
    network: str  #: What ran.
    cycle: int  #: Between this cycle after START and the next.
    fate: Fate  #: What it did.
    why: str  #: The fault, or what the host noticed.
    strayed: bool  #: Something outside the windows that may be written was written.
    lasting: bool  #: The next run was wrong, and only a full reset helped.


def flip(seed: int) -> Flip:
    """Flip the bit that a seed says, each component as often as any other.

    The chip is new. After the run the host does what hosts do: nothing, a soft reset after a fault,
    a full one if the chip is mute or hung. The network must be right again then, or after a full
    reset at the latest, else AssertionError.
    """
    rng = random.Random(seed)
    names = sorted(components())
    component = names[seed % len(names)]
    variables = components()[component]
    name = rng.choice(_RUN)
    network, usual = placed(name), _cycles(name)
    variable = rng.choices(variables, [each.size for each in variables])[0]
    bit, cycle = rng.randrange(variable.size), rng.randrange(usual)

    device = StateDevice(SMALL, dram_bytes=DRAM_BYTES, max_cycles=usual + _PATIENCE)
    network.place(device)
    start(device, network.job)
    device.step(cycle)
    device.flip(variable, bit)
    fate, why, full = _end(device, network)
    strayed = network.strayed(device)
    if full:
        device.full_reset()
    lasting = not _runs(device, network)
    if lasting:
        device.full_reset()
        assert _runs(device, network), f"A full reset does not help: {variable}, bit {bit}"
    return Flip(component, variable, bit, name, cycle, fate, why, strayed, lasting)


@cache
def components() -> Mapping[str, tuple[Variable, ...]]:
    """Return registers and memories of :data:`SMALL` by the blocks of the chip."""
    found: dict[str, list[Variable]] = {}
    for variable in StateDevice(SMALL, dram_bytes=DRAM_BYTES).variables:
        _, *path = variable.module.split(".")
        parts = [re.sub(r"[_\d]+$", "", part) for part in path[:2]]
        block = parts[0] if parts[0] in _WHOLE else ".".join(parts)
        kind = "memory" if variable.words > 1 else "registers"
        found.setdefault(f"{block} {kind}", []).append(variable)
    return {name: tuple(variables) for name, variables in found.items()}


def _end(device: StateDevice, network: PlacedNetwork) -> tuple[Fate, str, bool]:
    """Finish the run: what came of it, why, and whether the chip needs a full reset."""
    try:
        device.wait()
    except (OSError, ValueError) as error:
        return _without_interrupt(device), str(error), True
    try:
        fault = outcome(device).fault
        if fault is not None and not fault.hung:
            device.reset()
    except (OSError, RuntimeError, ValueError) as error:
        answers = "does not answer" not in str(error)
        return Fate.DETECTED if answers else Fate.HUNG, str(error), True
    if fault is not None:
        return Fate.DETECTED, _told(fault), fault.hung
    return (Fate.MASKED if network.is_right(device) else Fate.SILENT), "", False


def _without_interrupt(device: StateDevice) -> Fate:
    try:
        state = device.read_register(offset_of("STATUS"))
    except OSError:
        return Fate.HUNG
    return Fate.HUNG if state in (RunState.RUNNING, RunState.STOPPING) else Fate.MUTE


def _told(fault: FaultReport) -> str:
    return f"{fault.code.name}{', HUNG' * fault.hung}"


def _runs(device: RtlDevice, network: PlacedNetwork) -> bool:
    """Tell whether it is right once more, with a DRAM that the flip has not seen."""
    network.place(device)
    try:
        result = device.run(network.job)
    except (OSError, RuntimeError, ValueError):
        return False
    return result.fault is None and network.is_right(device) and not network.strayed(device)


@cache
def _cycles(name: str) -> int:
    """Return how long a network runs without a flip."""
    device = StateDevice(SMALL, dram_bytes=DRAM_BYTES)
    network = placed(name)
    network.place(device)
    result = device.run(network.job)
    assert result.fault is None and network.is_right(device) and not network.strayed(device)
    return result.counters["cycles"]
