"""Scales of channels beside products: the network stays the same, and its int8 form loses less."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats import quantizer
from tpulite.quant.floats.blocks import inside_blocks
from tpulite.quant.floats.channels import Scaled, scale_channels
from tpulite.quant.quality_onnx import measure_quality
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx
from tpulite_testing.oracles.model_tensors import equals_library

RNG = np.random.default_rng(29)
TOKENS, WIDTH, FRAMES = 100, 24, 100


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def spread(count: int) -> np.ndarray:
    """Return factors of channels that differ by two hundred."""
    return np.geomspace(0.05, 10, count).astype(np.float32)[RNG.permutation(count)]


def residual(product: str) -> bytes:
    """Return a sum of two products with uneven channels, and its normalization."""
    b = OnnxBuilder()
    x = b.input("x", (1, TOKENS, WIDTH) if product == "bare" else (TOKENS, WIDTH))
    scales = spread(WIDTH)

    def linear() -> str:
        weight, bias = draw(WIDTH, WIDTH) / 5 * scales, 3 * scales * draw(WIDTH)
        if product == "transposed":
            return b.node("Gemm", x, np.ascontiguousarray(weight.T), bias, transB=1)
        if product == "bare":
            return b.node("MatMul", x, weight)
        return b.node("Gemm", x, weight, bias)

    y = b.node("LayerNormalization", b.node("Add", linear(), linear()), 1 / scales)
    return b.build(b.node("Relu", b.node("MatMul", y, draw(WIDTH, 8))))


def uneven() -> bytes:
    """Return a normalization with uneven channels that two products read, one as a matrix."""
    b = OnnxBuilder()
    x = b.input("x", (1, TOKENS, WIDTH))
    gamma = spread(WIDTH)
    y = b.node("LayerNormalization", x, gamma, draw(WIDTH) * gamma)
    rows = (1 / gamma)[:, None]
    first = b.node("MatMul", y, draw(WIDTH, 8) * rows)
    flat = b.node("Reshape", y, np.array([TOKENS, WIDTH]))
    return b.build(first, b.node("Gemm", flat, draw(8, WIDTH) / gamma, draw(8), transB=1))


def moved() -> bytes:
    """Return a normalization with uneven channels that a convolution reads, moved by four."""
    b = OnnxBuilder()
    gamma = spread(WIDTH)
    y = b.node("LayerNormalization", b.input("x", (1, TOKENS, WIDTH)), gamma, gamma)
    y = b.node("Unsqueeze", y, np.array([1]))
    y = b.node("Slice", y, np.array([1]), np.array([TOKENS]), np.array([2]))
    y = b.node("Squeeze", b.node("Transpose", y, perm=[0, 3, 1, 2]), np.array([2]))
    return b.build(b.node("Conv", y, draw(8, WIDTH, 3) / gamma[:, None]))


def spectrum() -> bytes:
    """Return magnitudes of real and imaginary parts that a convolution makes, and one behind."""
    b = OnnxBuilder()
    x = b.input("x", (1, 1, 4 * FRAMES))
    scales = spread(WIDTH)
    weight = draw(2 * WIDTH, 1, 8) * np.tile(scales, 2)[:, None, None]
    y = b.node("Conv", x, weight, strides=[4])
    half = (np.array([0]), np.array([WIDTH]), np.array([1]))
    rest = (np.array([WIDTH]), np.array([2 * WIDTH]), np.array([1]))
    squares = [b.node("Pow", b.node("Slice", y, *part), np.float32(2)) for part in (half, rest)]
    y = b.node("Sqrt", b.node("Add", *squares))
    return b.build(b.node("Conv", y, draw(8, WIDTH, 3) / scales[:, None]))


NETWORKS = {
    **{f"residual, {kind}": residual(kind) for kind in ("plain", "transposed", "bare")},
    **{"uneven": uneven(), "moved": moved(), "spectrum": spectrum()},
}


def samples(data: bytes) -> list[dict[str, np.ndarray]]:
    (value,) = onnx.load_model_from_string(data).graph.input
    shape = [extent.dim_value for extent in value.type.tensor_type.shape.dim]
    return [{"x": draw(*shape)} for _ in range(8)]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_float_network_computes_the_same(name):
    data = NETWORKS[name]
    model, feeds = onnx.load_model_from_string(data), samples(data)
    for index, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}{index}"
    done = scale_channels(model, feeds, inside_blocks(model.graph))
    assert done.inside
    assert bool(done.ranges) == (name not in ("uneven", "moved"))
    for feed in samples(data):
        found, wanted = (run_onnx(each, feed["x"]) for each in (model.SerializeToString(), data))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_less_is_lost(name, monkeypatch):
    data = NETWORKS[name]
    feeds, others = samples(data), samples(data)

    def decibels() -> list[float]:
        found = quantize_onnx(data, feeds)
        return [x.decibels for x in measure_quality(data, found, others).outputs]

    better = decibels()
    monkeypatch.setattr(quantizer, "scale_channels", lambda *_: Scaled({}, frozenset()))
    for one, other in zip(better, decibels(), strict=True):
        assert one > other + 4


def test_scaled_results_have_one_range_and_are_not_clipped():
    data = NETWORKS["residual, plain"]
    model, feeds = onnx.load_model_from_string(data), samples(data)
    for index, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}{index}"
    ranges = scale_channels(model, feeds, inside_blocks(model.graph)).ranges
    ((scaled, (low, high)), _) = ranges.items()
    model.graph.output.append(onnx.ValueInfoProto(name=scaled))
    rows = np.concatenate([run_onnx(model.SerializeToString(), x["x"])[-1] for x in feeds])
    assert -low == high > 1
    ends = rows.max(axis=0)
    assert np.allclose(rows.min(axis=0), -ends, atol=1e-4)
    assert ends.max() == pytest.approx(1, abs=1e-4)  # the largest channel
    assert np.allclose([np.median(ends), ends.min()], 0.5, atol=1e-4)  # room for twice as much


def test_even_channels_need_no_factors():
    b = OnnxBuilder()
    x = b.node("LayerNormalization", b.input("x", (TOKENS, WIDTH)), np.ones(WIDTH, np.float32))
    data = b.build(b.node("MatMul", x, draw(WIDTH, 8)))
    found = onnx.load_model_from_string(quantize_onnx(data, samples(data)))
    assert "Mul" not in {node.op_type for node in found.graph.node}


def test_ends_of_channels_that_few_rows_show_are_not_believed():
    data = NETWORKS["residual, plain"]
    model, feeds = onnx.load_model_from_string(data), samples(data)
    for index, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}{index}"
    assert not scale_channels(model, feeds[:1], inside_blocks(model.graph)).ranges


def test_results_that_others_read_stay_as_they_are():
    b = OnnxBuilder()
    y = b.node("Gemm", b.input("x", (TOKENS, WIDTH)), draw(WIDTH, WIDTH), draw(WIDTH))
    z = b.node("LayerNormalization", y, np.ones(WIDTH, np.float32))
    data = b.build(b.node("Add", z, b.node("Relu", y)))
    found = onnx.load_model_from_string(quantize_onnx(data, samples(data)))
    assert "Mul" not in {node.op_type for node in found.graph.node}


def test_gelu_of_several_operators_is_a_table(tmp_path):
    b = OnnxBuilder()
    y = b.node("Gemm", b.input("x", (TOKENS, WIDTH)), draw(WIDTH, WIDTH) * spread(WIDTH))
    erf = b.node("Erf", b.node("Div", y, np.float32(2**0.5)))
    y = b.node("Mul", b.node("Mul", y, b.node("Add", erf, np.float32(1))), np.float32(0.5))
    data = b.build(b.node("MatMul", y, draw(WIDTH, 8) / spread(WIDTH)[:, None]))
    model = equals_library(tmp_path, quantize_onnx(data, samples(data)), "ort")
    host = {each.operator for each in model.summary() if each.where == "host"}
    assert host == {"QuantizeLinear", "DequantizeLinear"}
