"""Which operators of int16 the machine has, and what lowers each."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import Concat, Conv, DepthToSpace, Pick
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.data_movement import is_at_end, lower_pad
from tpulite.quant.lower.int16.additions import lower_addition
from tpulite.quant.lower.int16.extremes import (
    lower_extreme_of_int16,
    lower_max_pool_of_int16,
)
from tpulite.quant.lower.int16.products import lower_product, reads_pairs
from tpulite.quant.lower.int16.scales import (
    identity,
    lower_leaky_relu,
    lower_relu,
    lower_scale,
    scaling,
)
from tpulite.quant.lower.int16.sums import lower_average_pool_of_int16, lower_mean_of_int16
from tpulite.quant.lower.int16.svdf import lower_svdf
from tpulite.quant.lower.movement import MOVEMENT, lower_movement, lower_pack
from tpulite.quant.tensors import UnsupportedError, image_axis

Lower = Callable[[Node, GraphContext], None]


def lower_bytes(lower: Lower) -> Lower:
    """Return what lowers a node of int16 as two of int8, and puts their results side by side.

    Parameters
    ----------
    lower : callable
        Lowers a node of int8 that only moves numbers.
    """

    def lower_both(node: Node, context: GraphContext) -> None:
        for half in (0, 1):
            inputs = tuple(_plane(name, half, context) for name in node.inputs)
            outputs = tuple(context.plane(name, half) for name in node.outputs)
            name = f"{node.name}/{('upper', 'lower')[half]}"
            lower(replace(node, name=name, inputs=inputs, outputs=outputs), context)
        for name in node.outputs:
            halves = tuple(context.plane(name, half) for half in (0, 1))
            channels = context.write(name).shape[2]
            fields = {"block": (1, 2), "channels": channels}
            context.emit(DepthToSpace, f"{node.name}:{name}", halves, name, **fields)

    return lower_both


def lower_pick_of_pairs(node: Node, context: GraphContext) -> None:
    """Lower what picks rows, columns and channels.

    Raises
    ------
    UnsupportedError
        If the elements of vectors go different ways, or where they go is not known.
    """
    count = len(context.layers)
    try:
        lower_movement(node, context)
    except UnsupportedError:
        ends = is_at_end(node.inputs[0], node.outputs[0], context)
        if node.op == "transpose" and ends:  # which the CPU orders anyway
            raise
        del context.layers[count:]
        lower_bytes(lower_movement)(node, context)


def lower_concat_of_pairs(node: Node, context: GraphContext) -> None:
    """Lower concatenation: LiteRT's kernels of int16 copy integers, whatever their scales."""
    if node["activation"] != "none":
        raise UnsupportedError(f"it has the activation {node['activation']}")
    target = node.outputs[0]
    for name in node.inputs:
        context.read(name)
    context.write(target)
    axis = image_axis(context.tensor(target).shape, node["axis"])
    context.emit(Concat, node.name, node.inputs, target, axis=axis)


def lower_pad_of_pairs(node: Node, context: GraphContext) -> None:
    """Lower padding: with zeros a product with an identity matrix, else of the bytes."""
    if node["value"]:
        lower_bytes(_pad_plane)(node, context)
        return
    source, target = node.inputs[0], node.outputs[0]
    weight = identity(context.read(source).shape[2], 1)
    context.write(target)
    top, left, bottom, right = node["padding"]
    fields = {"padding": (top, 2 * left, bottom, 2 * right), "requantization": scaling([1.0])}
    context.emit(Conv, node.name, (source,), target, weight=weight, int16=True, **fields)


def lower_reshape_of_pairs(node: Node, context: GraphContext) -> None:
    """Lower a reshape: nothing if vectors stay as they are, or dense layers read its input.

    One that parts vectors is the CPU's at the ends of a network: it moves each element anyway.
    """
    source, target = node.inputs[0], node.outputs[0]
    before, after = context.read(source).shape, context.write(target).shape
    absorbed = _is_absorbed(node, context)
    if absorbed or before[2] == after[2]:
        context.reshape(node.name, source, target, absorbed=absorbed, pairs=True)
        return
    if is_at_end(source, target, context):
        context.refuse_parting(before, after)
    lower_bytes(_reshape_plane)(node, context)


def _is_absorbed(node: Node, context: GraphContext) -> bool:
    """Return whether only dense layers read a reshape, which see its input as well."""
    target = node.outputs[0]
    users = [other for other in context.graph.nodes if target in other.inputs]
    dense = bool(users) and all(other.op == "dense" for other in users)
    if target in context.graph.wanted or not dense:
        return False
    return all(reads_pairs(other, context, node.inputs[0]) for other in users)


def _plane(name: str, half: int, context: GraphContext) -> str:
    """Return upper or lower bytes of an activation of int16; other tensors as they are."""
    if not name or context.tensor(name).dtype != "int16":
        return name
    plane = context.plane(name, half)
    if context.tensor(plane).data is None and all(x.output != plane for x in context.layers):
        height, width, channels = context.read(name).shape
        indices = range(height), range(half, width, 2), range(channels)
        fields = dict(zip(("rows", "columns", "channels"), map(tuple, indices), strict=True))
        context.write(plane)
        context.emit(Pick, plane, (name,), plane, **fields)
    return plane


def _pad_plane(node: Node, context: GraphContext) -> None:
    """Lower padding of bytes with those of an int16."""
    value = int(node["value"])
    byte = value >> 8 if node.name.endswith("/upper") else (value & 0xFF) - 128
    lower_pad(replace(node, attributes={**node.attributes, "value": byte}), context)


def _reshape_plane(node: Node, context: GraphContext) -> None:
    """Lower a reshape of bytes, which may part vectors."""
    source, target = node.inputs[0], node.outputs[0]
    context.read(source)
    context.write(target)
    context.reshape(node.name, source, target)


INT16: Mapping[str, Callable[[Node, GraphContext], None]] = {
    **dict.fromkeys(("conv", "depthwise", "dense", "transposed_conv"), lower_product),
    "requantize": lower_scale,
    **dict.fromkeys(("relu", "relu6"), lower_relu),
    "leaky_relu": lower_leaky_relu,
    **dict.fromkeys(("add", "sub"), lower_addition),
    "average_pool": lower_average_pool_of_int16,
    "mean": lower_mean_of_int16,
    "max_pool": lower_max_pool_of_int16,
    **dict.fromkeys(("maximum", "minimum"), lower_extreme_of_int16),
    "pad": lower_pad_of_pairs,
    "concat": lower_concat_of_pairs,
    "reshape": lower_reshape_of_pairs,
    "svdf": lower_svdf,
    "pack": lower_bytes(lower_pack),
    **dict.fromkeys(set(MOVEMENT) - {"space_to_depth"}, lower_pick_of_pairs),
}
"""How each operator of int16 becomes layers."""


def wide_activations(node: Node, graph: Graph) -> tuple[str, ...]:
    """Return the activations of int16 that a node reads or computes."""
    tensors = (graph.tensors[name] for name in (*node.inputs, *node.outputs) if name)
    return tuple(each.name for each in tensors if each.dtype == "int16" and each.data is None)


def lacking_int16(graph: Graph, config: Config) -> Mapping[str, str]:
    """Return the nodes that a machine without int16 lacks it for, and why."""
    if config.int16:
        return {}
    nodes = (node for node in graph.nodes if node.op in INT16 and wide_activations(node, graph))
    size = config.array_size
    why = f"this configuration has no int16 ({size}x{size},int16=1 has)"
    return {node.name: why for node in nodes}
