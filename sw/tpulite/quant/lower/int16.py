"""LiteRT's int16x8: products of int16 activations and int8 weights."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.layers import Conv, Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import (
    INT16,
    activation_bounds,
    multipliers,
    scales_of_product,
)
from tpulite.quant.exactness.single_rounding import match_thresholds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.int16_scales import lower_scale, scale_of
from tpulite.quant.tensors import UnsupportedError, centered

__all__ = ["is_int16", "lacking_int16", "lower_int16"]

_LARGEST = 1 << 31
"""Sums of 32 bits are less."""

_REDUCED, _MOST = 16, 0x7FFF
"""Bits that the reduced multiplier of 64-bit sums lacks, and the largest one."""

_MOST_SHIFT = 7
"""Largest left shift of 64-bit sums."""


def is_int16(node: Node, graph: Graph) -> bool:
    """Return whether a node is of int16: a convolution, a dense layer, a change of scale."""
    names = {"conv": node.inputs[:1], "dense": node.inputs[:1]}
    names["requantize"] = (*node.inputs[:1], *node.outputs[:1])
    return any(graph.tensors[name].dtype == "int16" for name in names.get(node.op, ()))


def lacking_int16(graph: Graph, config: Config) -> Mapping[str, str]:
    """Return the nodes that a machine without int16 lacks it for, and why."""
    if config.int16:
        return {}
    nodes = (node for node in graph.nodes if is_int16(node, graph))
    return {node.name: "this configuration has no int16 (16x16,int16=1 has)" for node in nodes}


def lower_int16(node: Node, context: GraphContext) -> None:
    """Lower FULLY_CONNECTED, CONV_2D or QUANTIZE to layers of pairs of int8.

    Raises
    ------
    UnsupportedError
        If no record gives the library's bits, or a sum may not fit 32 bits.
    """
    if node.op == "requantize":
        lower_scale(node, context)
        return
    x, y, weight = (context.tensor(n) for n in (*node.inputs[:1], *node.outputs, node.inputs[1]))
    kernel = _kernel(node, x, weight)
    bias = _bias(node, context)
    most = np.abs(kernel.astype(np.int64)).sum(axis=(0, 1, 2)) * -INT16[0] + np.abs(bias)
    channel = int(most.argmax())
    if most[channel] >= _LARGEST:
        raise UnsupportedError(
            f"sums of channel {channel} may reach {int(most[channel]):,}, beyond 32 bits"
        )
    requantization = _requantization(node, context.exactness, (x, weight, y), bias, most.max())
    context.read_int16(node.inputs[0])
    context.write_int16(node.outputs[0])
    fields = {"weight": kernel, "requantization": requantization, "int16": True}
    if node.op == "conv":
        fields |= _window(node, kernel.shape[1])
    context.emit(Conv, node.name, node.inputs[:1], node.outputs[0], **fields)


def _kernel(node: Node, x: Tensor, weight: Tensor) -> np.ndarray:
    """Return the weights [kh, kw, K, O]."""
    if weight.dtype != "int8":
        raise UnsupportedError(f"its weights are {weight.dtype}")
    kernel = centered(weight)
    if kernel.ndim != (4 if node.op == "conv" else 2) or kernel.shape[-1] != x.shape[-1]:
        raise UnsupportedError(f"its weights are {list(weight.shape)}, its vectors {x.shape[-1]}")
    kernel = kernel.T if node.op == "dense" else kernel.transpose(1, 2, 3, 0)
    return np.ascontiguousarray(kernel.reshape((1,) * (4 - kernel.ndim) + kernel.shape))


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
    if not exactness.litert:
        raise UnsupportedError(f"the numerics of {exactness} are not known for int16")
    x, weight, y = tensors
    sides = [scale_of(tensor) for tensor in (x, y)]
    q = weight.quantization
    if q is None or not q.sound or np.any(q.zero_point) or (len(q.scale) > 1 and q.axis != 0):
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
