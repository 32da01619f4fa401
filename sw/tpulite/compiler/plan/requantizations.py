"""How sums of a window become outputs."""

import numpy as np

from tpulite.arch.numerics import Rounding
from tpulite.graph.layers import Pool, Requantization


def pool_requantization(layer: Pool, count: int) -> Requantization:
    """Return how a sum of ``count`` numbers becomes an output of a layer."""
    if layer.requantization is not None:
        return layer.requantization
    return average_requantization(count, layer.low, layer.high, layer.offset)


def average_requantization(count: int, low: int, high: int, offset: int = 0) -> Requantization:
    """Return how a sum of ``count`` numbers becomes their average, half away from zero, exactly.

    The average is that of the numbers plus ``offset``, less ``offset``. The reciprocal is rounded
    up, so that exact halves are not missed; a quotient that is no half is at least 1 / (2 * count)
    away from one, and the error must be smaller: it is for two million numbers, whatever they are.

    Raises
    ------
    ValueError
        If the average of so many numbers cannot be exact.

    Examples
    --------
    >>> average_requantization(2, -128, 127).multiplier.tolist()
    [1073741824]
    """
    shift = 1
    while -(-(1 << (31 - shift)) // count) < 1 << 30:
        shift -= 1
    multiplier = -(-(1 << (31 - shift)) // count)
    excess, largest = multiplier * count - (1 << (31 - shift)), 255 if offset else 128
    if 2 * count * largest * excess >= 1 << (31 - shift):
        raise ValueError(f"An average of {count} numbers cannot be exact")
    return Requantization(
        multiplier=np.array([multiplier]),
        shift=np.array([shift]),
        bias=np.array([offset * count], np.int32),
        rounding=Rounding.AWAY,
        zero_point=-offset,
        low=low,
        high=high,
    )
