"""Weights that are integers times a scale already, as files with integer weights have them."""

import numpy as np
import onnx

from tpulite.quant.floats.dead import (
    Overrides,
    channels_of_weights,
    ranges_of_channels,
    usual_ends,
)

_LARGEST = 127
"""Of int8 without zero point."""

_TOLERANCE = 1e-4
"""How far a weight may be from an integer; float32 rounds a product of 127 by less."""

_TRIED = 16
"""Weights of a channel that are looked at before all are."""


def integral_channels(graph: onnx.GraphProto) -> Overrides:
    """Return ranges of weights with which int8 is exact.

    The range of a channel is 127 times a number of which its weights are multiples. Left out are
    weights that have a channel without such a range, and those whose largest weights are the ends
    anyway.
    """
    found: Overrides = {}
    for name, axis, rows in channels_of_weights(graph):
        ends, dead = usual_ends(np.abs(rows).max(axis=1, initial=0))
        steps = [_LARGEST if dead[i] else _steps(np.abs(row)) for i, row in enumerate(rows)]
        if 0 not in steps and min(steps) < _LARGEST:
            found[name] = ranges_of_channels(axis, ends * _LARGEST / steps)
    return found


def _steps(row: np.ndarray) -> int:
    """Return how many steps the largest weight has if all are whole; 0 if there are no such."""
    largest = row.max()
    counts = np.arange(_LARGEST, 0, -1)
    some = row[:: max(1, len(row) // _TRIED)] / largest
    for count in counts[_are_integers(np.multiply.outer(counts, some))]:
        if _are_integers(row / largest * count):
            return int(count)
    return 0


def _are_integers(values: np.ndarray) -> np.ndarray:
    """Tell of each row whether it has integers alone."""
    return np.all(np.abs(values - np.rint(values)) < _TOLERANCE, axis=-1)
