"""Functions of float32, and what single libraries compute instead."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tpulite.graph.functions import FUNCTIONS, Floats, wide
from tpulite.quant.tensors import UnsupportedError

_F = np.float32

APPROXIMATED = frozenset(name for name, each in FUNCTIONS.items() if not each.exact) | {
    "expression"
}
"""Functions whose last bits depend on the CPU and on the library of mathematics."""


def real_function(op: str, attributes: Mapping[str, Any]) -> Callable[[Floats], Floats]:
    """Return an operator as a function of float32 arrays.

    Raises
    ------
    UnsupportedError
        If there is no such operator.
    """
    if op not in FUNCTIONS:
        raise UnsupportedError(f"{op} is not verified against any library")
    function = FUNCTIONS[op]
    given = {name: _F(attributes.get(name, value)) for name, value in function.attributes.items()}
    return partial(function.formula, **given)


def sigmoid_once_rounded(x: Floats) -> Floats:
    """Return the sigmoid rounded to float32 at the end alone, as XNNPACK's is."""
    return wide(lambda each: 1 / (1 + np.exp(-each)), x)


def logarithm(x: Floats) -> Floats:
    """Return logarithms as LiteRT does: far below every range for what has none."""
    return np.where(x > 0, wide(np.log, np.maximum(x, _F(1e-30))), _F(-1e20))
