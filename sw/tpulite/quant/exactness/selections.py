"""LiteRT's PRELU and SQUARED_DIFFERENCE of integers less their zero points.

Sources: tensorflow/lite/kernels/activations.cc (``PreluPrepare``), internal/reference/prelu.h and
squared_difference.cc.
"""

import numpy as np
from numpy.typing import NDArray

from tpulite.quant.exactness.litert import Integers, scale_by
from tpulite.quant.tensors import Quantized, UnsupportedError

_SHIFT = 7
"""Fractional bits of the operands of a difference."""


def prelu_scales(x: Quantized, alpha: Quantized, y: Quantized) -> tuple[float, float]:
    """Return the scales of numbers from 0 on, and of products with the slope; float32."""
    return float(x.scale / y.scale), float(x.scale * alpha.scale / y.scale)


def squared_difference(
    values: tuple[Integers, Integers], a: Quantized, b: Quantized, y: Quantized
) -> NDArray[np.int8]:
    """Return the squares of differences, int8.

    Parameters
    ----------
    values : pair of ndarray
        Integers of the operands less their zero points; they broadcast.
    a, b, y : Quantized
        Operands and result.

    Raises
    ------
    UnsupportedError
        If LiteRT refuses the scales.
    """
    first, second = scaled_operands(values, a, b)
    return squares(first - second, a, b, y)


def scaled_operands(
    values: tuple[Integers, Integers], a: Quantized, b: Quantized
) -> tuple[Integers, Integers]:
    """Return operands less their zero points, in 1/64 of the larger scale: up to 16,320."""
    twice = _twice(a, b)
    first, second = (
        scale_by(value << _SHIFT, float(side.scale) / twice)
        for value, side in zip(values, (a, b), strict=True)
    )
    return first, second


def squares(differences: Integers, a: Quantized, b: Quantized, y: Quantized) -> NDArray[np.int8]:
    """Return the squares of differences of scaled operands, int8.

    Raises
    ------
    UnsupportedError
        If LiteRT refuses the scales.
    """
    result = _twice(a, b) ** 2 / ((1 << 2 * _SHIFT) * float(y.scale))
    if result >= 1:
        raise UnsupportedError(f"LiteRT rejects squared_difference with the output scale {y.scale}")
    return y.image(scale_by(differences**2, result) + y.zero_point)


def _twice(a: Quantized, b: Quantized) -> float:
    return 2 * max(float(a.scale), float(b.scale))
