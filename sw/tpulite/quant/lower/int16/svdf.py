"""SVDF: features of a frame join a window of int16, which a filter over time sums up."""

from dataclasses import replace

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.graph.graph import Node, Tensor
from tpulite.graph.layers import Concat, Conv, Pick, Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.int16.scales import narrow, narrowing, scale_of, scaling, widen
from tpulite.quant.tensors import UnsupportedError, centered, quantized

_BASE = len(INT8)

_TIME, _BIAS = 2, 3  # inputs
_INPUTS, _OUTPUTS = 5, 2


def lower_svdf(node: Node, context: GraphContext) -> None:
    """Lower SVDF with int8 activations and a window of int16, [steps, filters].

    Raises
    ------
    UnsupportedError
        If it has other types, several sequences at a time, or scales that LiteRT shifts left.
    """
    if not context.exactness.litert or context.exactness == Exactness.TFLM:
        raise UnsupportedError(f"the numerics of {context.exactness} are not known for svdf")
    if len(node.inputs) != _INPUTS or len(node.outputs) != _OUTPUTS or "" in node.inputs[:_BIAS]:
        raise UnsupportedError("an input is missing")
    x, feature, time, window = (context.tensor(node.inputs[i]) for i in (0, 1, _TIME, -1))
    if x.dtype != "int8" or feature.dtype != "int8" or time.data is None or time.dtype != "int16":
        raise UnsupportedError(f"it is of {x.dtype} with weights of {feature.dtype}")
    if len(time.shape) != 2 or window.shape != time.shape[::-1]:
        raise UnsupportedError(
            f"its window has shape {list(window.shape)}, not that of one sequence"
        )
    fits = feature.shape == (len(time.data), x.shape[-1]) and node["rank"] > 0
    if not fits or len(time.data) % node["rank"]:
        raise UnsupportedError(f"its weights have shape {list(feature.shape)}")
    byte, (filters, steps) = quantized(context.tensor(node.outputs[0])), time.shape
    scales = (
        _scale(x) * _scale(feature) / _scale(window),
        _scale(window) * _scale(time) / byte.scale,
    )
    if max(scales) >= 1:
        raise UnsupportedError(
            f"its quotients of scales, {scales[0]:g} and {scales[1]:g}, exceed 1"
        )
    _features(node, context, scaling([float(scales[0])]))
    _shift(node, context, steps)
    record = narrowing(float(scales[1]), byte)
    record = replace(record, bias=_bias(node, context, filters // node["rank"]))
    _filter(node, context, record)


def _scale(tensor: Tensor) -> np.float32:
    """Return the only scale of a tensor."""
    if tensor.dtype == "int16":
        return scale_of(tensor).scale
    return quantized(tensor).scale


def _features(node: Node, context: GraphContext, record: Requantization) -> None:
    """Multiply a frame, less its zero point, by the weights of its features."""
    source, weight = node.inputs[0], centered(context.tensor(node.inputs[1]))
    name, x = f"{node.name}/features", context.quantized(source)
    height, width, channels = context.read(source).shape
    pairs = f"{node.name}/frame"
    context.declare(pairs, (height, 2 * width, channels))
    widen(pairs, (source, pairs), x.integers() - x.zero_point, context)
    context.declare(name, (1, 2, len(weight)))
    kernel = np.ascontiguousarray(weight.T.reshape(height, width, channels, -1))
    fields = {"weight": kernel, "requantization": record, "int16": True}
    context.emit(Conv, name, (pairs,), name, **fields)


def _shift(node: Node, context: GraphContext, steps: int) -> None:
    """Drop the oldest features of the window, and append those of the frame."""
    window, after = node.inputs[-1], node.outputs[1]
    _, width, filters = context.read(window).shape
    context.write(after)
    newest, name = f"{node.name}/features", f"{node.name}/kept"
    kept = ()
    if steps > 1:
        context.declare(name, (steps - 1, width, filters))
        picked = {"rows": range(1, steps), "columns": range(width), "channels": range(filters)}
        context.emit(Pick, name, (window,), name, **{k: tuple(v) for k, v in picked.items()})
        kept = (name,)
    context.emit(Concat, f"{node.name}/window", (*kept, newest), after, axis=0)


def _filter(node: Node, context: GraphContext, record: Requantization) -> None:
    """Sum up the window, each step and filter by its weight, all filters of a unit together."""
    time, rank = context.tensor(node.inputs[_TIME]).data, node["rank"]
    assert time is not None
    filters, steps = time.shape
    source, target = node.outputs[1], node.outputs[0]
    digits = _digits(time.astype(np.int64))
    block, count = filters, len(digits)
    fields = {}
    if count > 1:
        block = -(-filters // context.vector) * context.vector
        source = _repeated(node, context, block, count)
        fields["digits"] = np.repeat(np.arange(count), block)
    weight = np.zeros((steps, count, block, filters // rank), np.int8)
    each = np.arange(filters)
    for digit, values in enumerate(digits):
        weight[:, digit, each, each // rank] = values.T
    pairs = f"{node.name}/sums"
    context.declare(pairs, (1, 2, filters // rank))
    kernel = weight.reshape(steps, 1, count * block, -1)
    fields |= {"weight": kernel, "requantization": record, "int16": True}
    context.emit(Conv, pairs, (source,), pairs, **fields)
    context.write(target)
    narrow(node.name, (pairs, target), context)


def _repeated(node: Node, context: GraphContext, block: int, count: int) -> str:
    """Return an image of the window whose channels are there once for each digit."""
    source, name = node.outputs[1], f"{node.name}/digits"
    height, width, filters = context.activations[source].shape
    context.declare(name, (height, width, count * block))
    weight = np.zeros((filters, count, block), np.int8)
    weight[range(filters), :, range(filters)] = 1
    fields = {"weight": weight.reshape(1, 1, filters, -1), "requantization": scaling([1.0])}
    context.emit(Conv, name, (source,), name, int16=True, **fields)
    return name


def _digits(values: np.ndarray) -> list[np.ndarray]:
    """Return numbers as digits of base 256, each an int8, the lowest first; as few as will do."""
    digits = []
    while values.any() or not digits:
        digit = (values - INT8[0]) % _BASE + INT8[0]
        digits.append(digit.astype(np.int8))
        values = (values - digit) // _BASE
    return digits


def _bias(node: Node, context: GraphContext, units: int) -> np.ndarray:
    name = node.inputs[_BIAS]
    if not name:
        return np.zeros(1, np.int32)
    bias = context.tensor(name)
    if bias.data is None or bias.dtype != "int32" or bias.shape != (units,):
        raise UnsupportedError(f"its bias {name!r} is not an int32 constant of {units}")
    return bias.data
