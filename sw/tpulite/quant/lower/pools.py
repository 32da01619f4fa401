"""Pooling."""

from typing import Any

from tpulite.graph.graph import Node
from tpulite.graph.layers import Pad, Pool
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import activation_bounds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.tensors import UNSIGNED, UnsupportedError


def lower_max_pool(node: Node, context: GraphContext) -> None:
    """Lower a maximum; a requantization does not change which number is largest."""
    source, target = node.inputs[0], node.outputs[0]
    y = context.quantized(target)
    low, high = activation_bounds(node["activation"], y, context.exactness)
    source = context.requantized(node, source, target)
    context.read(source)
    _emit(node, context, source, op="max", padding=tuple(node["padding"]), low=low, high=high)


def lower_average_pool(node: Node, context: GraphContext) -> None:
    """Lower an average of TFLite: of integers, half away from zero.

    ONNX Runtime sums dequantized numbers in float32, in an order of its own, so its average is not
    a function of the integer sum.
    """
    source, target = node.inputs[0], node.outputs[0]
    x, y = context.quantized(source), context.quantized(target)
    if context.exactness.ort:
        raise UnsupportedError("ONNX Runtime rounds every term of average_pool")
    if not context.exactness.litert:
        raise UnsupportedError(f"{context.exactness} numerics do not define average_pool")
    if x != y:
        raise UnsupportedError(f"{context.exactness} does not requantize in average_pool")
    # XNNPACK has no average of integers; its bounds would be rounded otherwise.
    low, high = activation_bounds(node["activation"], y, Exactness.LITERT_REF)
    image, padding = context.read(source), tuple(node["padding"])
    if node["count_include_pad"] and any(padding):
        top, left, bottom, right = padding
        height, width, channels = image.shape
        padded = f"{node.name}/padded"
        context.declare(padded, (top + height + bottom, left + width + right, channels))
        context.emit(Pad, padded, (source,), padded, padding=padding, value=x.zero)
        source, padding = padded, (0, 0, 0, 0)
    offset = UNSIGNED if x.unsigned else 0
    bounds = {"low": low, "high": high}
    _emit(node, context, source, op="average", padding=padding, offset=offset, **bounds)


def _emit(node: Node, context: GraphContext, source: str, **fields: Any) -> None:
    """Add a pool with the window of the node."""
    target = node.outputs[0]
    context.write(target)
    window, stride = tuple(node["window"]), tuple(node["stride"])
    context.emit(Pool, node.name, (source,), target, window=window, stride=stride, **fields)
