"""Exponentials of softmax with the exact bits of TFLite's reference kernel."""

import math

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import quantize_multiplier
from tpulite.quant.exactness.names import Exactness

FIXED_POINT = (Exactness.LITERT_REF, Exactness.TFLM)
"""Whose softmax of integers adds integers; the others' adds floats."""

_ONE = (1 << 31) - 1  # the largest number below 1 with 31 fractional bits
_FRACTION = 26  # fractional bits of a difference of inputs: 5 bits are left for the integer


def fixed_point_exponentials(scale: float, beta: float) -> NDArray[np.int64]:
    """Return exp(-d * scale * beta) for differences d of 0 to 255, with 31 fractional bits.

    Those that are too small to count are 0. The steps are those of gemmlowp's
    ``exp_on_negative_values``.
    """
    factor = min(float(beta) * scale * (1 << _FRACTION), float(_ONE))
    multiplier, left = quantize_multiplier(factor)
    differences = np.arange(256)
    counted = differences <= math.floor(31 * 2.0 ** (_FRACTION - left))
    scaled = _multiply(-np.where(counted, differences, 0) << left, multiplier)
    return np.where(counted, _exp(scaled), 0)


def _multiply(a: NDArray, b: NDArray | int) -> NDArray[np.int64]:
    """Return a * b / 2**31, half up."""
    return (np.asarray(a, np.int64) * b + (1 << 30)) >> 31


def _halves(a: NDArray, power: int) -> NDArray[np.int64]:
    """Return a / 2**power, half away from zero."""
    return (a + (1 << (power - 1)) - (a < 0)) >> power


def _exp(a: NDArray) -> NDArray[np.int64]:
    """Return exp of numbers <= 0 with 26 fractional bits; 31 fractional bits.

    A Taylor series around -1/8 serves the part in [-1/4, 0), a factor each bit of the rest.
    """
    quarter = 1 << (_FRACTION - 2)
    part = (a & (quarter - 1)) - quarter
    x = (part << 5) + (1 << 28)
    square = _multiply(x, x)
    cube, fourth = _multiply(square, x), _multiply(square, square)
    tail = _halves(_multiply(_halves(fourth, 2) + cube, round(2**31 / 3)) + square, 1)
    center = round(math.exp(-1 / 8) * 2**31)
    result = center + _multiply(x + tail, center)
    rest = part - a
    for exponent in range(-2, 5):
        factor = round(math.exp(-(2.0**exponent)) * 2**31)
        has_bit = (rest >> (_FRACTION + exponent)) & 1
        result = np.where(has_bit, _multiply(result, factor), result)
    return np.where(a == 0, _ONE, result)
