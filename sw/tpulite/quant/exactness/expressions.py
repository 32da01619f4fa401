"""Expressions of one number in float32: their values, and how far a library's may be from them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tpulite.graph.expressions import Step, X
from tpulite.quant.exactness.real import real_function

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
