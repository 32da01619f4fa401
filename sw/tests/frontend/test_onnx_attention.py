"""Quantizing attention: masks, blocks, biases, and what must stay in floats."""

import math

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import numpy_helper

from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.exactness import Exactness
from tpulite.quant.floats.blocks import inside_blocks
from tpulite.quant.floats.observe import live_rows, padding_input
from tpulite.quant.place import place
from tpulite.quant.quality_onnx import measure_quality
from tpulite_testing.files.onnx_builder import OnnxBuilder

RNG = np.random.default_rng(3)
TOKENS, WIDTH, HEADS = 16, 32, 2


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def weights(rows: int, columns: int) -> np.ndarray:
    return draw(rows, columns) / np.float32(math.sqrt(rows))


def linear(b: OnnxBuilder, x: str, columns: int, rows: int = WIDTH) -> str:
    return b.node("Add", b.node("MatMul", x, weights(rows, columns)), draw(columns) / 4)


def padding(b: OnnxBuilder, lowest: float) -> str:
    """Return (1 - mask) * lowest, as exporters of PyTorch before sdpa and tf2onnx write it."""
    mask = b.node("Cast", b.input("mask", (1, TOKENS), "int64"), to=onnx.TensorProto.FLOAT)
    mask = b.node("Unsqueeze", mask, np.array([1, 2]))
    return b.node("Mul", b.node("Sub", np.float32(1), mask), np.float32(lowest))


def causal(lowest: float) -> np.ndarray:
    """Return a causal mask, which exporters write as a constant."""
    return np.triu(np.full((TOKENS, TOKENS), lowest, np.float32), 1)[None, None]


def chosen(b: OnnxBuilder, lowest: float) -> str:
    """Return a mask that Where chooses, as optimum and PyTorch's dynamo write it."""
    mask = b.node("Cast", b.input("mask", (1, TOKENS), "int64"), to=onnx.TensorProto.BOOL)
    mask = b.node("Unsqueeze", mask, np.array([1, 2]))
    return b.node("Where", mask, np.float32(0), np.array(lowest, np.float32))


def decomposed_norm(b: OnnxBuilder, x: str, root: str = "Sqrt") -> str:
    """Return a layer normalization of nine operators."""
    d = b.node("Sub", x, b.node("ReduceMean", x, axes=[-1]))
    variance = b.node("ReduceMean", b.node("Pow", d, np.float32(2)), axes=[-1])
    y = b.node("Div", d, b.node(root, b.node("Add", variance, np.float32(1e-12))))
    return b.node("Add", b.node("Mul", y, 1 + draw(WIDTH) / 8), draw(WIDTH) / 8)


def rms_norm(b: OnnxBuilder, x: str) -> str:
    square = b.node("ReduceMean", b.node("Mul", x, x), axes=[-1])
    r = b.node("Reciprocal", b.node("Sqrt", b.node("Add", square, np.float32(1e-6))))
    return b.node("Mul", b.node("Mul", x, r), 1 + draw(WIDTH) / 8)


def one_pass_norm(b: OnnxBuilder, x: str) -> str:
    """Return a layer normalization as flax has it: the mean of squares less the mean's square."""
    share = np.float32(1 / WIDTH)

    def mean(y: str) -> str:
        return b.node("Mul", b.node("ReduceSum", y, np.array([-1]), keepdims=1), share)

    middle, squares = mean(x), mean(b.node("Mul", x, x))
    variance = b.node("Sub", squares, b.node("Mul", middle, middle))
    variance = b.node("Add", b.node("Max", variance, np.float32(0)), np.float32(1e-6))
    r = b.node("Reciprocal", b.node("Sqrt", variance))
    r = b.node("Mul", r, 1 + draw(WIDTH) / 8)
    return b.node("Add", b.node("Mul", b.node("Sub", x, middle), r), draw(WIDTH) / 8)


def gelu(b: OnnxBuilder, x: str) -> str:
    erf = b.node("Erf", b.node("Div", x, np.float32(math.sqrt(2))))
    y = b.node("Mul", x, b.node("Add", erf, np.float32(1)))
    return b.node("Mul", y, np.float32(0.5))


def tanh_gelu(b: OnnxBuilder, x: str) -> str:
    cube = b.node("Mul", b.node("Pow", x, np.float32(3)), np.float32(0.044715))
    inner = b.node("Mul", b.node("Add", x, cube), np.float32(math.sqrt(2 / math.pi)))
    y = b.node("Add", b.node("Tanh", inner), np.float32(1))
    return b.node("Mul", b.node("Mul", x, np.float32(0.5)), y)


def attention(b: OnnxBuilder, x: str, masked) -> str:
    def heads(y: str, *order: int) -> str:
        y = b.node("Reshape", y, np.array([1, TOKENS, HEADS, WIDTH // HEADS]))
        return b.node("Transpose", y, perm=order)

    q, k, v = (linear(b, x, WIDTH) for _ in range(3))
    scores = b.node("MatMul", heads(q, 0, 2, 1, 3), heads(k, 0, 2, 3, 1))
    scores = b.node("Div", scores, np.float32(math.sqrt(WIDTH // HEADS)))
    shares = b.node("Softmax", masked(b, scores), axis=-1)
    y = b.node("Transpose", b.node("MatMul", shares, heads(v, 0, 2, 1, 3)), perm=[0, 2, 1, 3])
    return linear(b, b.node("Reshape", y, np.array([1, TOKENS, WIDTH])), WIDTH)


def encoder(masked, norm=decomposed_norm, curve=gelu, opset: int = 17) -> bytes:
    b = OnnxBuilder(opset=opset)
    x = b.input("x", (1, TOKENS, WIDTH))
    x = norm(b, b.node("Add", x, attention(b, x, masked)))
    y = linear(b, curve(b, linear(b, x, 64)), WIDTH, 64)
    return b.build(norm(b, b.node("Add", x, y)))


def samples(data: bytes, count: int = 6) -> list[dict[str, np.ndarray]]:
    names = {value.name for value in onnx.load_from_string(data).graph.input}
    feeds = []
    for index in range(count):
        mask = (np.arange(TOKENS) < 6 + index).astype(np.int64)[None]
        feeds.append({"x": draw(1, TOKENS, WIDTH), "mask": mask})
    return [{name: feed[name] for name in names} for feed in feeds]


def cosine(data: bytes, found: bytes, feeds) -> float:
    (output,) = measure_quality(data, found, feeds).outputs
    return output.cosine


MASKS = {
    "multiplied": lambda low: lambda b, s: b.node("Add", s, padding(b, low)),
    "causal": lambda low: lambda b, s: b.node("Add", s, causal(low)),
    "chosen": lambda low: lambda b, s: b.node("Add", s, chosen(b, low)),
    "both": lambda low: lambda b, s: b.node("Add", b.node("Add", s, causal(low)), padding(b, low)),
}


LEAST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize(
    ("kind", "lowest"),
    [
        *(("multiplied", -1e4), ("multiplied", LEAST), ("causal", -1e9), ("causal", -np.inf)),
        *(("chosen", LEAST), ("chosen", -np.inf), ("both", -1e9)),
    ],
)
def test_masks_are_clamped_to_what_softmax_can_tell(kind, lowest):
    data = encoder(MASKS[kind](lowest))
    feeds = samples(data)
    found = quantize_onnx(data, feeds)
    assert cosine(data, found, feeds) > 0.99
    scales = [
        float(numpy_helper.to_array(x).max())
        for x in onnx.load_from_string(found).graph.initializer
        if x.name.endswith("_scale")
    ]
    assert max(scales) < 1


@pytest.mark.parametrize("norm", [decomposed_norm, rms_norm, one_pass_norm])
@pytest.mark.parametrize("curve", [gelu, tanh_gelu])
def test_nothing_is_rounded_inside_a_block(norm, curve):
    data = encoder(lambda _, s: s, norm, curve)
    model = onnx.load_from_string(data)
    for index, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}{index}"
    inside = inside_blocks(model.graph)
    kinds = {node.op_type for node in model.graph.node if node.name in inside}
    mean = "ReduceSum" if norm is one_pass_norm else "ReduceMean"
    assert kinds >= {mean, "Sqrt", "Erf" if curve is gelu else "Tanh"}
    assert not kinds & {"MatMul", "Softmax", "Reshape", "Transpose"}
    feeds = samples(data)
    assert cosine(data, quantize_onnx(data, feeds), feeds) > 0.99


def test_a_residual_sum_is_no_part_of_a_block():
    b = OnnxBuilder()
    x = b.input("x", (1, TOKENS, WIDTH))
    y = b.node("Add", x, rms_norm(b, x), name="residual")
    model = onnx.load_from_string(b.build(b.node("Mul", y, y, name="square")))
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}{index}"
    inside = inside_blocks(model.graph)
    assert len(inside) == 7
    assert "residual" not in inside
    assert "square" not in inside


def test_a_sum_that_only_a_normalization_reads_is_part_of_it():
    b = OnnxBuilder()
    x = b.node("MatMul", b.input("x", (1, TOKENS, WIDTH)), weights(WIDTH, WIDTH))
    y = b.node("Add", x, b.node("MatMul", x, weights(WIDTH, WIDTH)), name="residual")
    z = b.node("Add", x, b.node("MatMul", x, weights(WIDTH, WIDTH)), name="other")
    ones = np.ones(WIDTH, np.float32)
    y = b.node("LayerNormalization", b.node("Reshape", y, np.array([TOKENS, WIDTH])), ones)
    z = b.node("LayerNormalization", b.node("Add", z, b.node("MatMul", z, weights(WIDTH, WIDTH))))
    model = onnx.load_from_string(b.build(y, z))
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}{index}"
    kinds = [node.op_type for node in model.graph.node if node.name in inside_blocks(model.graph)]
    assert sorted(kinds) == ["Add", "Add", *["LayerNormalization"] * 2, "Reshape"]
    assert "other" not in inside_blocks(model.graph)


def test_a_softmax_written_as_powers_is_a_block():
    b = OnnxBuilder()
    x = b.node("MatMul", b.input("x", (4, WIDTH)), weights(WIDTH, 8))
    most = b.node("Reshape", b.node("ReduceMax", x, axes=[1], keepdims=0), np.array([4, 1]))
    power = b.node("Exp", b.node("Sub", x, most))
    total = b.node("Reshape", b.node("ReduceSum", power, np.array([1])), np.array([4, 1]))
    model = onnx.load_from_string(b.build(b.node("Div", power, total)))
    for index, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}{index}"
    inside = inside_blocks(model.graph)
    assert inside == {node.name for node in model.graph.node} - {"MatMul0"}


@pytest.mark.parametrize("kind", ["multiplied", "chosen", "both"])
def test_rows_of_padding_are_not_judged(kind):
    data = encoder(MASKS[kind](-1e9))
    graph = onnx.load_from_string(data).graph
    assert padding_input(graph) == "mask"
    value, feed = draw(1, TOKENS, WIDTH), samples(data)[1]
    assert np.array_equal(live_rows(value, feed, "mask"), value[0, :7])
    assert live_rows(value[0], feed, "mask").shape == (TOKENS, WIDTH)
    assert live_rows(value[:, :5], feed, "mask").shape == (1, 5, WIDTH)


def test_a_causal_mask_is_no_padding():
    assert padding_input(onnx.load_from_string(encoder(MASKS["causal"](-1e9))).graph) is None


def test_a_tanh_alone_is_no_block():
    b = OnnxBuilder()
    y = b.node("Tanh", b.node("Mul", b.input("x", (1, 8)), np.float32(2)), name="curve")
    assert not inside_blocks(onnx.load_from_string(b.build(y)).graph)


def test_biases_and_factors_are_in_the_products():
    data = encoder(lambda _, s: s)
    found = onnx.load_from_string(quantize_onnx(data, samples(data)))
    kinds = [node.op_type for node in found.graph.node]
    assert kinds.count("Gemm") == 6
    assert kinds.count("MatMul") == 2
    factors = [node for node in found.graph.node if node.op_type == "Div"]
    assert len(factors) == 1  # of GELU; the one of the scores is in the queries


def outliers(channel: float) -> bytes:
    """Return a network with a sum of which two channels are large, and mean nothing behind it."""
    b = OnnxBuilder()
    x = b.input("x", (1, TOKENS, WIDTH))
    bias, gamma = np.zeros(WIDTH, np.float32), np.ones(WIDTH, np.float32)
    bias[5], bias[6], gamma[5:7] = channel, -channel, 0
    y = b.node("Add", b.node("MatMul", x, weights(WIDTH, WIDTH)), bias)
    y = b.node("Mul", b.node("Add", x, y), gamma)
    return b.build(b.node("MatMul", y, weights(WIDTH, 8)))


def test_activations_that_lose_too_much_stay_in_floats_and_are_named():
    data = outliers(4000.0)
    feeds = samples(data)
    before = quantize_onnx(data, feeds)
    assert cosine(data, before, feeds) < 0.98
    found = quantize_onnx(data, feeds, min_cosine=0.98)
    quality = measure_quality(data, found, feeds)
    assert quality.outputs[0].cosine > 0.98
    assert 0 < len(quality.floats) < 6
    assert not measure_quality(data, before, feeds).floats


def test_dead_channels_have_usual_scales():
    b = OnnxBuilder()
    weight = draw(8, 3, 3, 3)
    weight[2], weight[5] = 0, 1e-37
    bias = draw(8)
    y = b.node("Conv", b.input("x", (1, 3, 8, 8)), weight, bias)
    data = b.build(b.node("Relu", b.node("Conv", y, draw(4, 8, 1, 1))))
    feeds = [{"x": draw(1, 3, 8, 8)} for _ in range(3)]
    found = quantize_onnx(data, feeds)
    scales = [
        numpy_helper.to_array(x)
        for x in onnx.load_from_string(found).graph.initializer
        if x.name.endswith("_scale")
    ]
    assert min(each.min() for each in scales) > 1e-6
    assert measure_quality(data, found, feeds).outputs[0].decibels > 25
    assert max(each.max() for each in scales) < 1


def test_a_mask_repeated_over_heads_is_lowered():
    b = OnnxBuilder()
    x = b.node("Relu", b.input("x", (1, 12, 128, 128)))
    data = b.build(b.node("Mul", x, b.input("m", (1, 1, 128, 128))))
    feeds = [{"x": draw(1, 12, 128, 128), "m": draw(1, 1, 128, 128)}]
    graph = load_onnx(quantize_onnx(data, feeds), "net")
    (node,) = (node for node in graph.nodes if node.op == "mul")
    assert place(graph, Exactness.LITERT_REF).placements[node.name].engine == "VPU"
