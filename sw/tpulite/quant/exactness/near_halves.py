"""Tables of functions that libraries only approximate."""

import numpy as np
from numpy.typing import NDArray

from tpulite.quant.tensors import Quantized, UnsupportedError

APPROXIMATED = (
    *("sigmoid", "tanh", "elu", "gelu", "exp", "log", "sin", "cos", "erf", "mish", "softplus"),
    *("hard_sigmoid", "reciprocal", "selu", "sqrt", "expression"),
)
"""Functions whose last bits depend on the CPU and on the library of mathematics."""


def check_halves(
    op: str,
    real: NDArray[np.float32],
    scaled: NDArray[np.float32],
    error: NDArray[np.float64],
    y: Quantized,
) -> None:
    """Refuse a table in which the last bits of a result decide how it is rounded.

    Parameters
    ----------
    op : str
        The function.
    real : ndarray of float32
        Its arguments. At 0 all of them are exact, and ELU is nowhere approximated above.
    scaled : ndarray of float32
        Results in steps of the output, before they are rounded.
    error : ndarray of float64
        Bound of what the last bits can change, in these steps.
    y : Quantized
        The output; results that are clamped anyway do not count.

    Raises
    ------
    UnsupportedError
        If a result lies that near to the middle between two integers.
    """
    exact = real >= 0 if op == "elu" else real == 0
    wide = scaled.astype(np.float64)
    near = np.abs(wide - np.floor(wide) - 0.5) <= error
    place = wide + y.zero_point
    inside = (place > y.low - 1) & (place < y.high + 1)
    if op in APPROXIMATED and np.any(near & inside & ~exact):
        raise UnsupportedError(f"the rounding of {op} depends on the CPU")
