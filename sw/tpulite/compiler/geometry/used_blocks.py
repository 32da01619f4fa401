"""Weights that multiply nothing: convolutions in groups, and pruned ones, are mostly zeros."""

from weakref import finalize

import numpy as np

from tpulite.graph.layers import Conv

_KNOWN: dict[tuple[int, int, int], np.ndarray] = {}
"""By array of weights (layers are compared by their names), zero point and size."""


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
    key = (id(layer.weight), layer.weight_zero_point, size)
    if key not in _KNOWN:
        _KNOWN[key] = _used_blocks(layer, size)
        finalize(layer.weight, _KNOWN.pop, key)
    return _KNOWN[key]


def used_runs(layer: Conv, size: int, n: int) -> list[range]:
    """Return the channel blocks of an n-block that are needed, as runs of one digit each."""
    needed = used_blocks(layer, size)[n]
    if needed.all() and layer.digits is None:
        return [range(len(needed))]
    used = np.flatnonzero(needed)
    ends = np.diff(used) > 1
    if layer.digits is not None:
        firsts = layer.digits[used * size]
        if any(
            (layer.digits[k * size : (k + 1) * size] != layer.digits[k * size]).any() for k in used
        ):
            raise ValueError(f"{layer.title} has blocks of {size} channels of different digits")
        ends |= np.diff(firsts) != 0
    pieces = np.split(used, np.flatnonzero(ends) + 1)
    return [range(int(piece[0]), int(piece[-1]) + 1) for piece in pieces]


def _used_blocks(layer: Conv, size: int) -> np.ndarray:
    channels, outputs = layer.weight.shape[2:]
    flat = layer.weight.reshape(-1, channels, outputs)
    some = np.zeros((channels, -(-outputs // size)), bool)
    for n in range(some.shape[1]):
        piece = flat[:, :, n * size : (n + 1) * size]
        some[:, n] = (piece != layer.weight_zero_point).any(axis=(0, 2))
    used = np.array([some[k : k + size].any(axis=0) for k in range(0, channels, size)]).T
    used[~used.any(axis=1), 0] = True
    return used
