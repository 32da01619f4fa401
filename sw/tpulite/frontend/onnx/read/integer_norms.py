"""Batch normalizations behind convolutions with integer weights: they become scales and biases."""

from collections import Counter

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.tensor import array

_EPSILON = 1e-5
"""What a normalization adds to variances if it does not say it."""

_BIAS = 2
"""Input of a convolution that is its bias."""

_OUTPUT_AXIS = 0
"""Axis of a convolution's weights that its output channels are."""


def fold_integer_norms(model: onnx.ModelProto) -> None:
    """Fold normalizations into convolutions whose weights DequantizeLinear makes of constants.

    ``(w * x + b - mean) * gain + beta``, where the gain is gamma over a standard deviation, is a
    convolution with the scales of ``w`` times the gain; the integers stay, but for signs, where the
    gain is negative. Convolutions and weights that others read, and weights that lose a value if
    their sign changes, stay.
    """
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    writers = {name: node for node in graph.node for name in node.output}
    reads = Counter(name for node in graph.node for name in node.input)
    reads.update(value.name for value in graph.output)
    gone = []
    for norm in graph.node:
        conv = writers.get(norm.input[0]) if norm.op_type == "BatchNormalization" else None
        if conv is None or conv.op_type != "Conv" or reads[norm.input[0]] > 1:
            continue
        weight = writers.get(conv.input[1])
        names = (*norm.input[1:], *conv.input[2:], *(weight.input if weight else ()))
        if weight is None or weight.op_type != "DequantizeLinear" or reads[conv.input[1]] > 1:
            continue
        axis = next((each.i for each in weight.attribute if each.name == "axis"), 1)
        values = [array(tensors[name]) for name in names if name in tensors]
        has_bias = len(conv.input) > _BIAS
        if len(values) < len(names) or (values[-2].size > 1 and axis != _OUTPUT_AXIS):
            continue
        gamma, beta, mean, variance = (value.astype(np.float64) for value in values[:4])
        epsilon = next((each.f for each in norm.attribute if each.name == "epsilon"), _EPSILON)
        gain = gamma / np.sqrt(variance + epsilon)
        folded = _scaled(values[-3], values[-2], values[-1], gain)
        if folded is None:
            continue
        bias = values[4].astype(np.float64) if has_bias else np.zeros_like(mean)
        made: dict[str, np.ndarray] = dict(
            zip(("integers", "scale", "zero_point"), folded, strict=True)
        )
        made["bias"] = ((bias - mean) * gain + beta).astype(np.float32)
        graph.initializer.extend(
            numpy_helper.from_array(value, f"{norm.output[0]}/{role}")
            for role, value in made.items()
        )
        *operands, added = (f"{norm.output[0]}/{role}" for role in made)
        weight.CopyFrom(
            helper.make_node("DequantizeLinear", operands, weight.output, weight.name, axis=0)
        )
        conv.input[:] = [*conv.input[:2], added]
        conv.output[0] = norm.output[0]
        gone.append(norm)
    for norm in gone:
        graph.node.remove(norm)


def _scaled(
    integers: np.ndarray, scale: np.ndarray, zeros: np.ndarray, gain: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return integers, scales and zero points of weights times a gain for each output channel.

    A channel that is next to nothing, as pruning leaves it, becomes zeros. None if an integer does
    not exist.
    """
    channels = (-1, *(1,) * (integers.ndim - 1))
    scales = np.broadcast_to(np.abs(gain) * scale.astype(np.float64), gain.shape)
    dead = scales < np.finfo(np.float32).tiny
    sign = np.where(dead, 0, np.where(gain < 0, -1, 1)).reshape(channels)
    signed, info = integers.astype(np.int64) * sign, np.iinfo(integers.dtype)
    if zeros.any() or signed.min() < info.min or signed.max() > info.max:
        return None
    scales = np.where(dead, 1 if dead.all() else scales.max(), scales)
    zeros = np.zeros(gain.shape, integers.dtype)
    return signed.astype(integers.dtype), scales.astype(np.float32), zeros
