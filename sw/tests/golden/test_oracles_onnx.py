"""Requantization and raw products against ONNX Runtime, bit for bit.

On x86 without VNNI, ONNX Runtime multiplies 8-bit activations by int8 weights in pairs that
saturate at 16 bits: with weights of 8 bits its own results are wrong. Weights of 7 bits cannot
saturate (2 * 255 * 64 < 2**15), so int8 weights have 7 bits here, and uint8 weights, which take
another path, have all 8.
"""

import numpy as np
import pytest

from tpulite.arch.numerics import Rounding, float32_multiplier, quantize_multiplier
from tpulite.golden import ops

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite_testing.oracles.onnx_models import (
    run_matmul_integer,
    run_qlinear_conv,
    run_qlinear_matmul,
)

CASES = 40
M, N = 96, 64
TYPES = {
    "s8s8": (np.int8, np.int8),
    "u8s8": (np.uint8, np.int8),
    "u8u8": (np.uint8, np.uint8),
}


def as_int8(values, zero_point: int = 0):
    """Return the same numbers as the chip sees them: uint8 has its top bit inverted."""
    if values.dtype == np.int8:
        return values, zero_point
    return (values ^ 0x80).view(np.int8), zero_point - 128


def draw_operands(rng: np.random.Generator, types, *, case: int):
    """Draw activations, weights and zero points; in every fourth case the latter are extreme."""
    x_type, w_type = types
    k = int(rng.integers(1, 200))
    x = rng.integers(0, 256, (M, k)).astype(np.uint8).view(x_type)
    w = rng.integers(0, 256, (k, N)).astype(np.uint8)
    if w_type == np.int8:
        w = rng.integers(-64, 64, (k, N)).astype(np.int8)
    bounds = [np.iinfo(x_type), np.iinfo(w_type), np.iinfo(x_type)]
    if case % 4 == 0:
        zero_points = [int(rng.choice([b.min, b.max])) for b in bounds]
    else:
        zero_points = [int(rng.integers(b.min, b.max + 1)) for b in bounds]
    if w_type == np.int8:
        zero_points[1] = 0
    return x, w, zero_points


def products(x, w, zero_points) -> np.ndarray:
    """Multiply as the chip does: the input zero point is in the bias."""
    (x8, x_zero), (w8, w_zero) = as_int8(x, zero_points[0]), as_int8(w, zero_points[1])
    weights = w8.astype(np.int32) - w_zero
    return ops.matmul_int32(x8, w8, w_zero) - x_zero * weights.sum(axis=0, dtype=np.int32)


@pytest.mark.parametrize("types", TYPES)
def test_raw_products_equal_matmul_integer(types):
    rng = np.random.default_rng(11)
    for case in range(CASES):
        x, w, zero_points = draw_operands(rng, TYPES[types], case=case)
        expected = run_matmul_integer(x, w, zero_points=zero_points)
        assert np.array_equal(products(x, w, zero_points), expected)


@pytest.mark.parametrize("operator", ["matmul", "conv"])
@pytest.mark.parametrize("types", TYPES)
def test_requantization_equals_qlinear_operators(types, operator):
    rng = np.random.default_rng(12)
    elements = saturated = 0
    differences = dict.fromkeys(Rounding, 0)
    for case in range(CASES):
        x, w, zero_points = draw_operands(rng, TYPES[types], case=case)
        acc = products(x, w, zero_points)
        channels = N if operator == "conv" else 1
        scales = draw_scales(rng, channels, float(np.std(acc)), case=case)
        if operator == "conv":
            bias = rng.integers(-3000, 3000, N).astype(np.int32)
            acc += bias
            y = run_qlinear_conv(x, w, bias, scales=scales, zero_points=zero_points)
        else:
            scales = (scales[0], scales[1][0], scales[2])
            y = run_qlinear_matmul(x, w, scales=scales, zero_points=zero_points)
        y, y_zero = as_int8(y, zero_points[2])
        effective = np.broadcast_to(scales[0] * scales[1] / scales[2], N)  # in float32
        for rounding in Rounding:
            convert = float32_multiplier if rounding == Rounding.FLOAT32 else quantize_multiplier
            multiplier, shift = np.array([convert(float(scale)) for scale in effective]).T
            ours = ops.requantize(
                acc, multiplier=multiplier, shift=shift, rounding=rounding, zero_point=y_zero
            )
            differences[rounding] += np.count_nonzero(ours != y)
        elements += y.size
        saturated += np.count_nonzero((y == -128) | (y == 127))
    assert elements > 200_000
    assert 0.05 < saturated / elements < 0.8
    assert differences.pop(Rounding.FLOAT32) == 0
    assert min(differences.values()) > 0, differences


def draw_scales(rng: np.random.Generator, channels: int, spread: float, *, case: int):
    """Draw scales of input, weights and output; results spread over int8, or much more or less."""
    x_scale = np.float32(rng.uniform(0.005, 0.05))
    w_scales = rng.uniform(0.005, 0.05, channels).astype(np.float32)
    fill = float(2.0 ** rng.integers(2, 10)) if case % 4 == 0 else rng.uniform(30, 120)
    y_scale = np.float32(x_scale * w_scales.mean() * spread / fill)
    if case % 4 == 2:
        # With powers of two the exact results are often just between two integers.
        scales = (x_scale, w_scales, y_scale)
        x_scale, w_scales, y_scale = (
            np.exp2(np.rint(np.log2(s))).astype(np.float32) for s in scales
        )
    return x_scale, w_scales, y_scale
