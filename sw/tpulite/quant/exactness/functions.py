"""Functions of one number as tables of 256 results, as each library computes them.

A table is indexed by the input less its smallest integer, and holds the int8 image of the result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.graph.verify import FUNCTIONS as UNARY
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.litert import (
    Integers,
    absolute,
    hard_swish,
    leaky_relu,
    lookup,
    negative,
    relu,
    requantize,
)
from tpulite.quant.exactness.ort import ort_table
from tpulite.quant.exactness.real import logarithm, real_function
from tpulite.quant.exactness.roots import reciprocal_root, root
from tpulite.quant.exactness.scaling import activation_bounds, clip_bounds
from tpulite.quant.exactness.xnnpack import (
    xnnpack_leaky_relu,
    xnnpack_lookup,
    xnnpack_requantize,
)
from tpulite.quant.tensors import Quantized, UnsupportedError

FUNCTIONS = UNARY | {"requantize"}
"""Operators that :func:`function_table` knows, each for the libraries that define it."""

_CLAMPS = ("relu", "relu6", "relu_n1_1", "relu_0_1")


@dataclass(frozen=True)
class _Kernel:
    """A function as LiteRT's own kernels compute it."""

    #: Makes the integers of a table from input and output.
    table: Callable[[Quantized, Quantized], Integers]
    #: What XNNPACK computes instead.
    xnnpack: Callable[[Quantized, Quantized], Integers] | None = None
    int8: bool = False  #: Whether it is for int8 alone; then TFLite Micro's was not compared either
    reference: bool = True  #: Whether the reference kernels have it.

    def defines(self, x: Quantized, exactness: Exactness) -> bool:
        """Tell whether a library has the function of such an input."""
        if self.int8 and (x.unsigned or exactness == Exactness.TFLM):
            return False
        return self.reference or exactness not in (Exactness.LITERT_REF, Exactness.TFLM)


def _looked_up(op: str) -> Callable[[Quantized, Quantized], Integers]:
    """Return a kernel that looks results up which it has computed in float32."""
    return partial(lookup, op, logarithm if op == "log" else real_function(op, {}))


_KERNELS: Mapping[str, _Kernel] = {
    "abs": _Kernel(absolute, int8=True),
    "elu": _Kernel(_looked_up("elu"), partial(xnnpack_lookup, "elu"), int8=True, reference=False),
    "exp": _Kernel(_looked_up("exp"), int8=True),
    "hard_swish": _Kernel(hard_swish),
    "log": _Kernel(_looked_up("log"), int8=True),
    "neg": _Kernel(negative, int8=True),
    "rsqrt": _Kernel(reciprocal_root, int8=True),
    "sigmoid": _Kernel(_looked_up("sigmoid"), partial(xnnpack_lookup, "sigmoid")),
    "sqrt": _Kernel(root, int8=True),
    "tanh": _Kernel(_looked_up("tanh"), partial(xnnpack_lookup, "tanh")),
}
"""Functions without attributes that LiteRT has; those of ONNX Runtime are real functions."""


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
        raise UnsupportedError(f"{op} is not verified against any library")
    if exactness.ort:
        return ort_table(op, x, y, attributes)
    if op in (*_CLAMPS, "clip") and x == y:
        low, high = (
            clip_bounds(attributes["low"], attributes["high"], y)
            if op == "clip"
            else activation_bounds(op, y, Exactness.LITERT_REF)
        )
        return np.clip(np.arange(-128, 128), low, high).astype(np.int8)
    if exactness == Exactness.BM1684X:
        raise UnsupportedError(f"bm1684x numerics do not define {op}")
    if op == "clip":
        raise UnsupportedError("TFLite has no clip between two scales")
    return y.image(_litert(op, x, y, attributes, exactness, elements))


def _litert(
    op: str,
    x: Quantized,
    y: Quantized,
    attributes: Mapping[str, Any],
    exactness: Exactness,
    elements: int,
) -> Integers:
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
    if op == "gelu":
        return lookup(op, real_function(op, attributes), x, y)
    if op == "elu" and attributes.get("alpha", 1.0) != 1.0:
        raise UnsupportedError("TFLite's elu has no alpha")
    kernel = _KERNELS.get(op)
    if kernel is None or not kernel.defines(x, exactness):
        raise UnsupportedError(f"{exactness} has no {op} of {'u' * x.unsigned}int8")
    return kernel.xnnpack(x, y) if xnnpack and kernel.xnnpack else kernel.table(x, y)
