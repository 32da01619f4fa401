"""Products between quantized tensors are products of integers, whatever the CPU and the outputs."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from tpulite.frontend.onnx.quantized_products import quantize_products

from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.model_tensors import equals_library


def network(seed: int) -> tuple[OnnxBuilder, str]:
    """Return a residual network with activations, pooling and a dense layer, in ordinary scales."""
    b, rng = OnnxBuilder(opset=18), np.random.default_rng(seed)

    def conv(x: str, inputs: int, outputs: int, kernel: int) -> str:
        values = rng.integers(-127, 128, (outputs, inputs, kernel, kernel)).astype(np.int8)
        bias = rng.normal(size=outputs).astype(np.float32)
        return b.node("Conv", x, b.weight(values, 0.0071), bias, pads=[kernel // 2] * 4)

    x = b.quantize(b.input("x", (1, 3, 8, 8)), 0.0517, 3)
    first = b.quantize(b.node("Relu", conv(x, 3, 16, 3)), 0.0519, 3)
    second = b.quantize(b.node("Relu", conv(first, 16, 16, 1)), 0.0513, -128)
    both = b.quantize(b.node("Add", first, second), 0.0917, 5)
    pixel = b.quantize(b.node("GlobalAveragePool", both), 0.0317, 5)
    flat = b.quantize(b.node("Flatten", pixel), 0.0317, 5)
    weight = b.weight(rng.integers(-127, 128, (5, 16)).astype(np.int8), 0.0097)
    y = b.quantize(b.node("Gemm", flat, weight, transB=1), 0.0219, 7)
    matrix = b.weight(rng.integers(-127, 128, (5, 4)).astype(np.int8), 0.0093)
    return b, b.quantize(b.node("MatMul", y, matrix), 0.0311, 1)


@pytest.mark.parametrize("seed", range(3))
def test_every_tensor_of_a_network_is_the_librarys(tmp_path, seed):
    b, y = network(seed)
    equals_library(tmp_path, b.build(y), "ort", 20)


def test_what_becomes_a_product_of_integers():
    b, y = network(0)
    model = onnx.load_model_from_string(b.build(y))
    quantize_products(model)
    ops = [node.op_type for node in model.graph.node]
    assert [op for op in ops if op.startswith("Q") and op != "QuantizeLinear"] == [
        *("QLinearConv", "QLinearConv", "QGemm", "QLinearMatMul")
    ]
    onnx.checker.check_model(model)


def test_products_whose_floats_are_needed_stay():
    b, y = network(0)
    product = next(node for node in b.nodes if node.op_type == "MatMul").output[0]
    for kept, outputs in (((product,), (y,)), ((), (y, product))):
        model = onnx.load_model_from_string(b.build(*outputs))
        quantize_products(model, kept)
        assert "MatMul" in [node.op_type for node in model.graph.node]
