"""Exact operators on numpy arrays: the vectorized twin of :mod:`tpulite.arch.numerics`."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import (
    INT8,
    SHARE_SHIFT,
    Rounding,
    newton,
)
from tpulite.graph.requantization import Requantization, addends

SATURATION = 1 << 62
"""Magnitude at which scaled accumulators saturate, so that they fit int64."""

_TFLITE_LEFT_SHIFT = 20

EXACT_FLOAT32 = 1 << 24
"""Integers up to this magnitude are exact in float32."""

_ONE_THREAD = 1 << 18
"""Multiplications up to which OpenBLAS stays on one thread."""

_WORTH_A_CALL = 4
"""Rows of the smallest block."""


def matmul_int32(
    activation: NDArray[np.int8], weight: NDArray[np.int8], weight_zero_point: int = 0
) -> NDArray[np.int32]:
    """Multiply int8 matrices as the array does, with int32 accumulators that wrap.

    Parameters
    ----------
    activation : array of int8, [M, K]
        Activations.
    weight : array of int8, [K, N]
        Weights.
    weight_zero_point : int
        Subtracted from every weight.
    """
    # BLAS is much faster than the integer loops of numpy, and exact: every product and sum is below
    # 2**53, if there are few products even below 2**24.
    largest = 128 * (128 + abs(weight_zero_point))
    few = len(weight) * largest <= EXACT_FLOAT32
    real = np.float32 if few else np.float64
    centered = np.asarray(weight, dtype=real) - real(weight_zero_point)
    vectors = np.asarray(activation, dtype=real)
    product = np.empty((len(vectors), centered.shape[1]), dtype=real)
    # The threads of BLAS wait for each other by spinning. On a busy machine that costs much more
    # than a product of the size of a command, so those are cut into blocks for a single thread.
    step = _ONE_THREAD // max(1, centered.size)
    if step < _WORTH_A_CALL:
        step = max(1, len(vectors))
    for first in range(0, len(vectors), step):
        block = slice(first, first + step)
        np.matmul(vectors[block], centered, out=product[block])
    return product.astype(np.int32 if few else np.int64).astype(np.int32, copy=False)


def scale_accumulators(
    acc: ArrayLike, *, multiplier: ArrayLike, shift: ArrayLike, rounding: ArrayLike
) -> NDArray[np.int64]:
    """Scale int32 accumulators and round them to integers, before zero point and clamp.

    Equals :func:`tpulite.arch.numerics.scale_accumulator` on every element, except that results
    beyond +-``SATURATION`` become +-``SATURATION``. All parameters broadcast, usually [N] against
    accumulators [M, N].

    Parameters
    ----------
    acc : array of int32
        Accumulators with their biases.
    multiplier, shift, rounding : array of int
        As in a channel record: 31 bits, 8 bits signed, :class:`~tpulite.arch.numerics.Rounding`.
    """
    arrays = [np.asarray(x, dtype=np.int64) for x in (acc, multiplier, shift, rounding)]
    modes = set(arrays[-1].ravel().tolist())
    if len(modes) == 1:
        return _SCALE[Rounding(modes.pop())](*arrays[:-1])
    acc, multiplier, shift, rounding = np.broadcast_arrays(*arrays)
    result = np.empty(acc.shape, dtype=np.int64)
    for mode in modes:
        here = rounding == mode
        result[here] = _SCALE[Rounding(mode)](acc[here], multiplier[here], shift[here])
    return result


def requantize(  # noqa: PLR0913 - fields of a channel record
    acc: ArrayLike,
    *,
    bias: ArrayLike = 0,
    multiplier: ArrayLike,
    shift: ArrayLike,
    rounding: ArrayLike,
    zero_point: ArrayLike = 0,
    low: ArrayLike = INT8[0],
    high: ArrayLike = INT8[-1],
) -> NDArray[np.int8]:
    """Turn accumulators into int8 activations: bias, scale, zero point, clamp.

    Equals :func:`tpulite.arch.numerics.requantize` on every element; all parameters broadcast.

    Examples
    --------
    >>> requantize([100, -9], bias=28, multiplier=1 << 30, shift=-3, rounding=1).tolist()
    [8, 1]
    """
    scaling = {"multiplier": multiplier, "shift": shift, "rounding": rounding}
    return rescale(acc, bias=bias, zero_point=zero_point, low=low, high=high, **scaling).astype(
        np.int8
    )


def rescale(  # noqa: PLR0913 - fields of a channel record
    acc: ArrayLike,
    *,
    bias: ArrayLike = 0,
    multiplier: ArrayLike,
    shift: ArrayLike,
    rounding: ArrayLike,
    zero_point: ArrayLike = 0,
    low: ArrayLike,
    high: ArrayLike,
) -> NDArray[np.int64]:
    """Return what :func:`requantize` makes bytes of, with a clamp of any width."""
    biased = wrap32(np.add(acc, bias, dtype=np.int64))
    scaled = scale_accumulators(biased, multiplier=multiplier, shift=shift, rounding=rounding)
    return np.clip(scaled + np.asarray(zero_point, dtype=np.int64), low, high)


def requantize_sums(sums: ArrayLike, record: Requantization) -> NDArray[np.int8]:
    """Turn sums [..., C] into int8 activations as the requantization of a layer says."""
    return requantize(
        sums,
        bias=record.bias,
        multiplier=record.multiplier,
        shift=record.shift,
        rounding=record.rounding,
        zero_point=record.zero_point,
        low=record.low,
        high=record.high,
    )


def requantize_int16(sums: ArrayLike, record: Requantization | None) -> NDArray[np.int16]:
    """Turn sums [..., C] into int16 activations as the requantization of a layer says."""
    assert record is not None and record.bits == 16
    names = ("bias", "multiplier", "shift", "rounding", "zero_point", "low", "high")
    return rescale(sums, **{name: getattr(record, name) for name in names}).astype(np.int16)


def scale_operand(
    value: ArrayLike, *, zero_point: int, multiplier: int, shift: int, scaling: Scaling
) -> NDArray[np.int64]:
    """Scale an int8 operand of ADD or SUB to int32: ``scaled`` of decision 0003.

    Examples
    --------
    >>> scale_operand([-3, 5], zero_point=1, multiplier=1 << 30, shift=18, scaling=0).tolist()
    [-8, 8]
    """
    centered = np.asarray(value, dtype=np.int64) - zero_point
    if scaling == Scaling.EXACT:
        return wrap32(centered * multiplier)
    return scale_accumulators(
        centered << _TFLITE_LEFT_SHIFT,
        multiplier=multiplier,
        shift=-shift,
        rounding=Rounding.TFLITE,
    )


def reciprocals(totals: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return multipliers and shifts: :func:`tpulite.arch.numerics.reciprocal` of each total.

    Examples
    --------
    >>> [int(x[0]) for x in reciprocals(np.array([3 << 19]))]
    [1431655762, -24]
    """
    totals = np.maximum(totals, 1)
    length = np.frexp(totals.astype(np.float64))[1].astype(np.int64)
    found = newton(totals << (32 - length) >> 1)  # pyright: ignore[reportArgumentType]: of arrays
    return np.minimum(found << 1, (1 << 31) - 1), SHARE_SHIFT - length


def softmax(x: NDArray, words: NDArray[np.integer]) -> NDArray[np.int8]:
    """Return shares of 1/256, less 128, along the last axis.

    Parameters
    ----------
    x : array of int8 or uint8
        Integers.
    words : array of integers, [256]
        Exponentials of differences from the largest, with 31 fractional bits.
    """
    exps = words.astype(np.int64)[x.max(axis=-1, keepdims=True).astype(np.int64) - x]
    multiplier, shift = reciprocals(addends(exps).sum(axis=-1, keepdims=True))
    scaling = {"multiplier": multiplier, "shift": shift, "rounding": Rounding.TFLITE}
    return requantize(exps, bias=0, zero_point=INT8[0], low=INT8[0], high=INT8[-1], **scaling)


def wrap32(value: ArrayLike) -> NDArray[np.int64]:
    """Reduce integers to int32 by wrapping around, as two's complement adders do."""
    return np.asarray(value, dtype=np.int64).astype(np.int32).astype(np.int64)


def _high_multiply(acc: NDArray, multiplier: NDArray, shift: NDArray) -> NDArray:
    if (shift > 0).any():  # from 32 bits on the left shift leaves nothing of an int32
        acc = wrap32(acc << np.clip(shift, 0, 32))
    return (acc * multiplier + (1 << 30)) >> 31


def _scale_tflite(acc: NDArray, multiplier: NDArray, shift: NDArray) -> NDArray:
    high = _high_multiply(acc, multiplier, shift)
    right = np.clip(-shift, 0, 40)  # anything beyond 33 gives 0, as 40 does
    half = (1 << right) >> 1
    return (high + half - ((high < 0) & (right > 0))) >> right


def _scale_ruy(acc: NDArray, multiplier: NDArray, shift: NDArray) -> NDArray:
    right = np.clip(-shift, 0, 40)
    return (_high_multiply(acc, multiplier, shift) + ((1 << right) >> 1)) >> right


def _scale_single(acc: NDArray, multiplier: NDArray, shift: NDArray) -> NDArray:
    return _shift_once(acc * multiplier, 31 - shift, 0)


def _scale_away(acc: NDArray, multiplier: NDArray, shift: NDArray) -> NDArray:
    # One less below zero, so that a tie there does not carry.
    return _shift_once(acc * multiplier, 31 - shift, (acc < 0).astype(np.int64))


def _shift_once(product: NDArray, right: NDArray, less: NDArray | int) -> NDArray:
    limited = np.clip(right, 0, 63)  # products are below 2**62: 63 gives 0, as more would
    bump = np.where(limited > 0, (1 << np.maximum(limited - 1, 0)) - less, 0)
    return _shift_left((product + bump) >> limited, -right)


def _scale_float32(acc: NDArray, multiplier: NDArray, shift: NDArray) -> NDArray:
    mantissa, acc_exponent = _significant(np.abs(acc))
    mantissa, exponent = _significant(mantissa * multiplier)
    exponent = exponent + acc_exponent + shift
    magnitude = _shift_left(_shift_half_even(mantissa, np.clip(-exponent, 0, 62)), exponent)
    return np.where(acc < 0, -magnitude, magnitude)


def _shift_half_even(value: NDArray, right: NDArray) -> NDArray:
    odd = (value >> right) & 1
    # Half, less one where the quotient is even: then a tie does not carry.
    bump = np.where(right > 0, ((1 << right) >> 1) - 1 + odd, 0)
    return (value + bump) >> right


def _shift_left(value: NDArray, left: NDArray) -> NDArray:
    left = np.clip(left, 0, 63)
    limit = np.where(left < 63, SATURATION >> left, 0)
    exact = np.where(np.abs(value) <= limit, value, 0) << left
    return np.where(np.abs(value) > limit, np.sign(value) * SATURATION, exact)


def _significant(value: NDArray) -> tuple[NDArray, NDArray]:
    """Round natural numbers below 2**56 to 24 significant bits, half to even."""
    length = np.frexp(value.astype(np.float64))[1].astype(np.int64)
    # Beyond 53 bits the conversion may have rounded up to the next power of two.
    length -= (1 << np.maximum(length - 1, 0)) > np.maximum(value, 1)
    exponent = np.maximum(length - 24, 0)
    return _shift_half_even(value, exponent), exponent


_SCALE = {
    Rounding.TFLITE: _scale_tflite,
    Rounding.RUY: _scale_ruy,
    Rounding.SINGLE: _scale_single,
    Rounding.FLOAT32: _scale_float32,
    Rounding.AWAY: _scale_away,
}
