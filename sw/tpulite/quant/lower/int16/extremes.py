"""Maxima and minima of int16: a difference, clamped at zero, and what it is from are added.

A difference has 17 bits, so two numbers of 16 bits hold it: max(a, b) is
b + clamp(a - b, 0, 32767) + clamp(a - b - 65535, -32768, 0) + 32768.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from tpulite.graph.graph import Node
from tpulite.graph.layers import Concat, Conv, Pad
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import INT16, activation_bounds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.int16.additions import whole_operand
from tpulite.quant.lower.int16.scales import identity, require_litert, scale_of, scaling
from tpulite.quant.tensors import UnsupportedError

_LOW, _HIGH = INT16[0], INT16[-1]
_RANGE = _HIGH - _LOW

_LEAST = -128
"""Both bytes of the least int16."""

_Bounds = tuple[int, int]


def lower_extreme_of_int16(node: Node, context: GraphContext) -> None:
    """Lower MAXIMUM or MINIMUM: LiteRT compares integers, whatever they mean.

    Raises
    ------
    UnsupportedError
        If an activation would be broadcast.
    """
    require_litert(context.exactness)
    target = node.outputs[0]
    if (bound := _bound(node, context)) is not None:
        source, value = bound
        low, high = (value, _HIGH) if node.op == "maximum" else (_LOW, value)
        weight = identity(context.read(source).shape[2], 1)
        context.write(target)
        record = scaling([1.0], low=low, high=high)
        fields = {"weight": weight, "requantization": record, "int16": True}
        context.emit(Conv, node.name, (source,), target, **fields)
        return
    height, width, channels = context.write(target).shape
    operands = tuple(whole_operand(node, name, context) for name in node.inputs)
    both = f"{node.name}/operands"
    context.declare(both, (height, width, 2 * channels))
    context.emit(Concat, both, operands, both, axis=2)
    first, second = _weights(channels, least=node.op == "minimum")
    weight = np.concatenate([first, second], axis=2)
    _emit(node.name, context, (both, target), weight, {}, least=node.op == "minimum")


def lower_max_pool_of_int16(node: Node, context: GraphContext) -> None:
    """Lower MAX_POOL_2D: maxima of neighbors, of twice as many each time, along either axis.

    Raises
    ------
    UnsupportedError
        If the scales differ, or there are too many channels.
    """
    require_litert(context.exactness)
    source, target = node.inputs[0], node.outputs[0]
    x, y = (scale_of(context.tensor(name)) for name in (source, target))
    if x != y:
        raise UnsupportedError(f"{context.exactness} does not requantize in max_pool")
    image = context.read(source).shape
    top, left, bottom, right = node["padding"]
    if any(node["padding"]):
        padded = f"{node.name}/padded"
        image = (top + image[0] + bottom, 2 * (left + right) + image[1], image[2])
        context.declare(padded, image)
        around = (top, 2 * left, bottom, 2 * right)
        context.emit(Pad, padded, (source,), padded, padding=around, value=_LEAST)
        source = padded
    bounds = activation_bounds(node["activation"], y, Exactness.LITERT_REF, INT16)
    context.write(target)
    steps = list(_steps(tuple(node["window"]), tuple(node["stride"])))
    if not steps:
        raise UnsupportedError("its windows have one element")
    first, second = _weights(image[2], least=False)
    for number, (axis, distance, stride) in enumerate(steps):
        name, made = f"{node.name}/{number}", f"{target}/{number}"
        extents = [image[0], image[1] // 2]
        extents[axis] -= distance
        extents = [(extent - 1) // step + 1 for extent, step in zip(extents, stride, strict=True)]
        image = (extents[0], 2 * extents[1], image[2])
        last = number == len(steps) - 1
        if last:
            name, made = node.name, target
        else:
            context.declare(made, image)
        dilation = (distance, 1) if axis == 0 else (1, 2 * distance)
        geometry = {"stride": stride, "dilation": dilation}
        weight = np.concatenate([first, second], axis=axis)
        ends = bounds if last else (_LOW, _HIGH)
        _emit(name, context, (source, made), weight, geometry, bounds=ends)
        source = made


def _steps(window: tuple[int, int], stride: tuple[int, int]):
    """Yield axis, distance of what is compared, and stride, of each maximum of two."""
    for axis in (1, 0):
        seen = 1
        while seen < window[axis]:
            distance = min(seen, window[axis] - seen)
            seen += distance
            last = seen == window[axis]
            step = stride[axis] if last else 1
            yield axis, distance, ((step, 1) if axis == 0 else (1, step))


def _bound(node: Node, context: GraphContext) -> tuple[str, int] | None:
    """Return an operand of the result's shape and the number that it is compared with, if so."""
    shape = context.tensor(node.outputs[0]).shape
    for name, other in (node.inputs, node.inputs[::-1]):
        data = context.tensor(other).data
        if data is None or context.tensor(name).shape != shape:
            continue
        values = np.unique(data)
        if len(values) == 1:
            return name, int(values[0])
    return None


def _weights(channels: int, *, least: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return weights [1, 1, C, 3 C] of either operand: of both clamped differences, and of it."""
    sign = -1 if least else 1
    return identity(channels, sign, sign, 0), identity(channels, -sign, -sign, 1)


def _emit(
    name: str,
    context: GraphContext,
    ends: tuple[str, str],
    weight: np.ndarray,
    geometry: dict[str, Any],
    *,
    bounds: _Bounds = (_LOW, _HIGH),
    least: bool = False,
) -> None:
    """Emit clamped differences of operands, and their sum with the second operand."""
    source, target = ends
    height, width, channels = context.activations[target].shape
    parts = f"{name}/parts"
    context.declare(parts, (height, width, 3 * channels))
    records = [(0, 0, _HIGH), (-_RANGE, _LOW, 0), (0, _LOW, _HIGH)]
    bias, low, high = (np.repeat(values, channels) for values in zip(*records, strict=True))
    record = replace(scaling([1.0]), bias=bias.astype(np.int32), low=low, high=high)
    fields = {"weight": weight, "requantization": record, "int16": True}
    context.emit(Conv, parts, (source,), parts, **fields, **geometry)
    sign = -1 if least else 1
    sums = np.ascontiguousarray(identity(channels, sign, sign, 1).transpose(0, 1, 3, 2))
    bias = np.array([-sign * _LOW], np.int32)
    record = replace(scaling([1.0], low=bounds[0], high=bounds[1]), bias=bias)
    context.emit(Conv, name, (parts,), target, weight=sums, requantization=record, int16=True)
