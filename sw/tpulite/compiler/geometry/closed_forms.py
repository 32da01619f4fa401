"""Arithmetic of closed forms: the same formula for one shape (int) and for millions (arrays).

Other numbers may go through it as well, if NumPy's functions know what to do with them: so formulas
are written as C.
"""

from typing import Any

import numpy as np

from tpulite.arch.config import BEAT_BYTES

Number = Any
"""An int, or an array of int64 with an element for each shape. Likewise truth values."""


def ceil_div(a: Number, b: Number) -> Number:
    """Return the quotient, rounded up."""
    return -(-a // b)


def least(a: Number, b: Number) -> Number:
    """Return the smaller number."""
    if type(a) is int and type(b) is int:
        return a if a < b else b
    return min(a, b) if _plain(a, b) else np.minimum(a, b)


def most(a: Number, b: Number) -> Number:
    """Return the larger number."""
    if type(a) is int and type(b) is int:
        return a if a > b else b
    return max(a, b) if _plain(a, b) else np.maximum(a, b)


def pick(condition: Number, yes: Number, no: Number) -> Number:
    """Return ``yes`` where the condition holds, else ``no``."""
    if _plain(condition):
        return yes if condition else no
    return np.where(condition, yes, no)


def both(*conditions: Number) -> Number:
    """Return whether all conditions hold."""
    result: Number = True
    for condition in conditions:
        result = condition if result is True else result & condition
    return result


def negate(condition: Number) -> Number:
    """Return whether the condition does not hold."""
    return not condition if _plain(condition) else ~condition


def root(value: Number) -> Number:
    """Return the square root of a natural number, rounded down (nearly, if beyond 2**52)."""
    return int(value**0.5) if isinstance(value, int) else np.sqrt(value).astype(np.int64)


def grain(size: Number) -> Number:
    """Return after how many pieces of ``size`` bytes one begins at a beat again.

    Examples
    --------
    >>> [grain(size) for size in (4, 8, 12, 16, 32)]
    [4, 2, 4, 1, 1]
    """
    if isinstance(size, int):
        return BEAT_BYTES // min(size & -size, BEAT_BYTES)
    return BEAT_BYTES // np.minimum(size & -size, BEAT_BYTES)


def cuts(extent: int, parts: int, unit: int) -> np.ndarray:
    """Return the bounds of ``parts`` nearly equal pieces of an extent, at multiples of ``unit``.

    No piece is empty if there are at least as many units as parts, and none is longer than the
    mean, rounded up to a unit.

    Examples
    --------
    >>> cuts(10, 3, 2).tolist()
    [0, 2, 6, 10]
    """
    bounds = np.arange(parts + 1) * -(-extent // unit) // parts * unit
    bounds[-1] = extent
    return bounds


def _plain(*values: Number) -> bool:
    return all(isinstance(value, int | np.generic) for value in values)
