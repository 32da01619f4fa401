"""Scales near zero, zero and below: constant channels, or the library; never a refusal."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.partition import MachineSegment
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.onnx_static import run_library
from tpulite_testing.quick_options import quick_options

RNG = np.random.default_rng(2024)
X = RNG.normal(0, 1, (1, 4, 6, 6)).astype(np.float32)


def equals_library(data):
    """Run a file on the machine and by the library; return the model."""
    model = Model.load(load_onnx(data, "net"), options=quick_options())
    np.testing.assert_array_equal(model.run({"x": X}).output, run_library(data, {"x": X})[0])
    return model


@pytest.mark.parametrize("scale", [1e-20, 1e-38, 1e-42])
def test_a_channel_whose_weights_have_a_scale_near_zero_is_constant(scale):
    b = OnnxBuilder()
    x = b.quantize(b.input("x", X.shape), 0.02, 3, "uint8")
    weight = RNG.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8)
    y = b.node("Conv", x, b.weight(weight, [0.01, scale, 0.02]))
    model = equals_library(b.build(b.quantize(y, 0.1, 7, "uint8")))
    assert any(isinstance(segment, MachineSegment) for segment in model.segments)


@pytest.mark.parametrize("scale", [-0.05, 0.0])
def test_what_no_scale_should_be_is_the_librarys(scale):
    b = OnnxBuilder()
    x = b.quantize(b.input("x", X.shape), scale, 3)
    y = b.node("MaxPool", x, kernel_shape=[2, 2])
    weight = RNG.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8)
    y = b.node("Conv", b.quantize(y, 0.1, 7), b.weight(weight, 0.01))
    model = equals_library(b.build(b.quantize(y, 0.1, 7)))
    assert model.host_macs == 0


@pytest.mark.parametrize("reader", ["dequantize", "conv", "relu"])
def test_who_takes_integers_for_others_than_were_written_is_the_librarys(reader):
    b = OnnxBuilder()
    written, read, step = np.float32(0.1), np.float32(0.07), np.float32(0.02)
    conv = (RNG.integers(-9, 10, (4, 4, 3, 3)).astype(np.int8), step, np.int8(0))
    x = b.node("QuantizeLinear", b.input("x", X.shape), written, np.int8(1))
    y = b.node("QLinearConv", x, written, np.int8(1), *conv, written, np.int8(0), pads=[1] * 4)
    if reader == "conv":
        y = b.node("QLinearConv", y, read, np.int8(3), *conv, read, np.int8(3), pads=[1] * 4)
    elif reader == "relu":
        y = b.node("Relu", y)
    model = equals_library(
        b.build(b.node("DequantizeLinear", y, read, np.int8(3)), dtype="float32")
    )
    assert any(isinstance(segment, MachineSegment) for segment in model.segments)
