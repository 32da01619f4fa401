"""Operators that scale int16: QUANTIZE from and to int8 or int16, RELU, RELU6 and LEAKY_RELU.

All kernel sets multiply by a multiplier of 31 bits and round as gemmlowp does.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tpulite.arch.numerics import INT8, Rounding
from tpulite.graph.graph import Node, Tensor
from tpulite.graph.layers import Conv, DepthToSpace, Lut, Pick, Requantization
from tpulite.layout.int16 import split_int16
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.litert import scale_by
from tpulite.quant.exactness.scaling import INT16, activation_bounds, multipliers
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.tensors import Quantized, UnsupportedError, quantized

_MOST_CHANNELS = 1 << 10
"""Channels that a product with an identity matrix is worth."""

_LARGEST = 2.0**14
"""Quotients of scales from here on shift int16 out of 32 bits."""

_BYTE = len(INT8)
_HALF = _BYTE // 2


def scale_of(tensor: Tensor) -> Quantized:
    """Return the quantization of a tensor of int16.

    Raises
    ------
    UnsupportedError
        If it is not int16, or has not one scale, around 0.
    """
    q = tensor.quantization
    if tensor.dtype != "int16" or q is None or not q.sound or len(q.scale) != 1 or q.zero_point[0]:
        raise UnsupportedError(f"tensor {tensor.name!r} is not int16 with one scale, around 0")
    return Quantized(np.float32(q.scale[0]), 0, unsigned=False)


def require_litert(exactness: Exactness) -> None:
    """Raise UnsupportedError unless it is LiteRT: others have no int16, or it is not known."""
    if not exactness.litert:
        raise UnsupportedError(f"the numerics of {exactness} are not known for int16")


def identity(channels: int, *signs: int) -> np.ndarray:
    """Return weights [1, 1, channels, channels * signs] that repeat channels, times a sign each.

    Raises
    ------
    UnsupportedError
        If a product with an identity matrix is not worth so many channels.
    """
    if channels > _MOST_CHANNELS:
        raise UnsupportedError(f"it has {channels} channels, more than {_MOST_CHANNELS}")
    each = np.eye(channels, dtype=np.int8)
    return np.concatenate([sign * each for sign in signs], axis=1)[None, None]


def lower_scale(node: Node, context: GraphContext) -> None:
    """Lower QUANTIZE from or to int16.

    Raises
    ------
    UnsupportedError
        If a tensor is neither int8 nor int16, or the library may leave 32 bits.
    """
    require_litert(context.exactness)
    x, y = (context.tensor(name) for name in (node.inputs[0], node.outputs[0]))
    before, after = (scale_of(each) if each.dtype == "int16" else _byte(each) for each in (x, y))
    scale = float(before.scale) / float(after.scale)
    _require_small(scale)
    if x.dtype == "int8":
        context.read(x.name)
        context.write(y.name)
        values = scale_by(before.integers() - before.zero_point, scale)
        widen(node.name, (x.name, y.name), values, context)
    elif y.dtype == "int8":
        _narrow(node, context, narrowing(scale, after))
    else:
        _multiply(node, context, scaling([scale]))


def lower_relu(node: Node, context: GraphContext) -> None:
    """Lower RELU or RELU6: a change of scale, clamped.

    Raises
    ------
    UnsupportedError
        If the library does not define it, or may leave 32 bits.
    """
    require_litert(context.exactness)
    x, y = (scale_of(context.tensor(name)) for name in (node.inputs[0], node.outputs[0]))
    if node.op == "relu6" and context.exactness == Exactness.TFLM:
        raise UnsupportedError(f"{context.exactness} has no relu6 of int16")
    scale = float(x.scale / y.scale)
    _require_small(scale)
    low, high = activation_bounds(node.op, y, Exactness.LITERT_REF, INT16)
    _multiply(node, context, scaling([scale], low=low, high=high))


def lower_leaky_relu(node: Node, context: GraphContext) -> None:
    """Lower LEAKY_RELU: numbers and their products with the slope, clamped at zero, are added.

    Either is zero where the other is not.

    Raises
    ------
    UnsupportedError
        If the slope is negative, or the library may leave 32 bits.
    """
    require_litert(context.exactness)
    source, target = node.inputs[0], node.outputs[0]
    x, y = (scale_of(context.tensor(name)) for name in (source, target))
    slope = np.float32(node["alpha"])
    if slope < 0:
        raise UnsupportedError(f"its slope {slope} is negative")
    scales = [float(x.scale / y.scale), float(x.scale * slope / y.scale)]
    _require_small(max(scales))
    height, width, channels = context.read(source).shape
    signs = f"{node.name}/signs"
    context.declare(signs, (height, width, 2 * channels))
    ends = np.array(INT16[:: len(INT16) - 1])
    low, high = (np.repeat(bounds, channels) for bounds in ([0, ends[0]], [ends[-1], 0]))
    record = scaling(np.repeat(scales, channels), low=low, high=high)
    fields = {"weight": identity(channels, 1, 1), "requantization": record, "int16": True}
    context.emit(Conv, signs, (source,), signs, **fields)
    context.write(target)
    weight = np.ascontiguousarray(identity(channels, 1, 1).transpose(0, 1, 3, 2))
    fields = {"weight": weight, "requantization": scaling([1.0]), "int16": True}
    context.emit(Conv, node.name, (signs,), target, **fields)


def _require_small(scale: float) -> None:
    if scale >= _LARGEST:
        raise UnsupportedError(f"its quotient of scales is {scale:g}, not below {_LARGEST:g}")


def scaling(scales: ArrayLike, **fields: Any) -> Requantization:
    """Return how sums become int16, of a scale for all channels or each, without a bias."""
    multiplier, shift = multipliers(np.asarray(scales), Rounding.TFLITE)
    record = Requantization(
        multiplier=multiplier,
        shift=shift,
        rounding=Rounding.TFLITE,
        low=INT16[0],
        high=INT16[-1],
        bits=16,
    )
    return replace(record, **fields)


def _byte(tensor: Tensor) -> Quantized:
    if tensor.dtype != "int8":
        raise UnsupportedError(f"tensor {tensor.name!r} is {tensor.dtype}, not int8 or int16")
    return quantized(tensor)


def widen(name: str, ends: tuple[str, str], results: np.ndarray, context: GraphContext) -> None:
    """Look up both bytes of the results of all integers of 8 bits, and put them side by side.

    Parameters
    ----------
    name : str
        Name of the layers.
    ends : tuple of str
        An image of int8, and one of pairs, which is declared.
    results : ndarray of int64, [256]
        Results, clamped here.
    """
    source, target = ends
    shape = context.read(source).shape
    values = np.clip(results, INT16[0], INT16[-1]).astype(np.int16)
    halves = split_int16(values[:, None])[..., 0].T
    names = f"{name}/upper", f"{name}/lower"
    for half, table in zip(names, halves, strict=True):
        context.declare(half, shape)
        context.emit(Lut, half, (source,), half, table=np.ascontiguousarray(table))
    fields = {"block": (1, 2), "channels": shape[2]}
    context.emit(DepthToSpace, name, names, target, **fields)


def _multiply(node: Node, context: GraphContext, record: Requantization) -> None:
    """Multiply by an identity matrix, as records scale sums."""
    channels = context.read(node.inputs[0]).shape[2]
    context.write(node.outputs[0])
    fields = {"weight": identity(channels, 1), "requantization": record, "int16": True}
    context.emit(Conv, node.name, node.inputs[:1], node.outputs[0], **fields)


def _narrow(node: Node, context: GraphContext, record: Requantization) -> None:
    """Multiply by an identity matrix, clamp to 8 bits, and take the lower bytes."""
    source, target = node.inputs[0], node.outputs[0]
    shape = context.read(source).shape
    pairs = f"{node.name}/pairs"
    context.declare(pairs, shape)
    fields = {"weight": identity(shape[2], 1), "requantization": record, "int16": True}
    context.emit(Conv, pairs, (source,), pairs, **fields)
    context.write(target)
    narrow(node.name, (pairs, target), context)


def narrowing(scale: float, byte: Quantized) -> Requantization:
    """Return how sums become pairs whose lower columns are integers of 8 bits.

    The top bit of those is inverted, which is 128 more, or less: as much as a zero point may have.
    """
    offset = _HALF if byte.zero_point < 0 else -_HALF
    zero_point, low, high = (x + offset for x in (byte.zero_point, INT8[0], INT8[-1]))
    return scaling([scale], zero_point=zero_point, low=low, high=high)


def narrow(name: str, ends: tuple[str, str], context: GraphContext) -> None:
    """Take the lower columns of pairs for the columns of an image of int8, which is declared."""
    pairs, target = ends
    height, width, channels = context.activations[target].shape
    indices = range(height), range(1, 2 * width, 2), range(channels)
    names = "rows", "columns", "channels"
    picked = dict(zip(names, map(tuple, indices), strict=True))
    context.emit(Pick, name, (pairs,), target, **picked)
