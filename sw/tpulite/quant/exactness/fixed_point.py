"""Logistic and hyperbolic tangent of int16 as gemmlowp computes them, for all 65,536 numbers.

Source: ``logistic``, ``tanh`` and what they call in fixedpoint/fixedpoint.h of gemmlowp, which
LiteRT's integer kernels of LSTM use with raw integers of 16 bits. Results have 15 fractional bits.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

INT16 = range(-(1 << 15), 1 << 15)
"""All numbers, in the order of the tables."""

_ONE = INT16[-1]
_BITS = 15

# Constants of 31 fractional bits; those of 29 count 4 times as much.
_EXP_EIGHTH, _THIRD = 1895147668, 715827883
_POWERS = (
    *((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308)),
    *((2, 39332535), (3, 720401), (4, 242)),
)
"""Exponents k and exp(-2**k)."""
_48_OVER_17, _32_OVER_17 = 1515870810, -1010580540
_NEWTON = 3
_LARGEST = 5
"""Inputs below -2**5 have an exponential of 0."""


def divide(x: Integers, power: int) -> Integers:
    """Divide by a power of two, half away from zero."""
    return np.sign(x) * ((np.abs(x) + (1 << power >> 1)) >> power)


def saturate(x: Integers) -> Integers:
    """Return the nearest int16."""
    return np.clip(x, INT16[0], INT16[-1])


def wrap(x: Integers) -> Integers:
    """Return the lower 16 bits as an int16."""
    return x.astype(np.int16).astype(np.int64)


@cache
def logistic_table() -> NDArray[np.int16]:
    """Return the logistic function of each int16, which has 3 integer bits."""
    x = np.arange(INT16[0], INT16[-1] + 1)
    positive = _double(_reciprocal(_exp(wrap(-np.abs(x)), 3)), 1)
    result = np.where(x > 0, positive, _ONE - positive)
    return np.where(x == 0, 1 << (_BITS - 1), result).astype(np.int16)


@cache
def tanh_table(bits: int) -> NDArray[np.int16]:
    """Return the hyperbolic tangent of each int16, which has so many integer bits."""
    x = np.arange(INT16[0], INT16[-1] + 1)
    # Twice the input: the same integer with one integer bit more.
    less_one = wrap(_reciprocal(_exp(wrap(-np.abs(x)), bits + 1)) - (1 << (_BITS - 2)))
    magnitude = _double(less_one, 2)
    return (np.sign(x) * magnitude).astype(np.int16)


def _exp(x: Integers, bits: int) -> Integers:
    """Return exp of numbers that are not positive, with so many integer bits."""
    fraction = _BITS - bits
    quarter = 1 << (fraction - 2)
    part = wrap((x & (quarter - 1)) - quarter)
    result, rest = _exp_of_quarter(_double(part, bits)), wrap(part - x)
    for exponent, factor in _POWERS:
        if bits > exponent:
            there = rest & (1 << (fraction + exponent))
            result = np.where(there, _multiply(result, _constant(factor)), result)
    if bits > _LARGEST:
        result = np.where(x < -(1 << (fraction + _LARGEST)), 0, result)
    return np.where(x == 0, _ONE, result)


def _exp_of_quarter(x: Integers) -> Integers:
    """Return exp of numbers from -1/4 on and below 0: a Taylor series around -1/8."""
    x = wrap(x + (1 << (_BITS - 3)))
    x2 = _multiply(x, x)
    x3, x4 = _multiply(x2, x), _multiply(x2, x2)
    cubes = _multiply(wrap(divide(x4, 2) + x3), _constant(_THIRD))
    series = wrap(x + divide(wrap(cubes + x2), 1))
    first = _constant(_EXP_EIGHTH)
    return saturate(first + _multiply(series, first))


def _reciprocal(x: Integers) -> Integers:
    """Return 2 / (1 + x), halved and with 2 integer bits, by steps of Newton."""
    total = x + _ONE
    half = np.sign(total) * ((np.abs(total) + 1) >> 1)
    y = wrap(_constant(_48_OVER_17) + _multiply(half, _constant(_32_OVER_17)))
    for _ in range(_NEWTON):
        error = wrap((1 << (_BITS - 2)) - _multiply(half, y))
        y = wrap(y + _double(_multiply(y, error), 2))
    return y


def _constant(value: int) -> int:
    """Return a constant of 32 bits in 16."""
    return (value + (1 << 15)) >> 16


def _multiply(a: Integers, b: Integers | int) -> Integers:
    """Return the doubled upper half of a product, half up, saturated."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.minimum(np.sign(nudged) * (np.abs(nudged) >> _BITS), _ONE)


def _double(x: Integers, power: int) -> Integers:
    return saturate(x << power)
