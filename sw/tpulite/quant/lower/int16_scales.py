"""LiteRT's QUANTIZE between int8 and int16, and of int16.

All kernel sets multiply by a multiplier of 31 bits and round as gemmlowp does.
"""

import numpy as np

from tpulite.arch.numerics import INT8, Rounding
from tpulite.graph.graph import Node, Tensor
from tpulite.graph.layers import Conv, DepthToSpace, Lut, Pick, Requantization
from tpulite.layout.int16 import split_int16
from tpulite.quant.exactness.litert import scale_by
from tpulite.quant.exactness.scaling import INT16, multipliers
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.tensors import Quantized, UnsupportedError, quantized

__all__ = ["lower_scale", "scale_of"]

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


def lower_scale(node: Node, context: GraphContext) -> None:
    """Lower QUANTIZE from or to int16.

    Raises
    ------
    UnsupportedError
        If a tensor is neither int8 nor int16, or the library may leave 32 bits.
    """
    if not context.exactness.litert:
        raise UnsupportedError(f"the numerics of {context.exactness} are not known for int16")
    x, y = (context.tensor(name) for name in (node.inputs[0], node.outputs[0]))
    before, after = (scale_of(each) if each.dtype == "int16" else _byte(each) for each in (x, y))
    scale = float(before.scale) / float(after.scale)
    if scale >= _LARGEST:
        raise UnsupportedError(f"its quotient of scales is {scale:g}, not below {_LARGEST:g}")
    if x.dtype == "int8":
        _widen(node, context, scale_by(before.integers() - before.zero_point, scale))
    else:
        _multiply(node, context, scale, None if y.dtype == "int16" else after)


def _byte(tensor: Tensor) -> Quantized:
    if tensor.dtype != "int8":
        raise UnsupportedError(f"tensor {tensor.name!r} is {tensor.dtype}, not int8 or int16")
    return quantized(tensor)


def _widen(node: Node, context: GraphContext, results: np.ndarray) -> None:
    """Look up both bytes of results, and put them side by side."""
    source, target = node.inputs[0], node.outputs[0]
    shape = context.read(source).shape
    context.write_int16(target)
    values = np.clip(results, INT16[0], INT16[-1]).astype(np.int16)
    halves = split_int16(values[:, None])[..., 0].T
    names = f"{node.name}/upper", f"{node.name}/lower"
    for name, table in zip(names, halves, strict=True):
        context.declare(name, shape)
        context.emit(Lut, name, (source,), name, table=np.ascontiguousarray(table))
    fields = {"block": (1, 2), "channels": shape[2]}
    context.emit(DepthToSpace, node.name, names, target, **fields)


def _multiply(node: Node, context: GraphContext, scale: float, byte: Quantized | None) -> None:
    """Multiply by an identity matrix, as records scale sums; of int8, take the lower bytes.

    Their top bit is inverted there, which is 128 more, or less: as much as a zero point may have.
    """
    source, target = node.inputs[0], node.outputs[0]
    shape = context.read_int16(source).shape
    if shape[2] > _MOST_CHANNELS:
        raise UnsupportedError(f"it has {shape[2]} channels, more than {_MOST_CHANNELS}")
    zero_point, low, high = 0, INT16[0], INT16[-1]
    if byte is not None:
        offset = _HALF if byte.zero_point < 0 else -_HALF
        zero_point, low, high = (x + offset for x in (byte.zero_point, INT8[0], INT8[-1]))
    multiplier, shift = multipliers(np.array([scale]), Rounding.TFLITE)
    requantization = Requantization(
        multiplier=multiplier,
        shift=shift,
        rounding=Rounding.TFLITE,
        zero_point=zero_point,
        low=low,
        high=high,
        bits=16,
    )
    weight = np.eye(shape[2], dtype=np.int8)[None, None]
    fields = {"weight": weight, "requantization": requantization, "int16": True}
    if byte is None:
        context.write_int16(target)
        context.emit(Conv, node.name, (source,), target, **fields)
        return
    pairs = f"{node.name}/pairs"
    context.declare(pairs, shape)
    context.emit(Conv, pairs, (source,), pairs, **fields)
    height, width, channels = context.write(target).shape
    indices = range(height), range(1, 2 * width, 2), range(channels)
    names = "rows", "columns", "channels"
    fields = dict(zip(names, map(tuple, indices), strict=True))
    context.emit(Pick, node.name, (pairs,), target, **fields)
