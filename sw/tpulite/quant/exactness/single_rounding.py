"""Dense layers of LiteRT's reference kernel, which scales sums in float64.

The kernel computes ``round(double(sum) * scale)``, half away from zero; a channel record has a
multiplier of 31 bits. Results are monotonous in the sum, so a record is right for all sums if it is
right on both sides of each of the 255 steps, of int16 65,535.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tpulite.golden.ops import scale_accumulators
from tpulite.graph.layers import Requantization
from tpulite.quant.exactness.scaling import round_away
from tpulite.quant.tensors import UnsupportedError

_AT_ONCE = 1 << 13
"""Results that are checked at once: more channels do not fit the processor's caches."""


def match_thresholds(
    record: Requantization, scales: NDArray[np.float64], largest: int
) -> Requantization:
    """Return a requantization that is exact for all sums, with other multipliers if necessary.

    Parameters
    ----------
    record : Requantization
        With the multipliers next to the scales.
    scales : ndarray of float64
        The scales, as many as multipliers.
    largest : int
        Bound of the magnitude of sums without bias.

    Raises
    ------
    UnsupportedError
        If no multiplier near a scale is exact.
    """
    largest = min(largest + int(np.abs(record.bias.astype(np.int64)).max()), (1 << 31) - 1)
    multiplier = record.multiplier.copy()
    step = max(1, _AT_ONCE >> record.bits)
    for first in range(0, len(scales), step):
        block = slice(first, first + step)
        sums = _around_steps(scales[block], largest, record.bits)
        wanted = round_away(sums * scales[block])
        left = np.arange(first, min(first + step, len(scales)))
        for change in (0, 1, -1, 2, -2):
            candidates = record.multiplier[left].astype(np.int64) + change
            found = scale_accumulators(
                sums[:, left - first],
                multiplier=candidates,
                shift=record.shift[left],
                rounding=record.rounding,
            )
            right = (found == wanted[:, left - first]).all(axis=0)
            multiplier[left[right]] = candidates[right]
            left = left[~right]
            if not left.size:
                break
        else:
            scale = scales[left[0]]
            raise UnsupportedError(f"no multiplier gives LiteRT's results for the scale {scale}")
    return replace(record, multiplier=multiplier)


def _around_steps(scales: NDArray[np.float64], largest: int, bits: int) -> NDArray[np.int64]:
    """Return the sums next to those at which results change, [sums, scales].

    Sums that do not occur are zeros instead.
    """
    # Whatever the zero point, results beyond +-2**bits are clamped.
    halves = np.arange(-(1 << bits), (1 << bits) + 1) + 0.5
    middle = np.rint(halves[:, np.newaxis] / scales)
    middle = np.where(np.abs(middle) <= largest, middle, 0).astype(np.int64)
    sums = (middle + np.array([-1, 0, 1])[:, np.newaxis, np.newaxis]).reshape(-1, len(scales))
    return np.where(np.abs(sums) <= largest, sums, 0)
