"""Ranges of all results on drawn stories."""

from collections.abc import Sequence

import numpy as np

from story.network import Network

LEAST_SCORE = 24.0
"""How far below the largest score the range of scores begins: its share is nothing."""


def calibrate(network: Network, stories: Sequence[Sequence[int]]) -> dict[str, tuple[float, float]]:
    """Return least and most value of each result by name, and of squares."""
    ranges: dict[str, tuple[float, float]] = {}
    for tokens in stories:
        y = network.forward(np.array(tokens[:-1])[None])
        for name, value in y.items():
            inside = value[value > -1e8]
            low, high = ranges.get(name, (np.inf, -np.inf))
            ranges[name] = min(low, float(inside.min())), max(high, float(inside.max()))
    for name, (low, high) in ranges.items():
        if name.endswith(".scores"):
            ranges[name] = max(low, high - LEAST_SCORE), high
    return ranges
