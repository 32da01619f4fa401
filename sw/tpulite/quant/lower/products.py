"""Convolutions and dense layers: nodes whose multiplications the systolic array does."""

import math
from dataclasses import replace

import numpy as np

from tpulite.arch.numerics import INT8, Rounding
from tpulite.graph.graph import Node, Tensor
from tpulite.graph.layers import Conv, Depthwise, Pick, Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import (
    activation_bounds,
    make_requantization,
    scales_of_product,
)
from tpulite.quant.exactness.single_rounding import match_thresholds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.one_type import has_strange_zero_point
from tpulite.quant.tensors import Quantized, UnsupportedError, centered

_ROUNDINGS = {
    Exactness.LITERT_REF: (Rounding.TFLITE, Rounding.AWAY),
    Exactness.LITERT_OPT: (Rounding.RUY, Rounding.RUY),  # depthwise differs, see below
    Exactness.LITERT_XNNPACK: (Rounding.FLOAT32, Rounding.FLOAT32),
    Exactness.TFLM: (Rounding.TFLITE, Rounding.TFLITE),
    Exactness.ORT: (Rounding.FLOAT32, Rounding.FLOAT32),
    Exactness.ORT_INT8: (Rounding.FLOAT32, Rounding.FLOAT32),
    Exactness.BM1684X: (Rounding.SINGLE, Rounding.SINGLE),
}
"""Rounding of convolutions and of dense layers."""

_VECTOR = 8
"""Channels at a time of LiteRT's optimized depthwise and transposed kernels; the rest is left to
scalar code."""

_LARGEST_IMAGE = 64
"""Largest image that a dense layer reads as it is."""

_MOST_WEIGHTS = 1 << 24
"""Weights of a convolution in groups as one whose weights are zero between groups."""


def lower_conv(node: Node, context: GraphContext) -> None:
    """Lower a convolution; its weights are [O, kh, kw, I / group]."""
    weight = context.tensor(node.inputs[1])
    require_rank(weight, 4)
    kernel, zero = _weights(weight, context)
    kernel = in_one_group(kernel.transpose(1, 2, 3, 0), node.attributes.get("group", 1), zero)
    _emit_conv(node, context, node.inputs[0], node.outputs[0], kernel, zero)


def in_one_group(kernel: np.ndarray, group: int, zero: int) -> np.ndarray:
    """Return weights [kh, kw, I, O] of those of groups: the zero point between them, same sums."""
    if group == 1:
        return kernel
    height, width, inputs, outputs = kernel.shape
    if kernel.size * group > _MOST_WEIGHTS:
        raise UnsupportedError(f"it has {group} groups of channels: too many weights")
    wide = np.full((height, width, group, inputs, group, outputs // group), zero, kernel.dtype)
    for index, block in enumerate(np.split(kernel, group, axis=3)):
        wide[:, :, index, :, index] = block
    return wide.reshape(height, width, group * inputs, outputs)


def lower_depthwise(node: Node, context: GraphContext) -> None:
    """Lower a depthwise convolution; with a multiplier it becomes an ordinary one."""
    weight = context.tensor(node.inputs[1])
    require_rank(weight, 3)
    kernel, zero = _weights(weight, context)
    if node["multiplier"] > 1:
        channels = kernel.shape[2] // node["multiplier"]
        full = in_one_group(kernel[:, :, np.newaxis], channels, zero)
        _emit_conv(node, context, node.inputs[0], node.outputs[0], full, zero)
        return
    source, window = node.inputs[0], _window(node)
    if kernel.dtype != np.int8:
        source, kernel, zero, window = _taller(node, context, kernel, window)
    context.read(source)
    context.write(node.outputs[0])
    requantization = requantization_of(node, context, "depthwise", axis=2)
    if requantization is None:
        raise UnsupportedError("a depthwise convolution cannot output int32 sums")
    context.emit(
        Depthwise,
        node.name,
        (source,),
        node.outputs[0],
        weight=kernel,
        requantization=requantization,
        input_zero_point=context.quantized(node.inputs[0]).zero,
        weight_zero_point=zero,
        **window,
    )


def _taller(
    node: Node, context: GraphContext, kernel: np.ndarray, window: dict[str, tuple[int, ...]]
) -> tuple[str, np.ndarray, int, dict[str, tuple[int, ...]]]:
    """Return what a depthwise convolution with weights of nine bits reads: each row several times.

    Also its taller weights, their zero point and its window.
    """
    if window["dilation"][0] > 1:
        raise UnsupportedError("its weights have per-channel zero points, and it is dilated")
    height, width, channels = kernel.shape
    parts, again, zero = _in_eight_bits(kernel[:, :, np.newaxis])
    count = again.size
    source = _picked(node, context, node.inputs[0], rows=count)
    tall = parts.transpose(0, 2, 1, 3).reshape(count * height, width, channels)
    top, left, bottom, right = window["padding"]
    padding = (count * top, left, count * bottom, right)
    stride = (count * window["stride"][0], window["stride"][1])
    return source, tall, zero, {**window, "padding": padding, "stride": stride}


def _picked(
    node: Node,
    context: GraphContext,
    source: str,
    rows: int = 1,
    channels: np.ndarray | None = None,
) -> str:
    """Return an image with each row several times, or with some channels again."""
    height, width, count = context.read(source).shape
    channels = np.arange(count) if channels is None else channels
    if rows == 1 and len(channels) == count:
        return source
    target, turns = f"{node.name}/again", np.repeat(np.arange(height), rows)
    context.declare(target, (len(turns), width, len(channels)))
    picked = {"rows": tuple(turns), "columns": tuple(range(width)), "channels": tuple(channels)}
    context.emit(Pick, target, (source,), target, **picked)
    return target


def lower_dense(node: Node, context: GraphContext) -> None:
    """Lower a dense layer to a convolution whose kernel covers the image that feeds it.

    The matrix [O, K] is the kernel [kh, kw, C, O] of an image of kh x kw pixels, because elements
    are in the same order. An image too large for a kernel becomes one pixel first; several rows of
    K elements become pixels.
    """
    weight = context.tensor(node.inputs[1])
    require_rank(weight, 2)
    channels, k = weight.shape
    source = node.inputs[0]
    context.read(source)
    origin = context.origin(source)
    size = math.prod(context.activations[source].shape)
    if size % k:
        raise UnsupportedError(f"its {size} inputs are not a multiple of {k}")
    rows = size // k
    shape = context.activations[origin].shape
    if not reads_image(node, context, origin):
        origin, shape = source, context.activations[source].shape
    if not reads_image(node, context, origin):
        origin, shape = _reshaped(node, context, origin, (rows, 1, k))
    window = (1, 1) if shape[2] == k else (shape[0] // rows, shape[1])
    kernel, zero = _weights(weight, context)
    kernel = kernel.T.reshape(*window, shape[2], channels)
    output = node.outputs[0]
    found = (shape[0] // window[0], shape[1] // window[1], channels)
    wanted, made = context.write(output), output
    if wanted.dtype == "int32":  # sums leave the machine, which does not move them
        context.declare(output, found, "int32")
    elif wanted.shape != found:
        made = f"{output}/rows"
        context.declare(made, found, wanted.dtype)
    _emit_conv(node, context, origin, made, kernel, zero, stride=window)
    if made != output:
        context.reshape(f"{node.name}/reshape", made, output)


def reads_image(node: Node, context: GraphContext, image: str) -> bool:
    """Return whether a dense layer can read an image as windows, one for each row of its input."""
    k = context.tensor(node.inputs[1]).shape[-1]
    height, width, channels = context.activations[image].shape
    rows, rest = divmod(height * width * channels, k)
    if channels == k:
        return True
    return not rest and not height % rows and max(height // rows, width) <= _LARGEST_IMAGE


def _reshaped(
    node: Node, context: GraphContext, source: str, shape: tuple[int, int, int]
) -> tuple[str, tuple[int, int, int]]:
    target = f"{node.name}/pixels"
    context.declare(target, shape)
    context.reshape(target, source, target)
    return target, shape


def _weights(weight: Tensor, context: GraphContext) -> tuple[np.ndarray, int]:
    """Return weights as int8, and their zero point.

    Zero points that differ from channel to channel, which ONNX Runtime alone knows, are subtracted:
    int16, and 0.
    """
    q = weight.quantization
    one = q is None or q.axis is None or len(np.unique(q.zero_point)) == 1
    if q is None or one or not context.exactness.ort:
        return centered(weight), weight_zero_point(weight)
    assert weight.data is not None
    points = q.zero_point.reshape([-1 if axis == q.axis else 1 for axis in range(weight.data.ndim)])
    return weight.data.astype(np.int16) - points.astype(np.int16), 0


def _in_eight_bits(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return weights of nine bits, [..., C, O], as sums of weights of eight, and a zero point.

    Also which channel multiplies with each: [0, 1, ..., C - 1, and some again]. The zero point is
    that with which the fewest are there again.
    """
    rest = kernel.astype(np.int64)
    axes = tuple({*range(rest.ndim)} - {rest.ndim - 2})
    low, high = rest.min(axis=axes), rest.max(axis=axes)

    def count(zero: int) -> int:
        each = np.maximum(high / (INT8[-1] - zero), low / (INT8[0] - zero))
        return int(np.ceil(each).clip(1).sum())

    zero = min(INT8[1:-1], key=count)
    left, channels, parts = np.arange(rest.shape[-2]), [], []
    while left.size:
        part = np.clip(rest[..., left, :], INT8[0] - zero, INT8[-1] - zero)
        rest[..., left, :] -= part
        channels.append(left)
        parts.append((part + zero).astype(np.int8))
        left = np.flatnonzero(rest.any(axis=axes))
    return np.concatenate(parts, axis=-2), np.concatenate(channels), zero


def _emit_conv(
    node: Node,
    context: GraphContext,
    source: str,
    target: str,
    kernel: np.ndarray,
    zero: int,
    stride: tuple[int, int] = (1, 1),
) -> None:
    context.read(source)
    if kernel.dtype != np.int8:
        kernel, again, zero = _in_eight_bits(kernel)
        source = _picked(node, context, source, channels=again)
    if target not in context.activations:
        context.write(target)
    context.emit(
        Conv,
        node.name,
        (source,),
        target,
        weight=np.ascontiguousarray(kernel),
        requantization=requantization_of(
            node, context, node.op, axis=2 if node.op == "depthwise" else 0
        ),
        input_zero_point=(
            0 if node.attributes.get("unshifted", False) else context.quantized(node.inputs[0]).zero
        ),
        weight_zero_point=zero,
        **({"stride": stride} if node.op == "dense" else _window(node)),
    )


def _window(node: Node) -> dict[str, tuple[int, ...]]:
    return {name: tuple(node[name]) for name in ("stride", "dilation", "padding")}


def require_rank(weight: Tensor, rank: int) -> None:
    """Refuse weights with another number of axes."""
    if len(weight.shape) != rank:
        raise UnsupportedError(f"its weights have shape {list(weight.shape)}")


def weight_scales(weight: Tensor, channels: int, axis: int) -> np.ndarray:
    """Return the scales of weights, [1] or [channels] along this axis."""
    q = weight.quantization
    if q is None:
        raise UnsupportedError(f"weights {weight.name!r} have no quantization")
    if not q.sound:
        raise UnsupportedError(f"weights {weight.name!r} have a scale that is not positive")
    if len(q.scale) not in (1, channels) or (len(q.scale) > 1 and q.axis not in (axis, None)):
        raise UnsupportedError(f"weights {weight.name!r} have {len(q.scale)} scales")
    return q.scale


def weight_zero_point(weight: Tensor) -> int:
    """Return the zero point of all weights, as an int8."""
    assert weight.quantization is not None
    zero_points = np.unique(weight.quantization.zero_point)
    if len(zero_points) > 1:
        raise UnsupportedError(f"weights {weight.name!r} have per-channel zero points")
    return int(zero_points[0]) - (128 if weight.dtype == "uint8" else 0)


def bias_of(node: Node, context: GraphContext) -> np.ndarray:
    """Return the bias of a node, int32 [1] or [channels]."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return np.zeros(1, np.int32)
    bias = context.tensor(node.inputs[2])
    if bias.data is None or bias.dtype != "int32":
        raise UnsupportedError(f"its bias {bias.name!r} is not an int32 constant")
    return np.ascontiguousarray(bias.data.reshape(-1))


def requantization_of(
    node: Node, context: GraphContext, op: str, axis: int
) -> Requantization | None:
    """Return how the sums are requantized; None if they are the output."""
    weight = context.tensor(node.inputs[1])
    if context.exactness.litert and has_strange_zero_point(node, weight):
        raise UnsupportedError(f"weights {weight.name!r} have zero points, which LiteRT ignores")
    channels = weight.shape[axis]
    scales_of_weight = weight_scales(weight, channels, axis)
    x = context.quantized(node.inputs[0])
    if node.attributes.get("raw", False):
        if len(node.inputs) > 2 and node.inputs[2]:
            raise UnsupportedError("its output is int32 sums, to which no bias can be added")
        return None
    y = context.quantized(node.outputs[0])
    exactness = kernels_of(node, context, op)
    scales = scales_of_product(exactness, op, x, scales_of_weight, y)
    rounding = _ROUNDINGS[exactness][op == "dense"]
    if exactness == Exactness.LITERT_OPT and op == "depthwise":
        rounding = Rounding.TFLITE
    result = make_requantization(
        scales,
        rounding,
        y.zero,
        activation_bounds(node.attributes.get("activation", "none"), y, exactness),
        bias_of(node, context),
    )
    if exactness == Exactness.LITERT_OPT and op in ("depthwise", "transposed_conv"):
        return result if x.unsigned else _vectorized(result, channels)
    if exactness == Exactness.LITERT_REF and op == "dense":
        return match_thresholds(result, scales, largest_sum(weight, x))
    return result


def kernels_of(node: Node, context: GraphContext, op: str) -> Exactness:
    """Return whose kernels compute a node: what a set of kernels does not take is another's."""
    if context.exactness == Exactness.LITERT_OPT and node.attributes.get("group", 1) > 1:
        return Exactness.LITERT_REF  # the optimized kernel has no groups
    left = op == "depthwise" and context.quantized(node.inputs[0]).unsigned
    if op == "dense":  # nor does it take int8 weights that have a zero point
        weight = context.tensor(node.inputs[1])
        left = weight.dtype == "int8" and weight_zero_point(weight) != 0
    if node.attributes.get("packed"):  # XNNPACK takes int4 of dense layers, two inputs in a byte
        left = op != "dense" or context.tensor(node.inputs[1]).shape[1] % 2 > 0
    if op == "transposed_conv":
        kernel = context.tensor(node.inputs[1]).shape[1:3]
        gaps = any(k < step for k, step in zip(kernel, node["stride"], strict=True))
        left = gaps and node["same"]
    if left and context.exactness == Exactness.LITERT_XNNPACK:
        return Exactness.LITERT_OPT
    return context.exactness


def _vectorized(result: Requantization, channels: int) -> Requantization:
    """Round groups of eight channels half up, and what is left half away from zero."""
    rounding = np.full(channels, int(Rounding.TFLITE), np.int64)
    rounding[: channels // _VECTOR * _VECTOR] = Rounding.RUY
    rules = np.unique(rounding)
    return replace(result, rounding=Rounding(int(rules[0])) if len(rules) == 1 else rounding)


def largest_sum(weight: Tensor, x: Quantized) -> int:
    """Return a bound of the magnitude of the sums without their bias."""
    distance = max(x.zero_point - x.low, x.high - x.zero_point)
    kernel = centered(weight).astype(np.int64) - weight_zero_point(weight)
    return int(np.abs(kernel).reshape(len(kernel), -1).sum(axis=1).max()) * distance
