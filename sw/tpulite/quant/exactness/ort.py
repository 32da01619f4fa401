"""Tables of ONNX Runtime: DequantizeLinear, a function in float32, QuantizeLinear.

The formula was found by comparison. MLAS approximates exponentials, and the sigmoid differed from
the true function's in 3 of 1,024,000 results: a table counts only if no result is so near to the
middle between two integers that the last bits decide.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.graph.expressions import Step, X
from tpulite.quant.exactness.litert import check_halves
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


_ROUNDING = 2.0**-22
"""Bound of the relative error of arithmetic, however a library fuses it."""

_APPROXIMATION = 2.0**-21
"""Bound of the relative error of functions."""

_PAIRS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
"""Operators of two numbers."""


def evaluate_steps(
    steps: Sequence[Step], x: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the results of the last step, and bounds of their errors.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    x : ndarray of float32
        Arguments, exact.
    """
    values: dict[int, np.ndarray] = {X: x}
    errors: dict[int, np.ndarray] = {X: np.zeros(x.shape)}
    with np.errstate(all="ignore"):
        for number, (op, arguments, attributes) in enumerate(steps):
            given = [values[i] for i in arguments]
            margins = [errors[i] for i in arguments]
            if op == "constant":
                values[number] = np.full(x.shape, attributes["value"], np.float32)
                errors[number] = np.abs(values[number].astype(np.float64)) * _ROUNDING
                continue
            function = _PAIRS.get(op) or real_function(op, attributes)
            values[number] = function(*given).astype(np.float32)
            errors[number] = _error(op, function, values[number], given, margins)
    last = len(steps) - 1
    return values[last], errors[last]


def _error(
    op: str,
    function: Callable[..., np.ndarray],
    result: np.ndarray,
    given: list[np.ndarray],
    margins: list[np.ndarray],
) -> np.ndarray:
    """Return how far a step's result may be from another library's."""
    size = np.abs(result.astype(np.float64))
    if op == "mul":
        (a, b), (da, db) = (np.abs(each.astype(np.float64)) for each in given), margins
        return a * db + b * da + da * db + size * _ROUNDING
    if op in _PAIRS:
        return margins[0] + margins[1] + size * _ROUNDING
    (x,), (margin,) = given, margins
    ends = [function((x + sign * margin).astype(np.float32)) for sign in (-1, 1)]
    slope = np.abs(ends[1].astype(np.float64) - ends[0]) + margin
    return slope + np.maximum(size, np.abs(x) + 1) * _APPROXIMATION
