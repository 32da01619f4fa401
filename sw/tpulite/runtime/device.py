"""What a device is to the software: DRAM, and a machine that runs a program lying there.

Devices are found through the entry-point group ``tpulite.devices``: the golden machine is
``golden``, the Verilated chip ``rtl``, and a board driver can join them the same way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from typing import Protocol, runtime_checkable

import numpy as np

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.memory import Window, WindowBinding
from tpulite.arch.registers import Fault
from tpulite.near import no_such
from tpulite.needs import install_command

__all__ = [
    "Device",
    "FaultReport",
    "Job",
    "RunResult",
    "Tracing",
    "Watched",
    "device_names",
    "open_device",
    "require_device",
]


_EXTRAS = {"rtl": "rtl", "litex": "litex"}
"""Extras of tpulite that bring what its own devices import."""


@dataclass(frozen=True)
class Job:
    """A program in DRAM and the windows that it may use.

    Parameters
    ----------
    program_address : int
        Address of the first command, a multiple of 16.
    program_length : int
        Number of commands.
    windows : tuple of WindowBinding
        One binding a window.
    watchdog : int
        Cycles without progress that are a fault; 0 never. Progress is a command that enters its
        queue, a beat or response on AXI, a row of the unified buffer, or a vector that enters the
        array. Beside the memory's latency, 2,000 suffice for any legal program.
    """

    program_address: int
    program_length: int
    windows: tuple[WindowBinding, ...]
    watchdog: int = 1_000_000
    resident: tuple[tuple[int, int], ...] = ()

    @property
    def constants(self) -> tuple[range, range]:
        """Addresses of what a run only reads and nobody changes: constants and commands."""
        window = self.windows[Window.CONSTANTS]
        stop = self.program_address + COMMAND_BYTES * self.program_length
        return range(window.base, window.base + window.size), range(self.program_address, stop)


@dataclass(frozen=True)
class FaultReport:
    """Why a run stopped: code, index of the command, address (see :class:`Fault`)."""

    code: Fault
    index: int
    address: int
    hung: bool = False


@dataclass(frozen=True)
class RunResult:
    """What a run left in the registers; ``counters`` is empty where a device has no clock."""

    fault: FaultReport | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


class Device(Protocol):
    """A machine with its DRAM. Addresses count from 0 to ``dram_bytes``."""

    config: Config
    dram_bytes: int

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy bytes into DRAM; ValueError if they do not fit."""
        ...

    def read(self, address: int, size: int) -> np.ndarray:
        """Return ``size`` bytes of DRAM as a fresh uint8 array; ValueError if outside."""
        ...

    def run(self, job: Job) -> RunResult:
        """Run a program to its END or its fault; the buffer keeps its contents between runs."""
        ...

    def reset(self) -> None:
        """Soft reset: leave QUIESCED, be ready for the next program."""
        ...


@runtime_checkable
class Tracing(Protocol):
    """A device that can record what its engines do; ``trace`` says whether it does."""

    trace: bool


@runtime_checkable
class Watched(Protocol):
    """A device whose runs take long, and that tells now and then how many cycles have passed."""

    watch: Callable[[int], None] | None


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """Return the installed devices by name; finding them reads the metadata of all packages."""
    return {entry.name: entry for entry in reversed(entry_points(group="tpulite.devices"))}


def device_names() -> list[str]:
    """Return the names of the installed devices."""
    return sorted(_installed())


def require_device(name: str) -> None:
    """Do nothing if there is such a device; what follows a colon is its address.

    Raises
    ------
    ValueError
        If no installed package provides it, or a package that it imports is missing.
    """
    if (kind := name.partition(":")[0]) not in device_names():
        raise ValueError(no_such("device", kind, device_names()))
    _maker(kind)


def _maker(kind: str) -> Callable[..., Device]:
    """Return what makes a device; its packages may be missing."""
    try:
        return _installed()[kind].load()
    except ImportError as error:
        extra = _EXTRAS.get(kind)
        remedy = install_command(extra) if extra else f"the package {error.name}"
        raise ValueError(f"Device {kind!r} needs: {remedy}") from error


def open_device(name: str, config: Config, **options: object) -> Device:
    """Create a device by name: ``golden``, or ``NAME:ADDRESS``, which passes on an ``address``.

    A device that does not simulate DRAM gets no ``timing``.

    Raises
    ------
    ValueError
        If no installed package provides it, or it takes no address.
    """
    require_device(name)
    kind, _, address = name.partition(":")
    create = _maker(kind)
    takes = signature(create).parameters
    if "timing" not in takes:
        options.pop("timing", None)
    if address and "address" not in takes:
        raise ValueError(f"Device {kind!r} takes no address, as in {name!r}")
    return create(config, **options | ({"address": address} if address else {}))
