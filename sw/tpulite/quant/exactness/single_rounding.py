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

__all__ = ["match_thresholds"]


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
    for channel, scale in enumerate(scales):
        sums = _around_steps(float(scale), largest, record.bits)
        wanted = round_away(sums * scale)
        for step in (0, 1, -1, 2, -2):
            candidate = int(record.multiplier[channel]) + step
            found = scale_accumulators(
                sums,
                multiplier=candidate,
                shift=record.shift[channel],
                rounding=record.rounding,
            )
            if np.array_equal(found, wanted):
                multiplier[channel] = candidate
                break
        else:
            raise UnsupportedError(f"no multiplier gives LiteRT's results for the scale {scale}")
    return replace(record, multiplier=multiplier)


def _around_steps(scale: float, largest: int, bits: int) -> NDArray[np.int64]:
    """Return the sums next to those at which the result changes, as far as they occur."""
    # Whatever the zero point, results beyond +-2**bits are clamped.
    halves = np.arange(-(1 << bits), (1 << bits) + 1) + 0.5
    middle = np.rint(halves / scale)
    middle = middle[np.abs(middle) <= largest].astype(np.int64)
    sums = np.unique(middle[:, np.newaxis] + np.arange(-1, 2))
    return sums[np.abs(sums) <= largest]
