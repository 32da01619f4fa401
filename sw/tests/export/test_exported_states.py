"""Exported C keeps states: frames on a chip of which the golden machine runs the programs."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.arch.config import Config
from tpulite.arch.memory import WindowBinding
from tpulite.arch.registers import (
    IDENTIFICATION,
    VERSION,
    Control,
    Interrupt,
    Permission,
    offset_of,
)
from tpulite.export import export_files, export_network, reference_runs
from tpulite.export.network import ExportedNetwork
from tpulite.frontend.tflite.file import load_tflite
from tpulite.runtime.device import Job
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.files.streaming import STREAMS, litert_frames

FRAMES, NAME, PAGE = 6, "net", 4096

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)

READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


class Placement(ctypes.Structure):
    """``tpulite_placement``."""

    _fields_ = (
        ("read", READ),
        ("write", WRITE),
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
        self.base = -(-len(network.image) // PAGE) * PAGE
        self.device = GoldenDevice(network.config)
        self.device.write(0, network.image)
        self.registers = {
            offset_of("ID"): IDENTIFICATION,
            offset_of("VERSION"): VERSION,
            offset_of("CONFIG_HASH"): network.config.hash,
        }
        self.placement = Placement(
            READ(lambda _, offset: self.registers.get(offset, 0)),
            WRITE(lambda _, offset, value: self._write(offset, value)),
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


def built(files: tuple[Path, ...], folder: Path) -> ctypes.CDLL:
    """Compile an exported network into a library."""
    sources = [path for path in files if path.suffix == ".c" and path.name != "main.c"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-fPIC", "-shared"]
    library = folder / "network.so"
    subprocess.run(["gcc", *flags, *sources, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def pointers(arrays: list[np.ndarray]) -> ctypes.Array:
    return (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))


@pytest.mark.parametrize("name", ["wake_word", "read_after_write", "delay_of_two", "never_written"])
def test_exported_frames_have_the_librarys_bits(name, tmp_path):
    file = STREAMS[name]()
    model = Model.load(load_tflite(file, name), config=Config())
    (x,) = random_inputs(model.graph, FRAMES, 3).values()
    frames = np.split(x, FRAMES)
    network = export_network(model)
    references = reference_runs(model, {model.graph.inputs[0]: frames[0][None]})
    library = built(export_files(network, references, NAME, tmp_path / "c"), tmp_path)
    exported = ctypes.byref(ctypes.c_char.in_dll(library, f"{NAME}_network"))
    chip, account = Chip(network), ctypes.create_string_buffer(256)
    place = ctypes.byref(chip.placement)
    assert library.tpulite_network_check(exported, place) == 0
    expected = litert_frames(file, frames)
    for _ in range(2):  # begun anew, all is the same
        library.tpulite_network_reset(exported, place)
        for frame, due in zip(frames, expected, strict=True):
            got = [np.zeros_like(each) for each in due]
            arguments = (exported, place, pointers([frame]), pointers(got), account)
            assert library.tpulite_network_run(*arguments) == 0
            for mine, theirs in zip(got, due, strict=True):
                assert mine.tobytes() == theirs.tobytes()
    wrong = ctypes.c_uint32(99)
    selftest = getattr(library, f"{NAME}_selftest")
    assert selftest(place, ctypes.byref(wrong), account) == 0 and wrong.value == 0
