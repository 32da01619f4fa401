"""Tensors of int16 as the machine has them: each vector is two columns of int8."""

import numpy as np
from numpy.typing import NDArray


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


def join_int16(columns: NDArray[np.int8]) -> NDArray[np.int16]:
    """Return the vectors [vectors, C] of columns [..., C]; the inverse of :func:`split_int16`.

    Examples
    --------
    >>> join_int16(np.array([[[0, -1], [-128, 127]]], np.int8)).tolist()
    [[0, -1]]
    """
    pairs = columns.reshape(-1, 2, columns.shape[-1]).astype(np.int16)
    upper, lower = pairs[:, 0], pairs[:, 1]
    return (upper << 8) + lower + np.int16(128)
