"""LiteRT's square root and reciprocal square root of int8, in integers, not yet clamped.

Sources: tensorflow/lite/kernels/elementwise.cc, and ``GetInvSqrtQuantizedMultiplierExp`` of
internal/quantization_util. LiteRT stops at negative numbers; tables say the least integer there.
"""

import numpy as np

from tpulite.arch.numerics import Rounding, quantize_multiplier
from tpulite.golden.ops import scale_accumulators
from tpulite.quant.exactness.litert import Integers
from tpulite.quant.tensors import Quantized

_EXTRA = 20
"""Fractional bits of a reciprocal root before it gets the scale of the output."""

_ONE = 1 << 28
"""1 with 28 fractional bits."""


def root(x: Quantized, y: Quantized) -> Integers:
    """Compute in float32, every operation rounded; the quotient loses its fraction."""
    values = x.integers() - x.zero_point
    real = x.scale * np.maximum(values, 0).astype(np.float32)
    quotient = np.minimum(np.sqrt(real) / y.scale, np.float32(2**30))
    return np.where(values < 0, y.low, np.trunc(quotient).astype(np.int64) + y.zero_point)


def reciprocal_root(x: Quantized, y: Quantized) -> Integers:
    """Multiply by the reciprocal root of the integer, by five steps of Newton's method.

    The result of 0 is the largest integer.
    """
    scale = 1.0 / float(np.sqrt(x.scale) * y.scale)
    multiplier, shift = quantize_multiplier(scale)
    results = np.full(len(x.integers()), y.low)
    for index, value in enumerate((x.integers() - x.zero_point).tolist()):
        if value == 0:
            results[index] = y.high
        if value > 0:
            data = _scale(1, *_reciprocal_root(value, _EXTRA))
            results[index] = _scale(data, multiplier, shift - _EXTRA) + y.zero_point
    return results


def _scale(value: int, multiplier: int, shift: int) -> int:
    return int(
        scale_accumulators(value, multiplier=multiplier, shift=shift, rounding=Rounding.TFLITE)
    )


def _reciprocal_root(value: int, more: int) -> tuple[int, int]:
    """Return multiplier and shift that are 2**more over the root of a positive integer."""
    if value == 1:
        return (1 << 31) - 1, more
    pairs = (31 - value.bit_length()) // 2 - 1
    number = value << (2 * pairs - 1)
    half, guess = (number + 1) >> 1, _ONE
    for _ in range(5):
        cube = _high(_high(guess, guess), guess) << 6
        guess = (_high(_ONE + _ONE // 2, guess) - _high(half, min(cube, (1 << 31) - 1))) << 3
    guess = _high(guess, 1518500250)  # half the root of 2, with 31 fractional bits
    right = 11 - pairs
    return (guess, more - right) if right >= 0 else (guess << -right, more)


def _high(a: int, b: int) -> int:
    """Return the doubled high half of a product of 32 bits, both positive."""
    return (a * b + (1 << 30)) >> 31
