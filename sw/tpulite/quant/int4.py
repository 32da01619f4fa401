"""Weights of 4 bits: integers of channels, scales that lose least of their products, and GPTQ."""

import numpy as np

MOST_INT4 = 7
"""Largest weight; the smallest one is -8."""

_ENDS = -MOST_INT4 - 1, MOST_INT4

_SHARES = np.linspace(1, 0.4, 61)
"""Parts of the range of a channel that are tried; weights beyond are clamped."""


def int4_rows(
    weight: np.ndarray,
    moments: np.ndarray | None = None,
    *,
    per_row: bool = True,
    alone: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a matrix as integers of 4 bits, and the scale of each.

    Scales are those of the smallest squared error of the products; without moments, of the weights.
    With moments each weight also makes up for the errors of those before it.

    Parameters
    ----------
    weight : ndarray of float, [rows, columns]
        The matrix; a row is an output channel.
    moments : ndarray of float, [columns, columns], optional
        Sums of products of any two inputs, over samples.
    per_row : bool
        Whether each row has its own scale.
    alone : bool
        Whether scales count the error of each weight alone, by the mean square of its input, not
        products of two inputs: for C columns the search takes about C times fewer operations.

    Returns
    -------
    rows : ndarray of int8, [rows, columns]
        From -8 to 7.
    scale : ndarray of float32, [rows]
        What 1 means in each row.

    Examples
    --------
    >>> rows, scale = int4_rows(np.array([[0.5, -3.5, 1.0]]))
    >>> rows.tolist(), scale.tolist()
    ([[1, -7, 2]], [0.5])
    """
    weight = weight.astype(np.float64)
    most = np.abs(weight).max(axis=1, initial=0)
    most = most if per_row else np.full(len(most), most.max())
    most = np.where(most > 0, most, MOST_INT4)
    if moments is not None:
        moments = damped(moments)
    least, scale = np.full(len(weight), np.inf), np.ones(len(weight), np.float32)
    for share in _SHARES:
        tried = (most * share / MOST_INT4).astype(np.float32)
        error = _rounded(weight, tried) * tried[:, None] - weight
        lost = (_spread(error, moments, alone=alone) * error).sum(axis=1)
        lost = lost if per_row else np.full(len(lost), lost.sum())
        scale = np.where(lost < least, tried, scale)
        least = np.minimum(lost, least)
    if moments is None:
        return _rounded(weight, scale).astype(np.int8), scale
    return compensated(weight, scale, moments, _ENDS).astype(np.int8), scale


def pack_int4(values: np.ndarray) -> np.ndarray:
    """Return integers of 4 bits as bytes, uint8: the first of two is the lower half."""
    flat = values.reshape(-1).astype(np.uint8)
    flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
    return (flat[0::2] & 15) | (flat[1::2] << 4)


def _rounded(weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(weight / scale[:, None]), *_ENDS)


def _spread(error: np.ndarray, moments: np.ndarray | None, *, alone: bool) -> np.ndarray:
    """Return errors of weights as far as products have them."""
    if moments is None:
        return error
    return error * np.diag(moments) if alone else error @ moments


_DAMPING = 0.01
"""Added to mean squares of inputs, in parts of their mean: some inputs are always zero."""

_BLOCK = 64
"""Columns that are rounded before the others make up for their errors, all at once."""


def damped(moments: np.ndarray) -> np.ndarray:
    """Return sums of products of inputs, with a little more on the diagonal."""
    more = _DAMPING * max(float(np.trace(moments)) / len(moments), 1e-12)
    return moments + more * np.eye(len(moments))


def compensated(
    weight: np.ndarray, scale: np.ndarray, moments: np.ndarray, ends: tuple[int, int]
) -> np.ndarray:
    """Round the rows of a matrix column by column; those that follow make up for the error.

    This is GPTQ (Frantar et al., arXiv:2210.17323), the columns with the largest inputs first.

    Parameters
    ----------
    weight : ndarray of float64, [rows, columns]
        The matrix; a row is an output channel.
    scale : ndarray of float, [rows]
        What 1 means in each row.
    moments : ndarray of float64, [columns, columns]
        Sums of products of any two inputs, over samples; see :func:`damped`.
    ends : (int, int)
        The smallest and the largest integer.

    Returns
    -------
    ndarray of float64, [rows, columns]
        Integers.
    """
    order = np.argsort(-np.diag(moments), kind="stable")
    left, rows = weight[:, order], np.empty_like(weight)
    upper = np.linalg.cholesky(np.linalg.inv(moments[np.ix_(order, order)])).T
    for start in range(0, len(order), _BLOCK):
        stop = min(start + _BLOCK, len(order))
        errors = np.empty((len(weight), stop - start))
        for i in range(start, stop):
            integers = np.clip(np.rint(left[:, i] / scale), *ends)
            error = (left[:, i] - integers * scale) / upper[i, i]
            left[:, i + 1 : stop] -= error[:, None] * upper[i, i + 1 : stop]
            rows[:, order[i]], errors[:, i - start] = integers, error
        left[:, stop:] -= errors @ upper[start:stop, stop:]
    return rows
