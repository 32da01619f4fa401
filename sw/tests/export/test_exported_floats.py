"""Exported C has ONNX Runtime's bits where its floats lie between products of the chip."""

import ctypes
import shutil

import numpy as np
import pytest

from tpulite_testing.oracles.onnx_session import open_onnx

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.arch.config import Config
from tpulite.export import Sizes, export_files, export_network, reference_runs
from tpulite.frontend.onnx.file import load_onnx
from tpulite.runtime.model import Model
from tpulite_testing.exported import Chip, built, pointers, selftest_on_pc
from tpulite_testing.files.onnx_builder import OnnxBuilder


def network(rng):
    """Return a file: convolution, average pooling, dense layer, softmax, its result as floats."""
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 3, 9, 10)), 0.02, 128, "uint8")
    weight = b.weight(rng.integers(-127, 128, (8, 3, 2, 3)).astype(np.int8), 0.01)
    y = b.quantize(b.node("Relu", b.node("Conv", x, weight)), 0.031, 0, "uint8")
    y = b.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = b.node("Flatten", b.quantize(y, 0.031, 0, "uint8"))
    weight = b.weight(rng.integers(-127, 128, (128, 10)).astype(np.int8), 0.004)
    y = b.quantize(b.node("MatMul", b.quantize(y, 0.031, 0, "uint8"), weight), 0.05, 120, "uint8")
    y = b.quantize(b.node("Softmax", y, axis=-1), 1 / 256, 0, "uint8")
    return b.build(y, dtype="float32")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)")
def test_pooling_and_softmax_have_the_librarys_bits(tmp_path):

    rng = np.random.default_rng(8)
    data = network(rng)
    whole = Model.load(load_onnx(data, "net"), config=Config())
    x = rng.normal(0, 1, (4, 1, 3, 9, 10)).astype(np.float32)
    portable = whole.without_library()
    references = reference_runs(whole, {"x": x[:1]}, portable)
    exported = export_network(portable)
    sizes = Sizes.of(exported)
    assert min(sizes.image_padding, sizes.memory_padding) >= 0
    files = export_files(exported, references, "net", tmp_path / "c")
    library = built(files, tmp_path)
    chip, account = Chip(exported), ctypes.create_string_buffer(256)
    place = ctypes.byref(chip.placement)
    session = open_onnx(data)
    for one in x:
        (due,) = session.run(None, {"x": one})
        got = np.zeros_like(due)
        network_of_c = ctypes.byref(ctypes.c_char.in_dll(library, "net_network"))
        arguments = (network_of_c, place, pointers([one]), pointers([got]), account)
        assert library.tpulite_network_run(*arguments) == 0
        np.testing.assert_array_equal(got, due)
    wrong = ctypes.c_uint32(99)
    assert library.net_selftest(place, ctypes.byref(wrong), account) == 0 and wrong.value == 0
    assert len(whole.programs) == 1 and len(portable.programs) == 2
    passed = "net: passed, every byte is right (2 programs of the chip replayed)"
    assert selftest_on_pc(tmp_path / "c") == (0, passed)
