"""Exported C keeps states: frames on a chip of which the golden machine runs the programs."""

import ctypes
import shutil

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.arch.config import Config
from tpulite.export import export_files, export_network, reference_runs
from tpulite.frontend.tflite.file import load_tflite
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.exported import Chip, built, pointers, selftest_on_pc
from tpulite_testing.files.recurrent import Lstm, add_lstm
from tpulite_testing.files.streaming import STREAMS, litert_frames
from tpulite_testing.files.tflite_builder import Builder

FRAMES, NAME = 6, "net"

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)


def check_frames(model, frames, expected, tmp_path):
    """Run frames by exported C on a chip; check the results and the self-test."""
    network = export_network(model)
    references = reference_runs(model, {model.graph.inputs[0]: frames[0][None]})
    library = built(export_files(network, references, NAME, tmp_path / "c"), tmp_path)
    exported = ctypes.byref(ctypes.c_char.in_dll(library, f"{NAME}_network"))
    chip, account = Chip(network), ctypes.create_string_buffer(256)
    place = ctypes.byref(chip.placement)
    assert library.tpulite_network_check(exported, place) == 0
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
    code, said = selftest_on_pc(tmp_path / "c")
    assert code == 0 and "passed" in said


@pytest.mark.parametrize("name", ["wake_word", "read_after_write", "delay_of_two", "never_written"])
def test_exported_frames_have_the_librarys_bits(name, tmp_path):
    file = STREAMS[name]()
    model = Model.load(load_tflite(file, name), config=Config())
    (x,) = random_inputs(model.graph, FRAMES, 3).values()
    frames = np.split(x, FRAMES)
    check_frames(model, frames, litert_frames(file, frames), tmp_path)


@pytest.mark.parametrize(
    "form",
    [
        Lstm(9, clip=0.5),
        Lstm(7, coupled=True, power=-9),
        Lstm(6, peephole=True, power=-15),
        Lstm(6, coupled=True, peephole=True, time_major=True),
    ],
)
def test_exported_lstms_have_the_librarys_bits(form, tmp_path):
    b = Builder()
    x = b.input((1, 4, 10) if not form.time_major else (4, 2, 10), 1 / 100, -5)
    file = b.build(add_lstm(b, x, form, np.random.default_rng(form.cells)))
    model = Model.load(load_tflite(file, NAME), config=Config())
    (values,) = random_inputs(model.graph, FRAMES, 3).values()
    frames = np.split(values, FRAMES)
    check_frames(model, frames, litert_frames(file, frames), tmp_path)
