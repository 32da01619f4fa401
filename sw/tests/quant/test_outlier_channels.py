"""Channels before an activation that are far larger than the others."""

import itertools

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import helper, numpy_helper

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.outliers import split_outliers
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

WIDTH, HIDDEN, TOKENS = 24, 256, 12


def gelu(b: OnnxBuilder, x: str) -> str:
    one, root = np.float32(1), np.float32(2**0.5)
    curve = b.node("Add", b.node("Erf", b.node("Div", x, root)), one)
    return b.node("Mul", b.node("Mul", x, curve), np.float32(0.5))


def gelu_of_matrices(b: OnnxBuilder, x: str) -> str:
    """Return what exporters write that keep the axes of constants."""
    root, one, half = (np.full((1, 1), value, np.float32) for value in (2**0.5, 1, 0.5))
    curve = b.node("Add", b.node("Erf", b.node("Div", x, root)), one)
    return b.node("Mul", b.node("Mul", x, curve), half)


def tangent(b: OnnxBuilder, x: str) -> str:
    cube = b.node("Mul", b.node("Pow", x, np.float32(3)), np.float32(0.044715))
    inner = b.node("Mul", b.node("Add", x, cube), np.float32((2 / np.pi) ** 0.5))
    curve = b.node("Add", b.node("Tanh", inner), np.float32(1))
    return b.node("Mul", b.node("Mul", x, np.float32(0.5)), curve)


HALF = np.float32(0.5)
CURVES = {
    "GELU": gelu,
    "GELU of constants with axes": gelu_of_matrices,
    "GELU by a tangent": tangent,
    "SiLU": lambda b, x: b.node("Mul", x, b.node("Sigmoid", x)),
    "HardSwish": lambda b, x: b.node("HardSwish", x),
    "half of SiLU": lambda b, x: b.node("Mul", b.node("Mul", x, b.node("Sigmoid", x)), HALF),
}
OTHERS = {
    "Tanh": lambda b, x: b.node("Tanh", x),
    "Sigmoid": lambda b, x: b.node("Sigmoid", x),
}


def network(curve, *, large: float = 8.0, transposed: bool = False) -> tuple[bytes, list[dict]]:
    """Two dense layers, the activation between; three channels are larger than the others."""
    rng = np.random.default_rng(7)
    first = rng.normal(size=(WIDTH, HIDDEN)).astype(np.float32) / WIDTH**0.5
    first[:, [3, 100, 200]] *= np.array([large, large / 2, large / 3], np.float32)
    last = rng.normal(size=(HIDDEN, 10)).astype(np.float32) / HIDDEN**0.5
    biases = [rng.normal(size=count).astype(np.float32) / 4 for count in (HIDDEN, 10)]
    b = OnnxBuilder(opset=17)
    x = b.input("x", (TOKENS, WIDTH))
    side = {"transB": 1} if transposed else {}
    first, last = (x.T.copy() if transposed else x for x in (first, last))
    x = curve(b, b.node("Gemm", x, first, biases[0], **side))
    data = b.build(b.node("Gemm", x, last, biases[1], **side))
    return data, [{"x": rng.normal(size=(TOKENS, WIDTH)).astype(np.float32)} for _ in range(24)]


def hidden_channels(model) -> int:
    """Return how many columns the first product has."""
    first = next(x for x in model.graph.node if x.op_type == "Gemm")
    weight = next(x for x in model.graph.initializer if x.name == first.input[1])
    return max(weight.dims)


def split(data: bytes, feeds: list[dict]):
    model = onnx.load_model_from_string(data)
    split_outliers(model, feeds)
    return model


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", CURVES)
def test_several_clipped_channels_are_what_a_large_one_was(name, transposed):
    data, feeds = network(CURVES[name], transposed=transposed)
    model = split(data, feeds)
    assert HIDDEN < hidden_channels(model) <= HIDDEN + 16
    for feed in feeds[:6]:
        wanted, found = (run_onnx(each, feed["x"])[0] for each in (data, model.SerializeToString()))
        assert np.abs(wanted - found).max() < 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize("name", CURVES)
def test_what_an_activation_reads_is_clipped_far_below_the_largest_number(name):
    data, feeds = network(CURVES[name])
    model = split(data, feeds)
    clip = next(x for x in model.graph.node if x.op_type == "Clip")
    values = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    low, top = (float(values[x]) for x in clip.input[1:])
    largest = max(float(first_product(data, feed).max()) for feed in feeds)
    assert top < largest / 2
    assert -12 < low < -2


def first_product(data: bytes, feed: dict) -> np.ndarray:
    model = onnx.load_model_from_string(data)
    name = next(x.output[0] for x in model.graph.node if x.op_type == "Gemm")
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(name, 1, None))
    return run_onnx(model.SerializeToString(), feed["x"])[0]


@pytest.mark.parametrize("name", OTHERS)
def test_other_activations_stay_as_they_are(name):
    data, feeds = network(OTHERS[name])
    assert split(data, feeds).SerializeToString() == data


def test_channels_of_like_size_stay_one_each():
    data, feeds = network(gelu, large=1.0)
    assert hidden_channels(split(data, feeds)) == HIDDEN


def test_a_layer_behind_one_that_was_split_is_split_as_well():
    rng = np.random.default_rng(7)
    b = OnnxBuilder(opset=17)
    x = b.input("x", (TOKENS, WIDTH))
    widths = (WIDTH, HIDDEN, HIDDEN, 10)
    for count, made in itertools.pairwise(widths):
        weight = rng.normal(size=(count, made)).astype(np.float32) / count**0.5
        weight[:, 3] *= 8
        x = b.node("Gemm", x, weight, rng.normal(size=made).astype(np.float32) / 4)
        x = gelu(b, x) if made == HIDDEN else x
    data = b.build(x)
    feeds = [{"x": rng.normal(size=(TOKENS, WIDTH)).astype(np.float32)} for _ in range(24)]
    model = split(data, feeds)
    shapes = {each.name: each.dims for each in model.graph.initializer}
    first, second, _ = (shapes[x.input[1]] for x in model.graph.node if x.op_type == "Gemm")
    assert first[1] > HIDDEN
    assert second[0] == first[1]
    assert second[1] > HIDDEN
    for feed in feeds[:6]:
        wanted, found = (run_onnx(each, feed["x"])[0] for each in (data, model.SerializeToString()))
        assert np.abs(wanted - found).max() < 0.02 * np.abs(wanted).max()


def test_pairs_do_not_replace_numbers_for_which_the_activation_is_no_line():
    """GELU differs from a line by 0.17 near one, where small numbers are large."""
    rng = np.random.default_rng(7)
    data, _ = network(gelu)
    model = onnx.load_model_from_string(data)
    first = next(x for x in model.graph.node if x.op_type == "Gemm")
    for each in model.graph.initializer:
        if each.name in first.input:
            small = numpy_helper.to_array(each) / np.float32(5)
            each.CopyFrom(numpy_helper.from_array(small, each.name))
    data = model.SerializeToString()
    feeds = [{"x": rng.normal(size=(TOKENS, WIDTH)).astype(np.float32)} for _ in range(24)]
    changed = split(data, feeds).SerializeToString()
    for feed in feeds[:6]:
        wanted, found = (run_onnx(each, feed["x"])[0] for each in (data, changed))
        assert np.abs(wanted - found).max() < 0.01 * np.abs(wanted).max()


def test_channels_that_a_branch_reads_stay_as_they_are():
    data, feeds = network(CURVES["SiLU"])
    model = onnx.load_model_from_string(data)
    name = next(x.input[0] for x in model.graph.node if x.op_type == "Sigmoid")
    kind = onnx.TensorProto.FLOAT
    branches = [
        helper.make_graph(
            [helper.make_node(operator, [name], [operator])],
            operator,
            [],
            [helper.make_tensor_value_info(operator, kind, [TOKENS, HIDDEN])],
        )
        for operator in ("Identity", "Neg")
    ]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "whether"))
    graphs = dict(zip(("then_branch", "else_branch"), branches, strict=True))
    model.graph.node.append(helper.make_node("If", ["whether"], ["seen"], **graphs))
    model.graph.output.append(helper.make_tensor_value_info("seen", kind, [TOKENS, HIDDEN]))
    before = model.SerializeToString()
    split_outliers(model, feeds)
    assert model.SerializeToString() == before


def test_a_quantized_network_loses_less_with_several_channels():
    data, feeds = network(gelu, large=20.0)
    others = feeds[12:]

    def lost(quantized: bytes) -> float:
        wanted, found = (
            np.stack([run_onnx(each, feed["x"])[0] for feed in others])
            for each in (data, quantized)
        )
        return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))

    whole = quantize_onnx(data, feeds[:12], numerics="litert-ref", min_cosine=0)
    plain = quantize_onnx(data, feeds[:12], numerics="ort", min_cosine=0)
    assert 2.5 * lost(whole) < lost(plain)
