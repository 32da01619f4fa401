"""Pads of any axis, of tensors of any rank, between quantized operators of ONNX files."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.onnx_static import run_library
from tpulite_testing.quick_options import quick_options

RNG = np.random.default_rng(2024)


def weights(*shape):
    return RNG.integers(-127, 128, shape).astype(np.int8)


def quantized(b, x, scale=0.05, zero_point=120):
    return b.quantize(x, scale, zero_point, "uint8")


def equals_library(b, y, shape):
    """Run a network on the machine and by the library; return the model."""
    data = b.build(y)
    model = Model.load(load_onnx(data, "net"), options=quick_options())
    for _ in range(2):
        x = RNG.normal(0, 2, shape).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x}).output, run_library(data, {"x": x})[0])
    return model


def on_the_cpu(model):
    return {each.operator for each in model.summary() if each.where == "host"}


@pytest.mark.parametrize(
    "pads",
    [
        (0, 0, 2, 1, 0, 0, 3, 0),
        (0, 1, 0, 0, 0, 3, 0, 0),
        (0, 4, 1, 0, 0, 0, 0, 2),
        (0, 0, 0, 0, 0, 0, 0, 0),
    ],
)
@pytest.mark.parametrize("value", [0.0, -0.35, 1.02])
@pytest.mark.parametrize("scale", [0.05, 0.0613])
def test_pads_of_images(pads, value, scale):
    b = OnnxBuilder()
    x = quantized(b, b.input("x", (1, 4, 5, 6)))
    y = b.node("Pad", x, np.array(pads), np.float32(value))
    channels = 4 + pads[1] + pads[5]
    y = b.node("Conv", quantized(b, y, scale), b.weight(weights(3, channels, 2, 2), 0.01))
    model = equals_library(b, quantized(b, y), (1, 4, 5, 6))
    # What a pad adds may be between two integers of its input, and quantized otherwise behind it.
    expressible = scale == 0.05 or value != 1.02
    assert ("Pad" in on_the_cpu(model)) == (not expressible and any(pads))


@pytest.mark.parametrize("pads", [(0, 0, 4, 0, 0, 0), (0, 2, 1, 0, 0, 3), (0, 5, 0, 0, 0, 0)])
def test_pads_before_one_dimensional_convolutions(pads):
    b = OnnxBuilder()
    x = quantized(b, b.input("x", (1, 4, 12)))
    y = quantized(b, b.node("Pad", x, np.array(pads)))
    weight = b.weight(weights(5, 4 + pads[1] + pads[4], 3), 0.01)
    y = quantized(b, b.node("Conv", y, weight, dilations=[2]))
    model = equals_library(b, y, (1, 4, 12))
    assert "Pad" not in on_the_cpu(model)


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (1, 2, 3, 4), (1, 1, 3, 2, 4)])
def test_pads_of_other_ranks(shape):
    b = OnnxBuilder()
    rank = len(shape)
    pads = np.array([*(0,) * (rank - 1), 2, *(0,) * (rank - 2), 1, 0])
    y = b.node("Pad", quantized(b, b.input("x", shape)), pads)
    y = b.node("MatMul", quantized(b, y), b.weight(weights(shape[-1] + 2, 5), 0.01, axis=1))
    model = equals_library(b, quantized(b, y, 0.3), shape)
    assert "Pad" not in on_the_cpu(model)


def test_a_maximum_over_a_pad_of_nothing():
    b = OnnxBuilder()
    x = quantized(b, b.input("x", (1, 4, 5, 6)))
    y = b.node("Pad", x, np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.float32(-np.inf))
    y = b.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2])
    model = equals_library(b, quantized(b, y), (1, 4, 5, 6))
    assert not {"Pad", "MaxPool"} & on_the_cpu(model)
