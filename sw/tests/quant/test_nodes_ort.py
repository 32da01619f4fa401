"""Operators as exporters write them, alone in a network: every tensor is ONNX Runtime's.

``TPULITE_SWEEP=400`` draws more cases of each.
"""

import os

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

from tpulite.frontend.onnx.file import RULES
from tpulite.quant.partition import HostSegment, MachineSegment
from tpulite_testing.drawn.onnx_cases import OPERATORS
from tpulite_testing.drawn.onnx_nodes import NODES, node_case
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.model_tensors import equals_library

CASES = max(2, int(os.environ.get("TPULITE_SWEEP", "40")) // 20)


@pytest.mark.parametrize("op", NODES)
def test_an_operator_of_a_file(tmp_path, op):
    for seed in range(CASES):
        model = equals_library(tmp_path, node_case(op, seed), "ort", 2)
        assert model.graph.nodes, f"seed {seed}"


ONE_PROGRAM = [HostSegment, MachineSegment, HostSegment]


EXACT = [
    *("ConvTranspose (powers of two)", "Resize (linear, at pixels)", "ReduceMax"),
    *("Add (by channel)", "Mul (by channel)", "MaxPool (dilated)"),
    "Transpose (windows)",
]


@pytest.mark.parametrize("op", EXACT)
def test_exact_forms_are_the_machines(tmp_path, op):
    for seed in range(CASES):
        model = equals_library(tmp_path, node_case(op, seed), "ort", 2)
        assert [type(segment) for segment in model.segments] == ONE_PROGRAM, f"seed {seed}"


CHAINS = ["Gelu (exported)", "Gelu (tanh, exported)", "HardSwish (exported)", "Mul (SiLU)", "Div"]


@pytest.mark.parametrize("op", CHAINS)
def test_several_operators_on_one_tensor_are_one_function(tmp_path, op):
    placed = []
    for seed in range(3 * CASES):
        model = equals_library(tmp_path, node_case(op, seed), "ort", 2)
        placed.append([type(segment) for segment in model.segments] == ONE_PROGRAM)
    assert sum(placed) > len(placed) / 2


@pytest.mark.parametrize(("shape", "dtype"), [((1, 5, 7, 6), "uint8"), ((1, 18, 9), "int8")])
def test_an_average_pool_of_the_whole_image_is_the_machines(tmp_path, shape, dtype):
    """ONNX Runtime computes it of integers, as a GlobalAveragePool."""
    b = OnnxBuilder()
    x = b.quantize(b.input("x", shape), 0.05, 17, dtype)
    y = b.node("AveragePool", x, kernel_shape=list(shape[2:]))
    model = equals_library(tmp_path, b.build(b.quantize(y, 0.05, 3, dtype)), "ort", 4)
    assert [type(segment) for segment in model.segments] == ONE_PROGRAM


def test_transposed_convolution_between_convolutions(tmp_path):
    b, rng = OnnxBuilder(opset=18), np.random.default_rng(5)
    y = b.quantize(b.input("x", (1, 3, 9, 7)), 2.0**-4, -7)
    for op, shape in (("Conv", (32, 3)), ("ConvTranspose", (32, 20)), ("Conv", (5, 20))):
        values = rng.integers(-127, 128, (*shape, 3, 3)).astype(np.int8)
        options = {"strides": [2, 2]} if op == "ConvTranspose" else {"pads": [1, 1, 1, 1]}
        y = b.node("Relu", b.node(op, y, b.weight(values, 2.0**-10), **options))
        y = b.quantize(y, 2.0**-4, -100)
    model = equals_library(tmp_path, b.build(y), "ort")
    assert [type(segment) for segment in model.segments] == ONE_PROGRAM


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("most", [30, 300])
@pytest.mark.parametrize(("group", "dilation"), [(1, 1), (1, 2), (2, 1), (12, 1), (12, 2)])
def test_weights_with_a_zero_point_for_each_channel(tmp_path, dtype, most, group, dilation):
    rng = np.random.default_rng(most)
    ends, x_scale = np.iinfo(dtype), 0.05

    def conv(b: OnnxBuilder, x: str, made: int, read: int, **flags) -> str:
        weight = rng.integers(ends.min, ends.max + 1, (made, read, 3, 3)).astype(dtype)
        middle = (ends.min + ends.max + 1) // 2
        points = np.clip(rng.integers(-most, most + 1, made) + middle, ends.min, ends.max)
        scales = rng.uniform(0.002, 0.01, made).astype(np.float32)
        weights = b.node("DequantizeLinear", weight, scales, points.astype(dtype), axis=0)
        sums = rng.integers(-3000, 3000, made).astype(np.int32), scales * np.float32(x_scale)
        bias = b.node("DequantizeLinear", *sums, np.zeros(made, np.int32), axis=0)
        return b.node("Conv", x, weights, bias, **flags)

    b = OnnxBuilder()
    y = b.quantize(b.input("x", (1, 12, 9, 8)), x_scale, 117, "uint8")
    flags = {"group": group, "dilations": [dilation] * 2, "strides": [2, 1]}
    y = conv(b, y, 12, 12 // group, pads=[2, 1, 0, 2], **flags)
    model = equals_library(tmp_path, b.build(b.quantize(y, 0.2, 120, "uint8")), "ort", 2)
    exact = group < 12 or dilation == 1
    assert ([type(segment) for segment in model.segments] == ONE_PROGRAM) == exact


def test_every_operator_that_is_read_is_drawn():
    drawn = {name.split(" ")[0].lower() for name in NODES}
    drawn |= {name.replace("_", "") for name in OPERATORS}
    others = {"dequantizelinear", "max", "min", "maxpool", "pow", "quantizelinear", "upsample"}
    assert {name.lower() for name in RULES} - drawn <= others


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_a_dilated_pool_that_pads_itself_is_onnx_runtimes(tmp_path, auto_pad):
    """ONNX Runtime pads as if there were no dilations, and its result is smaller than declared."""
    b = OnnxBuilder(opset=18)
    x = b.quantize(b.input("x", (1, 4, 12, 11)), 0.05, 3)
    options = {"kernel_shape": [3, 3], "dilations": [2, 2], "strides": [2, 1]}
    y = b.node("MaxPool", x, auto_pad=auto_pad, **options)
    model = equals_library(tmp_path, b.build(b.quantize(y, 0.05, -5)), "ort", 2)
    assert [type(segment) for segment in model.segments] == [HostSegment]


@pytest.mark.parametrize("exponent", [2, 3])
def test_an_exponent_of_more_axes_than_its_base_is_onnx_runtimes(tmp_path, exponent):
    b = OnnxBuilder(opset=18)
    x = b.quantize(b.input("x", (5, 7)), 0.05, 3)
    y = b.node("Pow", x, np.full((1, 1, 1), exponent, np.float32))
    model = equals_library(tmp_path, b.build(b.quantize(y, 0.05, -5)), "ort", 2)
    assert [type(segment) for segment in model.segments] == [HostSegment]
