"""Tensors of int16 as the machine has them: each vector is two of int8."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["join_int16", "split_int16"]


def split_int16(values: NDArray[np.int16]) -> NDArray[np.int8]:
    """Return upper bytes, then lower bytes with the top bit inverted: 256 u + l + 128.

    Parameters
    ----------
    values : array of int16, [..., C]
        Vectors of a tensor.

    Returns
    -------
    array of int8, [vectors, 2, C]
        The pair of each vector.

    Examples
    --------
    >>> split_int16(np.array([-32768, -1, 0, 256], np.int16)).tolist()
    [[[-128, -1, 0, 1], [-128, 127, -128, -128]]]
    """
    vectors = values.reshape(-1, values.shape[-1])
    upper, lower = (vectors >> 8).astype(np.int8), vectors.astype(np.uint8) ^ 0x80
    return np.stack([upper, lower.view(np.int8)], axis=1)


def join_int16(pairs: NDArray[np.int8]) -> NDArray[np.int16]:
    """Return the vectors [..., C] of pairs [..., 2, C]; the inverse of :func:`split_int16`."""
    upper, lower = (pairs[..., i, :].astype(np.int16) for i in (0, 1))
    return (upper << 8) + lower + np.int16(128)
