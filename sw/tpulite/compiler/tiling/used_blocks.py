"""Weights that multiply nothing: convolutions in groups, and pruned ones, are mostly zeros."""

from weakref import WeakKeyDictionary

import numpy as np

from tpulite.graph.layers import Conv

__all__ = ["used_blocks", "used_runs"]

_KNOWN: WeakKeyDictionary[Conv, dict[int, np.ndarray]] = WeakKeyDictionary()


def used_blocks(layer: Conv, size: int) -> np.ndarray:
    """Return which channel blocks of the input the n-blocks of a convolution need.

    A weight that is the zero point adds nothing, and so does a tile of them.

    Parameters
    ----------
    layer : Conv
        The layer.
    size : int
        Size of the array.

    Returns
    -------
    ndarray of bool, [n-blocks, channel blocks]
        At least one for each n-block, so that there is a command that drains.
    """
    known = _KNOWN.setdefault(layer, {})
    if size not in known:
        channels, outputs = layer.weight.shape[2:]
        flat = layer.weight.reshape(-1, channels, outputs)
        # Sums over n-blocks first: bytes of an n-block are beside each other.
        some = np.zeros((channels, -(-outputs // size)), bool)
        for n in range(some.shape[1]):
            piece = flat[:, :, n * size : (n + 1) * size]
            some[:, n] = (piece != layer.weight_zero_point).any(axis=(0, 2))
        used = np.array([some[k : k + size].any(axis=0) for k in range(0, channels, size)]).T
        used[~used.any(axis=1), 0] = True
        known[size] = used
    return known[size]


def used_runs(layer: Conv, size: int, n: int) -> list[range]:
    """Return the channel blocks of an n-block that are needed, as runs."""
    used = np.flatnonzero(used_blocks(layer, size)[n])
    pieces = np.split(used, np.flatnonzero(np.diff(used) > 1) + 1)
    return [range(int(piece[0]), int(piece[-1]) + 1) for piece in pieces]
