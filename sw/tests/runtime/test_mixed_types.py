"""ONNX files that mix int8 and uint8, with LiteRT's numerics, whose operators have one type."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite.runtime.oracles.litert_onnx import open_litert_of_onnx
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.quick_options import quick_options

BOTH = ("int8", "uint8")
RNG = np.random.default_rng(5)


def checked(data: bytes, exact: str = "litert-ref") -> Model:
    """Compare a file with LiteRT's kernels; return the model."""
    graph = load_onnx(data, "net")
    model = Model.load(graph, exact=exact, options=quick_options())
    inputs = [random_inputs(graph, 1, seed) for seed in range(2)]
    compared = compare_model(model, open_litert_of_onnx(graph, exact), inputs)
    assert compared.same and compared.elements, str(compared)
    return model


def activation(b: OnnxBuilder, y: str, scale: float, dtype: str, zero: int = 3) -> str:
    return b.quantize(y, scale, zero + 128 * (dtype == "uint8"), dtype)


def weight(b: OnnxBuilder, shape, dtype: str, axis: int | None, zero: int = 0, most=120) -> str:
    """Return weights, with scales of channels if an axis is given."""
    zero += 128 * (dtype == "uint8")
    integers = (RNG.integers(-most, most + 1, shape) + zero).astype(dtype)
    if axis is None:
        return b.node("DequantizeLinear", integers, np.float32(0.004), np.array(zero, dtype))
    scales = RNG.uniform(0.002, 0.01, shape[axis]).astype(np.float32)
    return b.weight(integers, scales, axis, zero)


EXACT = {"conv": "litert-ref", "depthwise": "litert-opt", "groups": "litert-ref"}


@pytest.mark.parametrize("op", ["conv", "depthwise", "groups", "gemm", "matmul", "transposed"])
def test_types_of_activations_and_weights_may_differ(op):
    b, groups = OnnxBuilder(opset=18), {"depthwise": 8, "groups": 2}.get(op, 1)
    images, ends = op in EXACT, []
    x = b.input("x", (1, 8, 4, 4) if images else (1, 3, 16) if op != "gemm" else (3, 16))
    for given, made, kind, axis in product(BOTH, BOTH, BOTH, (None, 0)):
        y = activation(b, x, 0.05, given)
        if images:
            w = weight(b, (8, 8 // groups, 3, 3), kind, axis)
            y = b.node("Conv", y, w, pads=[1] * 4, group=groups)
        elif op == "gemm":
            y = b.node("Gemm", y, weight(b, (12, 16), kind, axis), transB=1)
        elif op == "matmul":
            y = b.node("MatMul", y, weight(b, (16, 12), kind, None if axis is None else 1))
        else:
            w = b.node("Transpose", weight(b, (12, 16), kind, axis), perm=[1, 0])
            y = b.node("MatMul", y, w)
        ends.append(activation(b, y, 0.2, made))
    model = checked(b.build(*ends), EXACT.get(op, "litert-xnnpack"))
    assert (model.cpu_share, len(model.programs)) == (0, 1)


@pytest.mark.parametrize("op", ["conv", "depthwise", "gemm"])
def test_weights_lose_zero_points_that_litert_lacks(op):
    b, ends = OnnxBuilder(opset=18), []
    x = b.input("x", (1, 8, 4, 4)[: 4 if op != "gemm" else 2])
    shape = {"conv": (8, 8, 3, 3), "depthwise": (8, 1, 3, 3), "gemm": (12, 8)}[op]
    for kind, axis in product(BOTH, (None, 0)):
        w, y = weight(b, shape, kind, axis, 9, 100), activation(b, x, 0.05, "int8")
        if op == "gemm":
            y = b.node("Gemm", y, w, transB=1)
        else:
            y = b.node("Conv", y, w, group=8 // shape[1])
        ends.append(activation(b, y, 0.2, "int8"))
    assert checked(b.build(*ends)).cpu_share == 0


def test_weights_whose_zero_points_int8_cannot_lose_run_on_the_cpu():
    b = OnnxBuilder(opset=18)
    y = activation(b, b.input("x", (1, 8, 4, 4)), 0.05, "int8")
    w = b.weight(RNG.integers(0, 256, (8, 8, 3, 3)).astype(np.uint8), 0.004, zero_point=90)
    model = checked(b.build(activation(b, b.node("Conv", y, w), 0.2, "int8")))
    assert model.cpu_share == 1


def test_unsigned_weights_of_unsigned_activations_keep_their_zero_points():
    b = OnnxBuilder(opset=18)
    y = activation(b, b.input("x", (1, 8, 4, 4)), 0.05, "uint8")
    integers = RNG.integers(0, 256, (8, 8, 3, 3)).astype(np.uint8)
    w = b.node("DequantizeLinear", integers, np.float32(0.004), np.uint8(90))
    model = checked(b.build(activation(b, b.node("Conv", y, w), 0.2, "uint8")))
    assert model.cpu_share == 0


def mixed_network(*, floats: bool) -> bytes:
    """Return a network of both types that reads and makes uint8, perhaps with floats between."""
    b = OnnxBuilder(opset=18)
    scale, zero = np.float32(0.05), np.uint8(140)
    x = b.node("DequantizeLinear", b.input("x", (1, 8, 6, 6), "uint8"), scale, zero)
    y = b.node("Conv", x, weight(b, (8, 8, 3, 3), "int8", 0), pads=[1] * 4)
    y = activation(b, b.node("Relu", y), 0.1, "uint8", -128)
    y = b.node("Pad", y, np.array([0, 0, 1, 1, 0, 0, 0, 0]), np.float32(0.3))
    y = activation(b, y, 0.1, "uint8", -128)
    y = b.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = activation(b, y, 0.07, "uint8", -9)
    if floats:
        scales = np.array([1, 1, 1.5, 1.5], np.float32)
        y = activation(b, b.node("Resize", y, "", scales, mode="cubic"), 0.07, "uint8", -9)
    z = b.node("Conv", y, weight(b, (8, 8, 1, 1), "uint8", 0))
    z = activation(b, z, 0.2, "int8")
    y = activation(b, b.node("Concat", y, z, axis=1), 0.2, "int8", 20)
    y = activation(b, b.node("Conv", y, weight(b, (8, 16, 1, 1), "uint8", None)), 0.2, "int8")
    y = b.node("Add", y, z)
    y = b.node("QuantizeLinear", y, np.float32(0.3), np.uint8(100))
    return b.build(y, dtype="uint8")


@pytest.mark.parametrize("floats", [False, True])
def test_networks_of_both_types_read_and_make_what_the_file_says(tmp_path, floats):
    model = checked(mixed_network(floats=floats))
    if not floats:
        assert model.cpu_share == 0
    x = RNG.integers(0, 256, (1, 8, 6, 6)).astype(np.uint8)
    made = model.run({"x": x}).output
    assert made.dtype == np.uint8
    save_model(model.compile(), tmp_path / "net.tpulite")
    again = load_model_file(tmp_path / "net.tpulite")
    np.testing.assert_array_equal(again.run({"x": x}).output, made)
