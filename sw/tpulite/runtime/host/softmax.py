"""Softmax of int8 and uint8 tensors with the exact bits of TFLite's kernels.

Outputs have the scale 1/256 and the lowest integer as their zero point, as TFLite demands. Both
kernels were compared with LiteRT's, which sw/tests/runtime/test_host_softmax.py does again.
"""

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8
from tpulite.golden.ops import softmax
from tpulite.quant.exactness.softmax import fixed_point_exponentials


def exponentials(scale: float, beta: float) -> NDArray[np.float32]:
    """Return exp(-d * scale * beta) for differences d of 0 to 255, as the optimized kernel does."""
    exponents = (np.float32(-scale * beta) * np.arange(256, dtype=np.float32)).astype(np.float64)
    return np.exp(exponents).astype(np.float32)


def softmax_table(x: NDArray, scale: float, beta: float, bits: range) -> NDArray[np.int64]:
    """Return what TFLite's optimized kernel gives: float32 exponentials from a table.

    Parameters
    ----------
    x : ndarray of int8 or uint8, [..., n]
        Integers; softmax is along the last axis.
    beta : float
        Factor of the exponents.
    bits : range
        Integers of the output's dtype.
    """
    exps = exponentials(scale, beta)[x.max(axis=-1, keepdims=True).astype(np.int64) - x]
    total = np.zeros(x.shape[:-1], np.float32)
    for column in np.moveaxis(exps, -1, 0):  # float32 sums depend on their order
        total = total + column
    shares = exps * (np.float32(1) / (total * np.float32(1 / 256)))[..., None]
    rounded = np.floor(shares + np.float32(0.5)).astype(np.int64)
    return np.clip(rounded + bits[0], bits[0], bits[-1])


def softmax_fixed_point(x: NDArray, scale: float, beta: float, bits: range) -> NDArray[np.int64]:
    """Return what TFLite's reference kernel and TFLite Micro give: integers only.

    Parameters are those of :func:`softmax_table`.
    """
    return softmax(x, fixed_point_exponentials(scale, beta)).astype(np.int64) - INT8[0] + bits[0]
