"""Products of int16 activations and int8 weights."""

import math
from dataclasses import replace

import numpy as np

from tpulite.arch.numerics import Rounding
from tpulite.graph.graph import Node, Tensor
from tpulite.graph.layers import Conv, Requantization, TransposedConv
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import (
    INT16,
    activation_bounds,
    multipliers,
    scales_of_product,
)
from tpulite.quant.exactness.single_rounding import match_thresholds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.int16.scales import require_litert, scale_of
from tpulite.quant.lower.products import in_one_group
from tpulite.quant.tensors import UnsupportedError, centered

_LARGEST = 1 << 31
"""Sums of 32 bits are less."""

_REDUCED, _MOST = 16, 0x7FFF
"""Bits that the reduced multiplier of 64-bit sums lacks, and the largest one."""

_MOST_SHIFT = 7
"""Largest left shift of 64-bit sums."""

_LARGEST_WINDOW = 64
"""Largest activation that a dense layer reads as it is."""

_RANKS = {"conv": 4, "depthwise": 3, "dense": 2, "transposed_conv": 4}
"""Axes of weights."""


def lower_product(node: Node, context: GraphContext) -> None:
    """Lower CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV or FULLY_CONNECTED to pairs of int8.

    Raises
    ------
    UnsupportedError
        If no record gives the library's bits, or a sum may not fit 32 bits.
    """
    require_litert(context.exactness)
    x, weight, y = (context.tensor(n) for n in (*node.inputs[:2], *node.outputs))
    kernel = _kernel(node, x, weight)
    bias = _bias(node, context)
    most = np.abs(kernel.astype(np.int64)).sum(axis=(0, 1, 2)) * -INT16[0] + np.abs(bias)
    channel = int(most.argmax())
    if most[channel] >= _LARGEST:
        raise UnsupportedError(
            f"sums of channel {channel} may reach {int(most[channel]):,}, beyond 32 bits"
        )
    requantization = _requantization(node, context.exactness, (x, weight, y), bias, most.max())
    fields = {"requantization": requantization, "int16": True}
    source, target = node.inputs[0], node.outputs[0]
    if node.op == "dense":
        _emit_dense(node, context, kernel, fields)
        return
    context.read(source)
    height, width, _ = context.write(target).shape
    if node.op == "transposed_conv":
        geometry = {name: tuple(node[name]) for name in ("stride", "padding")}
        geometry["size"] = height, width // 2
        context.emit(
            TransposedConv, node.name, (source,), target, weight=kernel, **geometry, **fields
        )
        return
    window = _window(node, kernel.shape[1])
    context.emit(Conv, node.name, (source,), target, weight=kernel, **window, **fields)


def reads_pairs(node: Node, context: GraphContext, image: str) -> bool:
    """Return whether a dense layer can read an activation as windows, one for each of its rows."""
    k = context.tensor(node.inputs[1]).shape[-1]
    height, width, channels = context.activations[image].shape
    rows, rest = divmod(height * width * channels, 2 * k)
    if channels == k:
        return True
    window = height // max(rows, 1), width // 2
    return not rest and not height % rows and max(window) <= _LARGEST_WINDOW


def _emit_dense(
    node: Node, context: GraphContext, kernel: np.ndarray, fields: dict[str, object]
) -> None:
    """Emit a dense layer as windows of what its input was before it was reshaped."""
    source, target = node.inputs[0], node.outputs[0]
    context.read(source)
    origin = context.origin(source)
    if not reads_pairs(node, context, origin):
        origin = source
    height, width, channels = context.activations[origin].shape
    if not reads_pairs(node, context, origin):
        k = kernel.shape[2]
        raise UnsupportedError(f"its vectors are {channels} channels, not its {k} inputs")
    rows = height * width * channels // (2 * kernel.shape[2])
    single = channels == kernel.shape[2]
    window = (1, 1) if single else (height // rows, width // 2)
    weight = np.ascontiguousarray(kernel.reshape(*window, channels, -1))
    geometry = {"stride": (window[0], 1), "dilation": (1, 2 if window[1] > 1 else 1)}
    found = (height // window[0], width // window[1], weight.shape[3])
    made = target
    if context.write(target).shape != found:
        made = f"{target}/rows"
        context.declare(made, found)
    context.emit(Conv, node.name, (origin,), made, weight=weight, **geometry, **fields)
    if made != target:
        context.reshape(f"{node.name}/reshape", made, target)


def _kernel(node: Node, x: Tensor, weight: Tensor) -> np.ndarray:
    """Return the weights [kh, kw, K, O]."""
    if weight.dtype != "int8":
        raise UnsupportedError(f"its weights are {weight.dtype}")
    kernel = centered(weight)
    inputs, groups = kernel.shape[-1], node.attributes.get("group", 1)
    if node.op == "depthwise":
        inputs //= node["multiplier"]
    fits = kernel.ndim == _RANKS[node.op] and (node.op == "dense" or inputs * groups == x.shape[-1])
    if not fits or (node.op == "dense" and math.prod(x.shape) % inputs):
        raise UnsupportedError(f"its weights are {list(weight.shape)}, its vectors {x.shape[-1]}")
    if node.op == "dense":
        kernel = kernel.T[np.newaxis, np.newaxis]
    elif node.op == "depthwise":
        kernel = in_one_group(kernel[:, :, np.newaxis], inputs, 0)
    else:
        kernel = in_one_group(kernel.transpose(1, 2, 3, 0), groups, 0)
    return np.ascontiguousarray(kernel)


def _window(node: Node, taps: int) -> dict[str, tuple[int, ...]]:
    """Return the geometry of a convolution of so many columns, two of them to a vector."""
    (down, across), (top, left, bottom, right) = node["dilation"], node["padding"]
    return {
        "stride": tuple(node["stride"]),
        "dilation": (down, 2 * across if taps > 1 else 1),
        "padding": (top, 2 * left, bottom, 2 * right),
    }


def _bias(node: Node, context: GraphContext) -> np.ndarray:
    """Return the bias, int64 [1] or [channels]."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        if context.exactness not in (Exactness.LITERT_REF, Exactness.TFLM):
            raise UnsupportedError(
                f"the numerics of {context.exactness} are not known without a bias"
            )
        return np.zeros(1, np.int64)
    bias = context.tensor(node.inputs[2])
    if bias.data is None or bias.dtype != "int64":
        raise UnsupportedError(f"its bias {bias.name!r} is not an int64 constant")
    return bias.data.reshape(-1)


def _requantization(
    node: Node,
    exactness: Exactness,
    tensors: tuple[Tensor, Tensor, Tensor],
    bias: np.ndarray,
    largest: int,
) -> Requantization:
    """Return how sums become int16.

    LiteRT's dense layers round ``double(sum) * scale``; all others multiply sums of 64 bits by a
    multiplier of 16 bits and round once, half up.
    """
    x, weight, y = tensors
    sides = [scale_of(tensor) for tensor in (x, y)]
    q, axis = weight.quantization, 2 if node.op == "depthwise" else 0
    if q is None or not q.sound or np.any(q.zero_point) or (len(q.scale) > 1 and q.axis != axis):
        raise UnsupportedError(f"weights {weight.name!r} have no symmetric scales of outputs")
    in_double = node.op == "dense" and exactness != Exactness.TFLM
    rule = (
        Exactness.TFLM if exactness == Exactness.TFLM else Exactness.LITERT_REF
    )  # XNNPACK has none
    factors = scales_of_product(rule, node.op, sides[0], q.scale, sides[1])
    rounding = Rounding.AWAY if in_double else Rounding.SINGLE
    multiplier, shift = multipliers(factors, rounding)
    activation = node.attributes.get("activation", "none")
    low, high = activation_bounds(activation, sides[1], rule, INT16)
    record = Requantization(
        multiplier=multiplier,
        shift=shift,
        bias=bias.astype(np.int32),
        rounding=rounding,
        low=low,
        high=high,
        bits=16,
    )
    if in_double:
        return match_thresholds(record, factors, int(largest))
    if shift.max() > _MOST_SHIFT:
        raise UnsupportedError(f"its scale {factors.max()} is beyond those of 64-bit sums")
    reduced = np.minimum((multiplier + (1 << (_REDUCED - 1))) >> _REDUCED, _MOST)
    return replace(record, multiplier=reduced << _REDUCED)
