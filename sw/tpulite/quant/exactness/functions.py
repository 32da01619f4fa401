"""Functions of one number as tables of 256 results, as each library computes them.

A table is indexed by the input less its smallest integer, and holds the int8 image of the result.

LiteRT's square root and reciprocal square root of int8, in integers, not yet clamped.

Sources: tensorflow/lite/kernels/elementwise.cc, and ``GetInvSqrtQuantizedMultiplierExp`` of
internal/quantization_util. LiteRT stops at negative numbers; tables say the least integer there.

Tables of XNNPACK, in integers of the tensors, not yet clamped.

The multipliers of leaky ReLU and their limits are those of XNNPACK's src/microparams-init.c
(``xnn_init_qs8_lrelu_scalar_params``); the rest was found by comparison. What XNNPACK refuses,
LiteRT computes itself.

Concatenation of tensors of different scales.

TFLite requantizes uint8 alone, in float32; ONNX Runtime dequantizes and quantizes. Both formulas
were found by comparison with the libraries' results.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import Rounding, quantize_multiplier
from tpulite.golden.ops import scale_accumulators
from tpulite.graph.verify import FUNCTIONS as UNARY
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.litert import (
    Integers,
    absolute,
    check_halves,
    hard_swish,
    leaky_relu,
    lookup,
    negative,
    relu,
    requantize,
)
from tpulite.quant.exactness.ort import ort_table
from tpulite.quant.exactness.real import logarithm, real_function, sigmoid_once_rounded
from tpulite.quant.exactness.scaling import activation_bounds, clip_bounds, round_away
from tpulite.quant.tensors import Quantized, UnsupportedError


def xnnpack_requantize(x: Quantized, y: Quantized) -> Integers | None:
    """Multiply by a number with 8 fractional bits, half up; None if XNNPACK refuses."""
    scale = x.scale / y.scale
    if x.unsigned != y.unsigned or not 2.0**-8 <= scale <= 2.0**7:
        return None
    return _fixed_point(x, y, _multiplier(scale))


def xnnpack_leaky_relu(x: Quantized, y: Quantized, alpha: float) -> Integers | None:
    """Do the same with another multiplier below zero; None if XNNPACK refuses."""
    scale = x.scale / y.scale
    negative = scale * np.float32(alpha)
    if not 2.0**-8 <= scale <= 2.0**7 or not 2.0**-8 <= abs(negative) <= 2.0**7:
        return None
    values = x.integers()
    return np.where(
        values >= x.zero_point,
        _fixed_point(x, y, _multiplier(scale)),
        _fixed_point(x, y, _multiplier(negative)),
    )


def xnnpack_lookup(op: str, x: Quantized, y: Quantized) -> Integers:
    """Tabulate in float32; the zero point is added before rounding half to even."""
    real = (x.integers() - x.zero_point).astype(np.float32) * x.scale
    function = sigmoid_once_rounded if op == "sigmoid" else real_function(op, {})
    scaled = function(real) * (np.float32(1) / y.scale)
    # The sum with the zero point is rounded to 24 bits, too, of which up to 9 are whole steps.
    error = np.abs(scaled).astype(np.float64) * 2.0**-22 + 2.0**-15
    check_halves(op, real, scaled, error, y)
    return np.rint(scaled + np.float32(y.zero_point)).astype(np.int64)


def _multiplier(scale: np.float32) -> int:
    return int(np.rint(np.float32(256) * scale))


def _fixed_point(x: Quantized, y: Quantized, multiplier: int) -> Integers:
    values = x.integers() - x.zero_point
    return (values * multiplier + (y.zero_point << 8) + 128) >> 8


_EXTRA = 20
"""Fractional bits of a reciprocal root before it gets the scale of the output."""

_ONE = 1 << 28
"""1 with 28 fractional bits."""


def root(x: Quantized, y: Quantized) -> Integers:
    """Compute in float32, every operation rounded; the quotient loses its fraction."""
    values = x.integers() - x.zero_point
    real = x.scale * np.maximum(values, 0).astype(np.float32)
    quotient = np.minimum(np.sqrt(real) / y.scale, np.float32(2**30))
    return np.where(values < 0, y.low, np.trunc(quotient).astype(np.int64) + y.zero_point)


def reciprocal_root(x: Quantized, y: Quantized) -> Integers:
    """Multiply by the reciprocal root of the integer, by five steps of Newton's method.

    The result of 0 is the largest integer.
    """
    scale = 1.0 / float(np.sqrt(x.scale) * y.scale)
    multiplier, shift = quantize_multiplier(scale)
    results = np.full(len(x.integers()), y.low)
    for index, value in enumerate((x.integers() - x.zero_point).tolist()):
        if value == 0:
            results[index] = y.high
        if value > 0:
            data = _scale(1, *_reciprocal_root(value, _EXTRA))
            results[index] = _scale(data, multiplier, shift - _EXTRA) + y.zero_point
    return results


def _scale(value: int, multiplier: int, shift: int) -> int:
    return int(
        scale_accumulators(value, multiplier=multiplier, shift=shift, rounding=Rounding.TFLITE)
    )


def _reciprocal_root(value: int, more: int) -> tuple[int, int]:
    """Return multiplier and shift that are 2**more over the root of a positive integer."""
    if value == 1:
        return (1 << 31) - 1, more
    pairs = (31 - value.bit_length()) // 2 - 1
    number = value << (2 * pairs - 1)
    half, guess = (number + 1) >> 1, _ONE
    for _ in range(5):
        cube = _high(_high(guess, guess), guess) << 6
        guess = (_high(_ONE + _ONE // 2, guess) - _high(half, min(cube, (1 << 31) - 1))) << 3
    guess = _high(guess, 1518500250)  # half the root of 2, with 31 fractional bits
    right = 11 - pairs
    return (guess, more - right) if right >= 0 else (guess << -right, more)


def _high(a: int, b: int) -> int:
    """Return the doubled high half of a product of 32 bits, both positive."""
    return (a * b + (1 << 30)) >> 31


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

    def defines(self, unsigned: bool, exactness: Exactness) -> bool:
        """Tell whether a library has the function of inputs of a type."""
        if self.int8 and (unsigned or exactness == Exactness.TFLM):
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
        If the library does not define the function, or not by one table; UndecidedError if only the
        library itself knows the table.
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


def is_lacking(op: str, attributes: Mapping[str, Any], dtype: str, exactness: Exactness) -> bool:
    """Tell whether LiteRT's kernels have a function, but not of integers: int8 or uint8."""
    kernel = _KERNELS.get(op)
    defined = kernel is None or kernel.defines(dtype == "uint8", exactness)
    return (op == "elu" and _has_alpha(attributes)) or not defined


def _has_alpha(attributes: Mapping[str, Any]) -> bool:
    return attributes.get("alpha", 1.0) != 1.0


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
    kernel = _KERNELS.get(op)
    if op == "elu" and _has_alpha(attributes):
        raise UnsupportedError("TFLite's elu has no alpha")
    if kernel is None or not kernel.defines(x.unsigned, exactness):
        raise UnsupportedError(f"{exactness} has no {op} of {'u' * x.unsigned}int8")
    return kernel.xnnpack(x, y) if xnnpack and kernel.xnnpack else kernel.table(x, y)


def concat_table(x: Quantized, y: Quantized, exactness: Exactness) -> NDArray[np.int8]:
    """Return the table that gives an input of a concatenation the scale of its output.

    Raises
    ------
    UnsupportedError
        If the library demands equal scales.
    """
    if x.unsigned != y.unsigned:
        raise UnsupportedError("its tensors are int8 and uint8")
    if exactness.ort:
        return function_table("requantize", x, y, {}, exactness, 0)
    if not x.unsigned or not exactness.litert:
        raise UnsupportedError(f"{exactness} does not requantize in concat")
    scale = x.scale * (np.float32(1) / y.scale)
    bias = np.float32(-x.zero_point) * scale
    scaled = round_away(x.integers().astype(np.float32) * scale + bias)
    return y.image(scaled.astype(np.int64) + y.zero_point)
