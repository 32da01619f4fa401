"""Weights that several convolutions share: exporters write an Identity for each other use."""

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
SHAPE = (1, 3, 8, 8)


@pytest.mark.parametrize("again", [False, True])
def test_both_convolutions_run_on_the_machine(again):
    b = OnnxBuilder()
    integers = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    weight = b.weight(integers, [0.01, 0.02, 0.015, 0.03])
    results = []
    for index, each in enumerate((weight, b.node("Identity", weight))):
        if index and again:  # the quantizer takes what an Identity computes for an activation
            each = b.quantize(each, 0.04, 130, "uint8")
        x = b.quantize(b.input(f"x{index}", SHAPE), 0.02, 3, "uint8")
        results.append(b.quantize(b.node("Conv", x, each), 0.1, 7, "uint8"))
    data = b.build(b.node("Concat", *results, axis=1))
    model = Model.load(load_onnx(data, "net"), options=quick_options())
    assert [node.op for node in model.graph.nodes].count("conv") == 2
    assert model.host_macs == 0
    inputs = {name: RNG.normal(0, 1, SHAPE).astype(np.float32) for name in model.graph.inputs}
    np.testing.assert_array_equal(model.run(inputs).output, run_library(data, inputs)[0])


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_square_weights_are_read_plain_and_transposed(op):
    """As tied weights: of an embedding and a head, or of an encoder and its decoder."""
    b = OnnxBuilder()
    weight = b.weight(RNG.integers(-127, 128, (16, 16)).astype(np.int8), 0.01)
    shape = (1, 3, 16) if op == "MatMul" else (3, 16)
    y = b.quantize(b.input("x", shape), 0.02, 3, "uint8")
    for transposed in (False, True, False):
        if op == "Gemm":
            y = b.node("Gemm", y, weight, transB=int(transposed))
        else:
            turned = b.node("Transpose", weight, perm=[1, 0]) if transposed else weight
            y = b.node("MatMul", y, turned)
        y = b.quantize(y, 0.05, 128, "uint8")
    data = b.build(y)
    model = Model.load(load_onnx(data, "net"), options=quick_options())
    assert model.host_macs == 0
    inputs = {"x": RNG.normal(0, 1, shape).astype(np.float32)}
    np.testing.assert_array_equal(model.run(inputs).output, run_library(data, inputs)[0])


def test_convolutions_forwards_and_backwards_share_weights():
    b = OnnxBuilder()
    weight = b.weight(RNG.integers(-127, 128, (3, 3, 3, 3)).astype(np.int8), 0.01)
    y = b.quantize(b.input("x", SHAPE), 0.02, 3)
    for op in ("Conv", "ConvTranspose", "Conv"):
        y = b.quantize(b.node(op, y, weight, pads=[1] * 4), 0.05, 3)
    graph = load_onnx(b.build(y), "net")
    weights = [graph.tensors[node.inputs[1]] for node in graph.nodes if len(node.inputs) > 1]
    first, second, third = (np.asarray(each.data) for each in weights)
    np.testing.assert_array_equal(second, first.transpose(3, 1, 2, 0))
    np.testing.assert_array_equal(third, first)
