"""Batches of a file: nodes whose windows would see the rows of two feature maps at once.

All feature maps of a batch lie below each other, which is all the same to a layer that sees single
pixels. Others are lowered for one after the other. Between two such nodes the parts stay apart.
"""

from collections.abc import Callable
from dataclasses import replace

from tpulite.graph.graph import Node
from tpulite.graph.layers import Concat, Pick
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.tensors import UnsupportedError

_WINDOWS = ("conv", "depthwise", "max_pool", "average_pool")
_IMAGES = ("transposed_conv", "pad", "resize_bilinear", "resize_nearest", "depth_to_space")
_LEAST_RANK = 4
"""Axes of a batch of feature maps."""


def images_of(node: Node, context: GraphContext) -> int:
    """Return how many feature maps a node maps to as many others; 1 if it mixes them."""
    names = [name for name in node.inputs if name and context.tensor(name).data is None]
    shapes = [context.tensor(name).shape for name in (*names, *node.outputs)]
    if not names or any(len(shape) < _LEAST_RANK for shape in shapes):
        return 1
    counts = {shape[0] for shape in shapes}
    apart = all(axis not in (0, -len(shapes[0])) for axis in _axes(node))
    return counts.pop() if len(counts) == 1 and apart else 1


def _axes(node: Node) -> tuple[int, ...]:
    """Return the axes along which a node mixes elements, those known from its attributes."""
    if node.op == "transpose":
        return () if node["perm"][0] == 0 else (0,)
    if node.op in ("concat", "pack", "unpack"):
        return (node["axis"],)
    if node.op in (*_WINDOWS, *_IMAGES, "space_to_depth"):
        return ()
    return (0,)


def sees_neighbors(node: Node, context: GraphContext) -> bool:
    """Return whether windows of a node, or what it pads, lie in two feature maps of a batch."""
    if node.op not in _WINDOWS:
        return node.op in _IMAGES
    height = context.tensor(node.inputs[0]).shape[1]
    if "window" in node.attributes:
        rows = node["window"][0]
    else:
        rows = context.tensor(node.inputs[1]).shape[node.op == "conv"]
    reach, stride = (rows - 1) * node.attributes.get("dilation", (1, 1))[0] + 1, node["stride"][0]
    return bool(any(node["padding"][::2]) or reach > stride or height % stride)


def lower_images(
    node: Node, context: GraphContext, lower: Callable[[Node, GraphContext], None], count: int
) -> None:
    """Lower a node for each feature map of a batch.

    Parameters
    ----------
    lower : callable
        Lowers a node of one feature map.
    count : int
        Feature maps.
    """
    for index in range(count):
        inputs = tuple(_part(name, index, count, context) for name in node.inputs)
        outputs = tuple(context.part(name, index) for name in node.outputs)
        lower(replace(node, name=f"{node.name}[{index}]", inputs=inputs, outputs=outputs), context)
    for name in node.outputs:
        context.write(name)
        parts = tuple(f"{name}[{index}]" for index in range(count))
        context.emit(Concat, f"{node.name}:{name}", parts, name, axis=0)


def _part(name: str, index: int, count: int, context: GraphContext) -> str:
    """Return a feature map of a tensor; a constant is the same for all of them."""
    if not name or context.tensor(name).data is not None:
        return name
    part = context.part(name, index)
    if all(layer.output != part for layer in context.layers):
        height, width, channels = context.read(name).shape
        if height % count:
            raise UnsupportedError(f"{name!r} cannot be split into {count} parts")
        each = height // count
        rows = tuple(range(index * each, (index + 1) * each))
        fields = {"rows": rows, "columns": tuple(range(width)), "channels": tuple(range(channels))}
        context.declare(part, (each, width, channels), context.activations[name].dtype)
        context.emit(Pick, part, (name,), part, **fields)
    return part
