"""Ranges of tensors for 8 bits, chosen by what they lose."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Method = Literal["mse", "minmax", "percentile", "entropy"]
METHODS: tuple[Method, ...] = ("mse", "minmax", "percentile", "entropy")

Range = tuple[float, float]
"""Lowest and highest number of a tensor that 8 bits have."""

_LEVELS = 255
"""Steps between the lowest and the highest number."""

_FRACTIONS = np.concatenate([np.linspace(1.0, 0.5, 26), np.linspace(0.48, 0.04, 23)])
"""Parts of each end that are tried."""

_DEAD = 1e-20
"""Below it a tensor is zero: a scale of it could not be multiplied."""

_LIVE = 1e-4
"""Share of the largest probability of a row that attention still notices."""

_GRID = 16
"""Ends that are tried on each side of scores."""


@dataclass(frozen=True)
class Histogram:
    """What was seen of a tensor."""

    #: The smallest and the largest number.
    low: float
    high: float
    #: Numbers in bins of equal width from ``low`` to ``high``; exact zeros are not counted.
    counts: np.ndarray

    @property
    def ends(self) -> Range:
        """Return the whole range with zero in it; (0, 0) of a tensor that is always zero."""
        low, high = min(0.0, self.low), max(0.0, self.high)
        return (0.0, 0.0) if high - low < _DEAD else (low, high)

    @property
    def largest(self) -> float:
        """Return the largest magnitude."""
        return max(-self.low, self.high)

    @property
    def centers(self) -> np.ndarray:
        """Return the middle of each bin."""
        width = (self.high - self.low) / self.counts.size
        return self.low + width * (np.arange(self.counts.size) + 0.5)


def rounded(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return numbers as 8 bits of a range have them."""
    step = (high - low) / _LEVELS or 1.0
    zero = np.round(-low / step)
    return (np.clip(np.round(values / step) + zero, 0, _LEVELS) - zero) * step


def choose_range(seen: Histogram, method: Method, percentile: float = 100.0) -> Range:
    """Choose the range of a tensor.

    Parameters
    ----------
    seen : Histogram
        What was seen of it.
    method : str
        ``mse``: least squared error of rounding and clipping. ``minmax``: everything that was seen.
        ``percentile``: a share of it. ``entropy``: least divergence of the distributions.
    percentile : float
        That share, in percent.
    """
    low, high = seen.ends
    if low == high or method == "minmax" or not seen.counts.sum():
        return low, high
    if method == "percentile":
        return _percentile(seen, percentile)
    lows = low * _FRACTIONS if low < 0 else np.zeros(1)
    highs = high * _FRACTIONS if high > 0 else np.zeros(1)
    pairs = np.array([(a, b) for a in lows for b in highs if a < b])
    if method == "entropy":
        pairs = pairs[:: max(1, len(pairs) // 200)]
        return _best(pairs, np.array([_divergence(seen, a, b) for a, b in pairs]))
    return _best(pairs, _squared_errors(seen, pairs))


def _best(pairs: np.ndarray, costs: np.ndarray) -> Range:
    low, high = pairs[int(np.argmin(costs))]
    return float(low), float(high)


def _percentile(seen: Histogram, percentile: float) -> Range:
    """Leave out half of the rest on each side."""
    if percentile == 100:
        return seen.ends
    share = np.cumsum(seen.counts) / seen.counts.sum()
    rest = (1 - percentile / 100) / 2
    low, high = (float(np.interp(at, share, seen.centers)) for at in (rest, 1 - rest))
    return min(0.0, low), max(0.0, high)


def _squared_errors(seen: Histogram, pairs: np.ndarray) -> np.ndarray:
    """Return the squared error of each range: a twelfth of a step's square inside, all outside."""
    x, n = seen.centers, seen.counts.astype(np.float64)
    sums = [np.concatenate([[0.0], np.cumsum(n * x**power)]) for power in range(3)]
    low, high = pairs.T
    first, last = np.searchsorted(x, low), np.searchsorted(x, high, side="right")

    def outside(end: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        zero, one, two = (part[stop] - part[start] for part in sums)
        return two - 2 * end * one + end**2 * zero

    begin, size = np.zeros_like(first), np.full_like(last, x.size)
    inside = (sums[0][last] - sums[0][first]) * ((high - low) / _LEVELS) ** 2 / 12
    return inside + outside(low, begin, first) + outside(high, last, size)


def _divergence(seen: Histogram, low: float, high: float) -> float:
    """Return the Kullback-Leibler divergence of a tensor with a range from the tensor.

    What is clipped counts at the first and the last bin inside, as ends of the range.
    """
    x, n = seen.centers, seen.counts.astype(np.float64)
    used = np.flatnonzero((x >= low) & (x <= high) & (n > 0))
    if not used.size:
        return np.inf
    p = n[used]
    level = np.round((x[used] - low) * (_LEVELS / (high - low))).astype(int)
    mass, bins = np.bincount(level, p), np.bincount(level)
    q = mass[level] / bins[level] / p.sum()
    p[0] += n[: used[0]].sum()
    p[-1] += n[used[-1] + 1 :].sum()
    p /= p.sum()
    return float((p * np.log(p / q)).sum())


def attention_range(rows: np.ndarray) -> Range:
    """Choose the range of scores before softmax by what the probabilities lose.

    Parameters
    ----------
    rows : ndarray
        Rows of scores; masked ones are far below the others, or minus infinity.
    """
    rows = np.maximum(rows.astype(np.float64), -1e30)
    wanted = _softmax(rows)
    live = rows[wanted > _LIVE * wanted.max(axis=1, keepdims=True)]
    highs = max(0.0, live.max()) * np.linspace(1, 0.6, _GRID // 2)
    lows = np.minimum(np.quantile(live, np.linspace(0, 0.9, _GRID)), 0.0)
    lows = np.concatenate([[min(0.0, live.min()) - 4], lows])
    pairs = np.array([(a, b) for a in lows for b in np.unique(highs) if a < b])
    if not len(pairs):
        return -1.0, 0.0
    return _best(pairs, np.array([_lost_attention(rows, wanted, a, b) for a, b in pairs]))


def _lost_attention(rows: np.ndarray, wanted: np.ndarray, low: float, high: float) -> float:
    return float(np.square(_softmax(rounded(rows, low, high)) - wanted).sum())


def _softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
