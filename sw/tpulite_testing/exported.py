"""Exported networks on a chip of which the golden machine runs the programs."""

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np

from tpulite.arch.memory import PAGE_BYTES, WindowBinding
from tpulite.arch.registers import (
    IDENTIFICATION,
    VERSION,
    Control,
    Interrupt,
    Permission,
    offset_of,
)
from tpulite.export.network import ExportedNetwork
from tpulite.runtime.device import Job
from tpulite.runtime.golden_device import GoldenDevice

__all__ = ["Chip", "built", "pointers", "selftest_on_pc", "sources_of"]

_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


class _Placement(ctypes.Structure):
    """``tpulite_placement``."""

    _fields_ = (
        ("read", _READ),
        ("write", _WRITE),
        ("context", ctypes.c_void_p),
        ("image_address", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
        ("memory_address", ctypes.c_uint64),
        ("polls", ctypes.c_uint32),
        ("watchdog", ctypes.c_uint32),
        ("clean", ctypes.c_void_p),
        ("invalidate", ctypes.c_void_p),
    )


class Chip:
    """Registers of a chip beside a memory that it shares with the C."""

    def __init__(self, network: ExportedNetwork) -> None:
        self.memory = np.full(network.memory_bytes, 0x55, np.uint8)  # of an earlier use
        self.base = -(-len(network.image) // PAGE_BYTES) * PAGE_BYTES
        self.device = GoldenDevice(network.config)
        self.device.write(0, network.image)
        self.registers = {
            offset_of("ID"): IDENTIFICATION,
            offset_of("VERSION"): VERSION,
            offset_of("CONFIG_HASH"): network.config.hash,
        }
        self.placement = _Placement(
            _READ(lambda _, offset: self.registers.get(offset, 0)),
            _WRITE(lambda _, offset, value: self._write(offset, value)),
            None,
            0,
            self.memory.ctypes.data,
            self.base,
            1,
            0,
            None,
            None,
        )

    def _write(self, offset: int, value: int) -> None:
        self.registers[offset] = value
        if offset == offset_of("IRQ_STATUS"):
            self.registers[offset] = 0
        elif offset == offset_of("CONTROL") and value == Control.START:
            self._run()

    def _run(self) -> None:
        def of(name: str) -> int:
            return self.registers.get(offset_of(name), 0)

        windows = tuple(
            WindowBinding(
                of(f"WINDOW{i}_LOW"),
                of(f"WINDOW{i}_SIZE"),
                read=bool(of(f"WINDOW{i}_PERMISSION") & Permission.READ),
                write=bool(of(f"WINDOW{i}_PERMISSION") & Permission.WRITE),
            )
            for i in range(4)
        )
        self.device.write(self.base, self.memory)
        assert self.device.run(Job(of("PROGRAM_LOW"), of("PROGRAM_LENGTH"), windows)).fault is None
        self.memory[:] = self.device.read(self.base, self.memory.size)
        self.registers[offset_of("IRQ_STATUS")] = int(Interrupt.DONE)


def sources_of(files: tuple[Path, ...]) -> list[Path]:
    """Return the C sources of an exported network, without those that have a ``main``."""
    programs = ("main.c", "selftest.c")
    return [path for path in files if path.suffix == ".c" and path.name not in programs]


def built(files: tuple[Path, ...], folder: Path) -> ctypes.CDLL:
    """Compile an exported network into a library."""
    sources = sources_of(files)
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-fPIC", "-shared"]
    library = folder / "network.so"
    subprocess.run(["gcc", *flags, *sources, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def selftest_on_pc(folder: Path) -> tuple[int, str]:
    """Run `make selftest` in an exported folder; return its exit code and what it says."""
    # A make that runs these tests would have this one name its folders, too.
    inherited = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    alone = {name: value for name, value in os.environ.items() if name not in inherited}
    done = subprocess.run(
        ["make", "selftest"], cwd=folder, env=alone, capture_output=True, text=True
    )
    assert "warning" not in done.stderr, done.stderr
    said = done.stdout.splitlines()[-1] if "#error" not in done.stderr else done.stderr
    return done.returncode, " ".join(said.split())


def pointers(arrays: list[np.ndarray]) -> ctypes.Array:
    """Return the addresses of arrays, which the caller keeps."""
    return (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))
