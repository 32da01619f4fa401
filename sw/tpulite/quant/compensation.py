"""Weights that are rounded so that their products lose least, each for the errors before it."""

import numpy as np

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
