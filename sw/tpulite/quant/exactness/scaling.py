"""From scales to multipliers: what each library does with the scales of a layer.

Which products and quotients are rounded to float32 was found by comparison, on sums whose results
differ between the candidates (docs/exactness.md says for which operators). TFLM's dense layers are
assumed to multiply scales as LiteRT's optimized kernel does.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpulite.arch.numerics import (
    INT8,
    Rounding,
    float32_multiplier,
    quantize_multiplier,
)
from tpulite.graph.layers import Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.tensors import INT8_BOUNDS, Quantized, UnsupportedError

INT16 = range(-(1 << 15), 1 << 15)
"""Values of int16."""

_ACTIVATIONS = {
    "none": (-math.inf, math.inf),
    "relu": (0.0, math.inf),
    "relu6": (0.0, 6.0),
    "relu_n1_1": (-1.0, 1.0),
    "relu_0_1": (0.0, 1.0),
}


def scales_of_product(
    exactness: Exactness, op: str, x: Quantized, weight: np.ndarray, y: Quantized
) -> np.ndarray:
    """Return input scale times weight scales over output scale, float64 [1] or [channels].

    TFLite multiplies the first two in float32 where its kernels have one scale of all channels, but
    for the reference kernel of dense layers.

    Parameters
    ----------
    exactness : Exactness
        Whose arithmetic.
    op : str
        ``conv``, ``depthwise``, ``dense`` or ``matmul``, whose weights are an activation.
    x, y : Quantized
        Input and output.
    weight : ndarray of float32, [1] or [channels]
        Scales of the weights.
    """
    weight = weight.astype(np.float32)
    if exactness.floats:
        return (x.scale * weight / y.scale).astype(np.float64)
    if op == "dense":
        in_float32 = len(weight) == 1 and exactness in (Exactness.LITERT_OPT, Exactness.TFLM)
    elif op == "matmul":
        in_float32 = True
    else:
        in_float32 = x.unsigned and exactness.litert
    if in_float32:
        return (x.scale * weight).astype(np.float64) / float(y.scale)
    return float(x.scale) * weight.astype(np.float64) / float(y.scale)


def multipliers(scales: np.ndarray, rounding: Rounding) -> tuple[np.ndarray, np.ndarray]:
    """Return multipliers and shifts of channel records, int64.

    Raises
    ------
    UnsupportedError
        If a scale is beyond what the rounding can express.
    """
    convert = float32_multiplier if rounding == Rounding.FLOAT32 else quantize_multiplier
    try:
        pairs = [convert(float(scale)) for scale in scales]
    except ValueError as error:
        raise UnsupportedError(str(error)) from error
    multiplier, shift = np.array(pairs, dtype=np.int64).T
    return np.ascontiguousarray(multiplier), np.ascontiguousarray(shift)


def make_requantization(
    scales: np.ndarray | float,
    rounding: Rounding,
    zero_point: int = 0,
    bounds: tuple[int, int] = INT8_BOUNDS,
    bias: np.ndarray | int = 0,
) -> Requantization:
    """Return a requantization by float64 scales, [1] or [channels]; integers are those of images.

    Raises
    ------
    UnsupportedError
        If a scale or the bias does not fit a channel record.
    """
    multiplier, shift = multipliers(np.atleast_1d(scales), rounding)
    biases = np.atleast_1d(np.asarray(bias, dtype=np.int64))
    if np.any(biases != biases.astype(np.int32)):
        raise UnsupportedError(f"its bias {int(np.abs(biases).max())} overflows int32")
    return Requantization(
        multiplier=multiplier,
        shift=shift,
        bias=biases.astype(np.int32),
        rounding=rounding,
        zero_point=zero_point,
        low=bounds[0],
        high=bounds[1],
    )


def activation_bounds(
    activation: str, y: Quantized, exactness: Exactness, values: range = INT8
) -> tuple[int, int]:
    """Return the clamp of a fused activation, as integers of the image, which has these values.

    Raises
    ------
    UnsupportedError
        If there is no such activation.
    """
    if activation not in _ACTIVATIONS:
        raise UnsupportedError(f"unknown activation {activation!r}")
    low, high = (_quantize_bound(bound, y, exactness, values) for bound in _ACTIVATIONS[activation])
    if low > high:
        raise UnsupportedError(f"{activation} clamps every value of the output scale {y.scale}")
    return low, high


def clip_bounds(low: float, high: float, y: Quantized) -> tuple[int, int]:
    """Return the integers of an image that are nearest to the bounds of a clip.

    Raises
    ------
    UnsupportedError
        If it would leave no value.
    """
    least, most = (_quantize_bound(x, y, Exactness.LITERT_REF, INT8) for x in (low, high))
    if least > most:
        raise UnsupportedError(f"it clips every value of the output scale {y.scale}")
    return least, most


def _quantize_bound(bound: float, y: Quantized, exactness: Exactness, values: range) -> int:
    if math.isinf(bound):
        return values[0] if bound < 0 else values[-1]
    steps = np.float32(bound) / y.scale
    if exactness.floats:
        # XNNPACK adds the zero point before it rounds, ONNX Runtime after. That is the same unless
        # steps lie between two integers.
        zero = np.float32(y.zero_point if exactness == Exactness.LITERT_XNNPACK else 0)
        integer = int(np.rint(steps + zero) - zero)
    else:
        integer = int(round_away(steps))
    return min(max(y.zero + integer, values[0]), values[-1])


def round_away(values: ArrayLike) -> NDArray[np.float64]:
    """Round to integers, half away from zero, as ``std::round``; float64."""
    values = np.asarray(values, dtype=np.float64)
    return np.copysign(np.floor(np.abs(values) + 0.5), values)
