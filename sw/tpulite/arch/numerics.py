"""Arithmetic whose result must be the same bit for bit in hardware, golden model and compiler.

This is the one definition of rounding. The hardware's requantizer and the vectorized twin in
``tpulite.golden.ops`` are tested against it, and it is tested against LiteRT and ONNX Runtime.

Sources: ``QuantizeMultiplier`` of TensorFlow Lite (kernels/internal/quantization_util.cc),
``SaturatingRoundingDoublingHighMul``, ``RoundingDivideByPOT`` and
``one_over_one_plus_x_for_x_in_0_1`` of gemmlowp (fixedpoint.h), ``Softmax`` of the former, and
IEEE 754 binary32 with round to nearest even.
"""

import math
import struct
from enum import IntEnum

INT8 = range(-128, 128)
INT32 = range(-(1 << 31), 1 << 31)


NEWTON_OFFSET, NEWTON_SLOPE = round(48 / 17 * 2**29), round(32 / 17 * 2**29)
"""Of the linear estimate of a reciprocal, with 29 fractional bits."""

NEWTON_STEPS = 3
"""Steps of :func:`newton`."""

SHARE_SHIFT = -3
"""Shift of :func:`reciprocal` plus the bits of the sum: 12 integer bits, and 8 of a share."""


_VANISHING = 2.0**-32
"""Scale below which the product with any int32 is at most a half."""


class Rounding(IntEnum):
    """How an accumulator is scaled to an integer."""

    TFLITE = 0  #: doubling high multiplication, then half away from zero (TFLite's reference)
    RUY = 1  #: doubling high multiplication, then half up (TFLite's optimized kernels)
    SINGLE = 2  #: one half-up rounding of the whole product
    FLOAT32 = 3  #: float32 multiplication, then half to even (ONNX Runtime, XNNPACK)
    AWAY = 4  #: like SINGLE, but ties go away from zero (dense layers of TFLite's reference)


def wrap32(value: int) -> int:
    """Reduce to int32 by wrapping around, as two's complement adders do."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def quantize_multiplier(scale: float) -> tuple[int, int]:
    """Return multiplier and shift so that ``multiplier * 2**(shift - 31)`` is nearly ``scale``.

    Raises
    ------
    ValueError
        If the scale is negative, infinite or not a number.

    Examples
    --------
    >>> quantize_multiplier(0.5)
    (1073741824, 0)
    >>> quantize_multiplier(2.0**-40)
    (0, 0)
    """
    if not 0 <= scale < math.inf:
        raise ValueError(f"Scale must be finite and not negative, not {scale!r}")
    fraction, shift = math.frexp(scale)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    if shift > 30:
        return (1 << 31) - 1, 30
    return multiplier, shift


def float32_multiplier(scale: float) -> tuple[int, int]:
    """Return a 24-bit mantissa and an exponent: ``mantissa * 2**exponent`` is ``float32(scale)``.

    It is zero of scales below 2**-32, with which every int32 accumulator rounds to 0.

    Raises
    ------
    ValueError
        If the scale is negative, beyond float32 or not a number.

    Examples
    --------
    >>> float32_multiplier(1.0)
    (8388608, -23)
    """
    if 0 <= scale < _VANISHING:
        return 0, 0
    try:
        bits = struct.unpack("<I", struct.pack("<f", scale))[0]
    except OverflowError:
        bits = 0xFF << 23
    exponent = bits >> 23
    if not 0 < exponent < 255:
        raise ValueError(f"Scale must be finite in float32 and not negative, not {scale!r}")
    return (1 << 23) | (bits & 0x7FFFFF), exponent - 127 - 23


def rounded_shift(value: int, shift: int, rounding: Rounding) -> int:
    """Divide by ``2**shift`` and round to an integer; ties go where ``rounding`` says."""
    if shift <= 0:
        return value << -shift
    quotient, remainder, half = value >> shift, value & ((1 << shift) - 1), 1 << (shift - 1)
    if rounding in (Rounding.TFLITE, Rounding.AWAY):
        up = remainder > half or (remainder == half and value >= 0)
    elif rounding == Rounding.FLOAT32:
        up = remainder > half or (remainder == half and quotient & 1)
    else:
        up = remainder >= half
    return quotient + up


def _significant(value: int, bits: int) -> tuple[int, int]:
    """Round a natural number to ``bits`` significant bits, half to even: mantissa and exponent."""
    exponent = max(value.bit_length() - bits, 0)
    return rounded_shift(value, exponent, Rounding.FLOAT32), exponent


def scale_accumulator(acc: int, *, multiplier: int, shift: int, rounding: Rounding) -> int:
    """Scale an int32 accumulator and round it to an integer, before zero point and clamp.

    Parameters
    ----------
    acc : int
        Accumulator with its bias, int32.
    multiplier : int
        Of :func:`quantize_multiplier`; with ``FLOAT32`` the mantissa of :func:`float32_multiplier`.
    shift : int
        The shift, or exponent, that belongs to it.

    Examples
    --------
    >>> [scale_accumulator(-5, multiplier=1 << 30, shift=0, rounding=r) for r in Rounding]
    [-2, -2, -2, -5368709120, -3]
    >>> scale_accumulator(-5, multiplier=1 << 23, shift=-24, rounding=Rounding.FLOAT32)
    -2
    """
    if rounding in (Rounding.SINGLE, Rounding.AWAY):
        return rounded_shift(acc * multiplier, 31 - shift, rounding)
    if rounding == Rounding.FLOAT32:
        mantissa, acc_exponent = _significant(abs(acc), 24)
        mantissa, exponent = _significant(mantissa * multiplier, 24)
        # Half to even is symmetric, so the sign may wait until the end.
        magnitude = rounded_shift(mantissa, -(exponent + acc_exponent + shift), rounding)
        return -magnitude if acc < 0 else magnitude
    left, right = max(shift, 0), max(-shift, 0)
    high = (wrap32(acc << left) * multiplier + (1 << 30)) >> 31
    return rounded_shift(high, right, rounding)


def requantize(  # noqa: PLR0913 - fields of a channel record
    acc: int,
    *,
    bias: int = 0,
    multiplier: int,
    shift: int,
    rounding: Rounding,
    zero_point: int = 0,
    low: int = INT8[0],
    high: int = INT8[-1],
) -> int:
    """Turn an accumulator into an int8 activation: bias, scale, zero point, clamp.

    Examples
    --------
    >>> requantize(100, bias=28, multiplier=1 << 30, shift=-3, rounding=Rounding.RUY, zero_point=-8)
    0
    """
    scaled = scale_accumulator(
        wrap32(acc + bias), multiplier=multiplier, shift=shift, rounding=rounding
    )
    return min(max(scaled + zero_point, low), high)


def newton(half: int) -> int:
    """Return the reciprocal of a number of [1/2, 1) with 29 fractional bits.

    Three steps of Newton and Raphson from the linear estimate 48/17 - 32/17 x.

    Parameters
    ----------
    half : int
        The number, with 31 fractional bits.
    """
    one = 1 << 29
    result = NEWTON_OFFSET + _high(half, -NEWTON_SLOPE)
    for _ in range(NEWTON_STEPS):
        result = result + (_high(result, one - _high(half, result)) << 2)
    return result


def reciprocal(total: int) -> tuple[int, int]:
    """Return multiplier and shift with which a NORM divides by a sum of words.

    The shares of words of 31 fractional bits, which were added with 19, count in 256ths: a word is
    ``word * multiplier * 2**(shift - 31)`` of them.

    Parameters
    ----------
    total : int
        An unsigned number of 32 bits; 0 counts as 1.

    Examples
    --------
    >>> reciprocal(1 << 19)
    (2147483647, -23)
    """
    length = max(total, 1).bit_length()
    multiplier = min(newton(max(total, 1) << (32 - length) >> 1) << 1, (1 << 31) - 1)
    return multiplier, SHARE_SHIFT - length


def _high(a: int, b: int) -> int:
    """Return a * b / 2**31, half up."""
    return (a * b + (1 << 30)) >> 31
