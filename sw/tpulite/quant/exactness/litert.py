"""Tables of LiteRT's own kernels, in integers of the tensors, not yet clamped.

Sources: tensorflow/lite/kernels/activations.cc (lookup tables, ``ReluPrepare``,
``LeakyReluPrepare``, ``HardSwishPrepare``), internal/reference/hard_swish.h and leaky_relu.h. The
roundings of requantization were found by comparison. The optimized kernels give the same bits,
except for requantization.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import Rounding, quantize_multiplier
from tpulite.golden.ops import scale_accumulators
from tpulite.quant.exactness.real import APPROXIMATED
from tpulite.quant.exactness.scaling import round_away
from tpulite.quant.tensors import Quantized, UnsupportedError

Integers = NDArray[np.int64]

_VECTOR = 16
"""Elements at a time of the optimized requantization; the rest is left to the scalar code."""

_ERROR = 2.0**-22
"""Bound of the relative error of a float32 function of a library: two units in the last place."""


def lookup(
    op: str, function: Callable[[np.ndarray], np.ndarray], x: Quantized, y: Quantized
) -> Integers:
    """Tabulate in float32 as ``PopulateLookupTable`` does, half away from zero.

    Raises
    ------
    UndecidedError
        If the last bit of a float32 function decides a result.
    """
    inverse = np.float32(1) / y.scale
    real = (x.integers() - x.zero_point).astype(np.float32) * x.scale
    scaled = function(real).astype(np.float32) * inverse
    check_halves(op, real, scaled, np.abs(scaled).astype(np.float64) * _ERROR, y)
    rounded = round_away(scaled)
    return np.clip(rounded, -(2**30), 2**30).astype(np.int64) + y.zero_point


def relu(x: Quantized, y: Quantized, low: int, high: int) -> Integers:
    """Requantize by a float32 quotient of scales, clamp to ``low`` and ``high`` of the image."""
    offset = y.zero_point - y.zero
    scaled = scale_by(x.integers() - x.zero_point, float(x.scale / y.scale)) + y.zero_point
    return np.clip(scaled, low + offset, high + offset)


def leaky_relu(x: Quantized, y: Quantized, alpha: float) -> Integers:
    """Scale negative numbers by a second multiplier, float32 products that may be negative."""
    negative = float(x.scale * np.float32(alpha) / y.scale)
    return leaky(x, y, float(x.scale / y.scale), negative, 1)


def leaky(x: Quantized, y: Quantized, positive: float, negative: float, slope: int) -> Integers:
    """Scale numbers from 0 on by one scale, products of smaller ones and a slope by another."""
    values = x.integers() - x.zero_point
    scaled = np.where(values >= 0, scale_by(values, positive), scale_by(values * slope, negative))
    return scaled + y.zero_point


def requantize(x: Quantized, y: Quantized, vectorized: int) -> Integers:
    """Requantize by a float64 quotient of scales.

    Parameters
    ----------
    x, y : Quantized
        Input and output.
    vectorized : int
        Elements of the tensor if a kernel computes 16 at a time, half up, and the rest half away
        from zero; 0 for the reference kernel.

    Raises
    ------
    UnsupportedError
        If both ways occur and differ.
    """
    values, scale = x.integers() - x.zero_point, float(x.scale) / float(y.scale)
    scalar, vector = (
        scale_by(values, scale, rounding) + y.zero_point
        for rounding in (Rounding.TFLITE, Rounding.RUY)
    )
    if vectorized >= _VECTOR:
        if vectorized % _VECTOR and np.any(y.image(scalar) != y.image(vector)):
            raise UnsupportedError(
                f"LiteRT's vector code rounds the last {vectorized % _VECTOR} elements differently"
            )
        return vector
    return scalar


def absolute(x: Quantized, y: Quantized) -> Integers:
    """Scale magnitudes by a float32 quotient of scales, if they differ."""
    values = np.abs(x.integers() - x.zero_point)
    if x.scale != y.scale:
        values = scale_by(values, float(x.scale / y.scale))
    return values + y.zero_point


def negative(x: Quantized, y: Quantized) -> Integers:
    """Negate integers whatever they mean, in 8 bits: -128 stays."""
    return -x.integers() + np.where(x.integers() == x.low, 2 * x.low, 0)


def hard_swish(x: Quantized, y: Quantized) -> Integers:
    """Compute in 16-bit fixed point: x on the output scale times (x + 3) / 6 saturated to 0..1.

    Raises
    ------
    UnsupportedError
        If the output scale is so small that LiteRT refuses it.
    """
    fine = np.float32(1 / 128) * x.scale
    out_multiplier, out_shift = _int16_multiplier(float(fine / y.scale))
    relu_multiplier, relu_shift = _int16_multiplier(float(fine / np.float32(3 / 32768)))
    if out_shift > 0:
        raise UnsupportedError(f"LiteRT rejects hard_swish with the output scale {y.scale}")
    values = (x.integers() - x.zero_point) << 7
    on_output_scale = _high(values, out_multiplier)
    relu_like = values
    if relu_shift > 0:
        relu_like = _saturate16(relu_like << (relu_shift - 1))
    relu_like = _high(relu_like, relu_multiplier)
    if relu_shift > 0:
        relu_like = _saturate16(relu_like << 1)
    if relu_shift < 0:
        relu_like = _divide(relu_like, -relu_shift)
    relu_like = (relu_like + (1 << 15)) >> 1
    product = relu_like * on_output_scale
    toward_zero = np.sign(product) * (np.abs(product) >> 15)
    return _divide(toward_zero, -out_shift) + y.zero_point


def scale_by(values: Integers, scale: float, rounding: Rounding = Rounding.TFLITE) -> Integers:
    """Return integers times a scale of any sign, as a multiplier of 31 bits and a shift say it."""
    multiplier, shift = quantize_multiplier(abs(scale))
    sign = -1 if scale < 0 else 1
    return scale_accumulators(values, multiplier=sign * multiplier, shift=shift, rounding=rounding)


def _int16_multiplier(scale: float) -> tuple[int, int]:
    multiplier, shift = quantize_multiplier(scale)
    half = 1 << 15
    if multiplier >= (1 << 31) - 1 - half:
        return (1 << 15) - 1, shift
    return (multiplier + half) >> 16, shift


def _high(values: Integers, multiplier: int) -> Integers:
    """Return the doubled high half of a 16-bit product, half up."""
    return (values * multiplier + (1 << 14)) >> 15


def _saturate16(values: Integers) -> Integers:
    return np.clip(values, -(1 << 15), (1 << 15) - 1)


def _divide(values: Integers, shift: int) -> Integers:
    """Divide by a power of two, half away from zero."""
    half = (1 << shift) >> 1
    return np.sign(values) * ((np.abs(values) + half) >> shift)


class UndecidedError(UnsupportedError):
    """The last bits of a function decide a result, so that only its library knows it."""


def check_halves(
    op: str,
    real: NDArray[np.float32],
    scaled: NDArray[np.float32],
    error: NDArray[np.float64],
    y: Quantized,
) -> None:
    """Refuse a table in which the last bits of a result decide how it is rounded.

    Parameters
    ----------
    op : str
        The function.
    real : ndarray of float32
        Its arguments. At 0 all of them are exact, and ELU is nowhere approximated above.
    scaled : ndarray of float32
        Results in steps of the output, before they are rounded.
    error : ndarray of float64
        Bound of what the last bits can change, in these steps.
    y : Quantized
        The output; results that are clamped anyway do not count.

    Raises
    ------
    UndecidedError
        If a result lies that near to the middle between two integers.
    """
    exact = real >= 0 if op == "elu" else real == 0
    wide = scaled.astype(np.float64)
    near = np.abs(wide - np.floor(wide) - 0.5) <= error
    place = wide + y.zero_point
    inside = (place > y.low - 1) & (place < y.high + 1)
    if op in APPROXIMATED and np.any(near & inside & ~exact):
        raise UndecidedError(f"the rounding of {op} depends on the CPU")
