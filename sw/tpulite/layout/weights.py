"""Weights: tiles of the size of the array, all of an n-block one after the other."""

import numpy as np

from tpulite.arch.config import Config


def pack_weights(weight: np.ndarray, config: Config, *, zero_point: int = 0) -> np.ndarray:
    """Cut a weight matrix into tiles.

    Parameters
    ----------
    weight : ndarray of int8, [K, N]
        The matrix.
    zero_point : int
        What unused weights hold, so that they count as zero.

    Returns
    -------
    ndarray of int8, [n-blocks, k-tiles, array_size, array_size]
        Tiles in the order of memory; the last axis is the output channel.

    Examples
    --------
    >>> tiles = pack_weights(np.ones((5, 3), np.int8), Config(array_size=4), zero_point=7)
    >>> tiles.shape, tiles[0, 1].tolist()
    ((1, 2, 4, 4), [[1, 1, 1, 7], [7, 7, 7, 7], [7, 7, 7, 7], [7, 7, 7, 7]])
    """
    n = config.array_size
    k_tiles, n_blocks = (-(-extent // n) for extent in weight.shape)
    padded = np.full((k_tiles * n, n_blocks * n), zero_point, np.int8)
    padded[: weight.shape[0], : weight.shape[1]] = weight
    tiles = padded.reshape(k_tiles, n, n_blocks, n).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(tiles)


def unpack_weights(tiles: np.ndarray, k: int, n: int) -> np.ndarray:
    """Return the matrix ``[k, n]``; the inverse of :func:`pack_weights`."""
    n_blocks, k_tiles, size, _ = tiles.shape
    padded = tiles.transpose(1, 2, 0, 3).reshape(k_tiles * size, n_blocks * size)
    return np.ascontiguousarray(padded[:k, :n])
