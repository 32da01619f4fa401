"""Relu and Clip that a rounding does: only it may, and nothing else is clipped."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.quality_onnx import measure_quality
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.model_tensors import equals_library

RNG = np.random.default_rng(5)
SHAPE = (1, 3, 6, 6)
LEAST = 0.999
"""Cosine to the float network; 0.93 and less where numbers are clipped that should not be."""


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def conv(b: OnnxBuilder, x: str, read: int = 3) -> str:
    return b.node("Conv", x, draw(4, read, 1, 1))


def quantized(data: bytes, numerics: str) -> bytes:
    """Quantize a network, check its outputs, and return the file."""
    feeds = [{"x": draw(*SHAPE)} for _ in range(8)]
    written = quantize_onnx(data, feeds, numerics=numerics)
    for each in measure_quality(data, written, feeds).outputs:
        assert each.cosine > LEAST, each
    return written


NUMERICS = pytest.mark.parametrize("numerics", ["ort", "litert-ref"])


@NUMERICS
@pytest.mark.parametrize("ends", [None, (0, 1), (-1, 6)])
def test_what_is_clipped_stays_so_beside_larger_numbers(tmp_path, numerics, ends):
    b = OnnxBuilder()
    x = b.input("x", SHAPE)
    clipped = conv(b, x)
    if ends is None:
        clipped = b.node("Relu", clipped)
    else:
        clipped = b.node("Clip", clipped, *(np.float32(end) for end in ends))
    data = b.build(conv(b, b.node("Concat", clipped, conv(b, x), axis=1), 8))
    model = equals_library(tmp_path, quantized(data, numerics), numerics)
    assert model.host_macs == 0


@NUMERICS
@pytest.mark.parametrize("ends", [(0.5, 2), (-3, -0.5), (0.5, None), (None, -0.5)])
def test_ends_may_both_be_on_one_side_of_zero(numerics, ends):
    b = OnnxBuilder()
    x = conv(b, b.input("x", SHAPE))
    y = b.node("Clip", x, *("" if end is None else np.float32(end) for end in ends))
    quantized(b.build(y, conv(b, y, 4), dtype="float32"), numerics)


@NUMERICS
def test_numbers_between_the_same_ends_share_a_scale(numerics):
    b = OnnxBuilder()
    x = b.input("x", SHAPE)
    both = [b.node("Relu", conv(b, x)) for _ in range(2)]
    written = quantized(b.build(conv(b, b.node("Concat", *both, axis=1), 8)), numerics)
    nodes = onnx.load_model_from_string(written).graph.node
    scales = [node.input[1] for node in nodes if node.op_type == "QuantizeLinear"]
    assert len(scales) == 5 and len({*scales}) == 3


@NUMERICS
@pytest.mark.parametrize("output", [False, True])
def test_of_a_concatenation_that_is_clipped_others_read_the_inputs_whole(numerics, output):
    b = OnnxBuilder()
    x = b.input("x", SHAPE)
    first = conv(b, x)
    joined = b.node("Relu", b.node("Concat", first, conv(b, x), axis=1))
    data = b.build(conv(b, joined, 8), first if output else conv(b, first, 4), dtype="float32")
    quantized(data, numerics)


@NUMERICS
def test_an_output_before_relu_keeps_what_is_below_zero(numerics):
    b = OnnxBuilder()
    y = conv(b, b.input("x", SHAPE))
    quantized(b.build(y, conv(b, b.node("Relu", y), 4)), numerics)


@NUMERICS
def test_a_concatenation_with_a_constant_runs_on_the_machine(tmp_path, numerics):
    b = OnnxBuilder()
    x = conv(b, b.input("x", SHAPE))
    data = b.build(conv(b, b.node("Concat", np.float32(0.1) * draw(1, 2, 6, 6), x, axis=1), 6))
    model = equals_library(tmp_path, quantized(data, numerics), numerics)
    assert all("oncat" not in x.operator for x in model.summary() if x.where == "host")
