"""Softmax of int8 and uint8 tensors with the exact bits of TFLite's kernels.

Outputs have the scale 1/256 and the lowest integer as their zero point, as TFLite demands. Both
kernels were compared with LiteRT's, which sw/tests/runtime/test_host_softmax.py does again.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import quantize_multiplier

__all__ = [
    "exponentials",
    "fixed_point_exponentials",
    "softmax_fixed_point",
    "softmax_table",
]

_ONE = (1 << 31) - 1  # the largest number below 1 with 31 fractional bits
_FRACTION = 26  # fractional bits of a difference of inputs: 5 bits are left for the integer
_SUM_INTEGER = 12  # integer bits of the sum of exponentials


def exponentials(scale: float, beta: float) -> NDArray[np.float32]:
    """Return exp(-d * scale * beta) for differences d of 0 to 255, as the optimized kernel does."""
    exponents = (np.float32(-scale * beta) * np.arange(256, dtype=np.float32)).astype(np.float64)
    return np.exp(exponents).astype(np.float32)


def fixed_point_exponentials(
    differences: NDArray[np.int64], scale: float, beta: float
) -> NDArray[np.int64]:
    """Return exp(-d * scale * beta) with 31 fractional bits; 0 if it is too little to count."""
    factor = min(float(beta) * scale * (1 << _FRACTION), float(_ONE))
    multiplier, left = quantize_multiplier(factor)
    counted = differences <= math.floor(31 * 2.0 ** (_FRACTION - left))
    scaled = _multiply(-np.where(counted, differences, 0) << left, multiplier)
    return np.where(counted, _exp(scaled), 0)


def softmax_table(x: NDArray, scale: float, beta: float, bits: range) -> NDArray[np.int64]:
    """Return what TFLite's optimized kernel gives: float32 exponentials from a table.

    Parameters
    ----------
    x : ndarray of int8 or uint8, [..., n]
        Integers; softmax is along the last axis.
    scale : float
        Scale of ``x``.
    beta : float
        Factor of the exponents.
    bits : range
        Integers of the output's dtype.
    """
    exps = exponentials(scale, beta)[x.max(axis=-1, keepdims=True).astype(np.int64) - x]
    total = np.zeros(x.shape[:-1], np.float32)
    for column in np.moveaxis(exps, -1, 0):  # float32 sums depend on their order
        total = total + column
    shares = exps * (np.float32(1) / (total * np.float32(1 / 256)))[..., None]
    rounded = np.floor(shares + np.float32(0.5)).astype(np.int64)
    return np.clip(rounded + bits[0], bits[0], bits[-1])


def softmax_fixed_point(x: NDArray, scale: float, beta: float, bits: range) -> NDArray[np.int64]:
    """Return what TFLite's reference kernel and TFLite Micro give: integers only.

    Parameters are those of :func:`softmax_table`. The steps are those of gemmlowp's
    ``exp_on_negative_values`` and ``one_over_one_plus_x_for_x_in_0_1``.
    """
    differences = x.max(axis=-1, keepdims=True).astype(np.int64) - x
    exps = fixed_point_exponentials(differences, scale, beta)
    total = _divide(exps, _SUM_INTEGER).sum(axis=-1, keepdims=True)
    reciprocal, exponent = _reciprocal(total)
    shares = _divide(_multiply(reciprocal, exps), exponent + 31 - 8)
    return np.clip(shares + bits[0], bits[0], bits[-1])


def _multiply(a: NDArray, b: NDArray | int) -> NDArray[np.int64]:
    """Return a * b / 2**31, half up."""
    return (np.asarray(a, np.int64) * b + (1 << 30)) >> 31


def _divide(a: NDArray, power: NDArray | int) -> NDArray[np.int64]:
    """Return a / 2**power, half away from zero; the power is positive."""
    half = np.int64(1) << (np.asarray(power, np.int64) - 1)
    return (a + half - (a < 0)) >> power


def _exp(a: NDArray) -> NDArray[np.int64]:
    """Return exp of numbers <= 0 with 26 fractional bits; 31 fractional bits.

    A Taylor series around -1/8 serves the part in [-1/4, 0), a factor each bit of the rest.
    """
    quarter = 1 << (_FRACTION - 2)
    part = (a & (quarter - 1)) - quarter
    x = (part << 5) + (1 << 28)
    square = _multiply(x, x)
    cube, fourth = _multiply(square, x), _multiply(square, square)
    tail = _divide(_multiply(_divide(fourth, 2) + cube, round(2**31 / 3)) + square, 1)
    center = round(math.exp(-1 / 8) * 2**31)
    result = center + _multiply(x + tail, center)
    rest = part - a
    for exponent in range(-2, 5):
        factor = round(math.exp(-(2.0**exponent)) * 2**31)
        has_bit = (rest >> (_FRACTION + exponent)) & 1
        result = np.where(has_bit, _multiply(result, factor), result)
    return np.where(a == 0, _ONE, result)


def _reciprocal(total: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return 1 / total as a mantissa of 31 fractional bits and the exponent of what it lacks.

    Three steps of Newton and Raphson on the half of a number in [1, 2), from the linear estimate
    48/17 - 32/17 x; 29 fractional bits.
    """
    length = np.frexp(total.astype(np.float64))[1].astype(np.int64)  # totals are below 2**31
    leading = 32 - length
    half = ((total << leading) - (1 << 31) + _ONE + 1) >> 1
    x = round(48 / 17 * 2**29) + _multiply(half, -round(32 / 17 * 2**29))
    for _ in range(3):
        x = x + (_multiply(x, (1 << 29) - _multiply(half, x)) << 2)
    return np.minimum(x << 1, _ONE), _SUM_INTEGER - leading
