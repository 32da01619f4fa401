"""Functions of one number as tables of 256 results, as each library computes them.

A table is indexed by the input less its smallest integer, and holds the int8 image of the result.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.litert import (
    absolute,
    hard_swish,
    leaky_relu,
    lookup,
    relu,
    requantize,
)
from tpulite.quant.exactness.ort import ort_table
from tpulite.quant.exactness.real import LOGARITHMIC, real_function
from tpulite.quant.exactness.scaling import activation_bounds
from tpulite.quant.exactness.xnnpack import (
    xnnpack_leaky_relu,
    xnnpack_lookup,
    xnnpack_requantize,
)
from tpulite.quant.tensors import Quantized, UnsupportedError

__all__ = ["FUNCTIONS", "function_table"]

FUNCTIONS = frozenset(
    {
        *("relu", "relu6", "relu_n1_1", "clip", "leaky_relu", "elu", "gelu"),
        *("sigmoid", "tanh", "hard_swish", "requantize", "abs", "exp", "log"),
    }
)
"""Operators that :func:`function_table` knows."""

_XNNPACK = ("sigmoid", "tanh", "elu")
_SIGNED = ("abs", "exp", "log")
"""Functions of LiteRT's kernels for int8 alone; TFLite Micro's were not compared."""

_CLAMPS = ("relu", "relu6", "relu_n1_1")


def function_table(
    op: str,
    x: Quantized,
    y: Quantized,
    attributes: Mapping[str, Any],
    exactness: Exactness,
    elements: int,
) -> NDArray[np.int8]:
    """Return the table of an operator.

    Parameters
    ----------
    op : str
        One of :data:`FUNCTIONS`.
    x, y : Quantized
        Input and output.
    attributes : mapping
        Attributes of the node.
    exactness : Exactness
        Whose arithmetic.
    elements : int
        Elements of the tensor: LiteRT's optimized kernels treat the last ones differently.

    Raises
    ------
    UnsupportedError
        If the library does not define the function, or not by one table.
    """
    if op not in FUNCTIONS:
        raise UnsupportedError(f"{op} was not compared with any library")
    if exactness == Exactness.ORT:
        return ort_table(op, x, y, attributes)
    if op in _CLAMPS and x == y:
        low, high = activation_bounds(op, y, Exactness.LITERT_REF)
        return np.clip(np.arange(-128, 128), low, high).astype(np.int8)
    if exactness == Exactness.BM1684X:
        raise UnsupportedError(f"the rule of bm1684x does not define {op}")
    if op == "clip":
        raise UnsupportedError("TFLite has no operator clip")
    return y.image(_litert(op, x, y, attributes, exactness, elements))


def _litert(
    op: str,
    x: Quantized,
    y: Quantized,
    attributes: Mapping[str, Any],
    exactness: Exactness,
    elements: int,
) -> NDArray[np.int64]:
    xnnpack = exactness == Exactness.LITERT_XNNPACK
    if op in _CLAMPS:
        return relu(x, y, *activation_bounds(op, y, Exactness.LITERT_REF))
    if op == "requantize":
        table = xnnpack_requantize(x, y) if xnnpack else None
        vectorized = exactness in (Exactness.LITERT_OPT, Exactness.LITERT_XNNPACK)
        return requantize(x, y, elements if vectorized else 0) if table is None else table
    if op == "leaky_relu":
        table = xnnpack_leaky_relu(x, y, attributes["alpha"]) if xnnpack else None
        return leaky_relu(x, y, attributes["alpha"]) if table is None else table
    if op == "hard_swish":
        return hard_swish(x, y)
    if op in _SIGNED and (x.unsigned or exactness == Exactness.TFLM):
        raise UnsupportedError(f"{exactness} has no {op} of {'u' * x.unsigned}int8")
    if op == "abs":
        return absolute(x, y)
    if op == "elu":
        if attributes.get("alpha", 1.0) != 1.0:
            raise UnsupportedError("TFLite's elu has no alpha")
        if x.unsigned or exactness in (Exactness.LITERT_REF, Exactness.TFLM):
            raise UnsupportedError(f"{exactness} has no elu of {'u' * x.unsigned}int8")
    if xnnpack and op in _XNNPACK:
        return xnnpack_lookup(op, x, y)
    function = LOGARITHMIC[op] if op in LOGARITHMIC else real_function(op, attributes)
    return lookup(op, x, y, function)
