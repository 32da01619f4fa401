"""Tables of ONNX Runtime: DequantizeLinear, a function in float32, QuantizeLinear.

The formula was found by comparison. MLAS approximates exponentials, and the sigmoid differed from
the true function's in 3 of 1,024,000 results: a table counts only if no result is so near to the
middle between two integers that the last bits decide.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.quant.exactness.expressions import evaluate_steps
from tpulite.quant.exactness.near_halves import check_halves
from tpulite.quant.exactness.real import real_function
from tpulite.quant.tensors import Quantized, UnsupportedError

_ERROR = 2.0**-21
"""Bound of the relative error of MLAS's polynomials and of what is computed from them."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def ort_table(
    op: str, x: Quantized, y: Quantized, attributes: Mapping[str, Any]
) -> NDArray[np.int8]:
    """Return the table of an operator: half to even, then the zero point.

    Raises
    ------
    UnsupportedError
        If a result is no number, or depends on the CPU.
    """
    with np.errstate(over="ignore"):  # an infinity is clamped, or no number in the end
        real = (x.integers() - x.zero_point).astype(np.float32) * x.scale
    bound = None
    if op == "expression":
        result, bound = evaluate_steps(attributes["steps"], real)
    else:
        result = real if op == "requantize" else _function(op, attributes)(real)
    with np.errstate(over="ignore"):
        scaled = result.astype(np.float32) / y.scale
    if np.isnan(scaled).any():
        raise UnsupportedError(f"{op} produces NaN")
    scaled = np.clip(scaled, -(2.0**30), 2.0**30)
    # Relative errors of results, and of what they are differences of: 1, or half the argument.
    error = (np.abs(scaled) * _ERROR + np.maximum(np.abs(real), 1) * _ERROR / 2 / y.scale).astype(
        np.float64
    )
    if bound is not None:
        error = bound / float(y.scale) + np.abs(scaled) * _ERROR
    check_halves(op, real, scaled, error, y)
    return y.image(np.rint(scaled).astype(np.int64) + y.zero_point)


def _function(op: str, attributes: Mapping[str, Any]):
    one = np.float32(1)
    if op == "gelu":
        if attributes.get("approximate"):
            raise UnsupportedError("gelu by tanh is not verified against ONNX Runtime")
        half, root = np.float32(0.5), np.float32(math.sqrt(0.5))
        return lambda x: half * x * (one + _erf(x * root).astype(np.float32))
    if op == "elu":
        alpha = np.float32(attributes.get("alpha", 1.0))
        return lambda x: np.where(x >= 0, x, alpha * (np.exp(np.minimum(x, 0)) - one))
    return real_function(op, attributes)
