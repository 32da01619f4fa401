"""Functions of one number, and nodes that only move numbers."""

import numpy as np

from tpulite.graph.graph import Node
from tpulite.graph.layers import Activation, Concat, Lut, Pad, Reshape
from tpulite.quant.exactness.functions import concat_table, function_table
from tpulite.quant.exactness.scaling import activation_bounds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.products import reads_image
from tpulite.quant.tensors import INT8_BOUNDS, UnsupportedError, image_axis


def lower_function(node: Node, context: GraphContext) -> None:
    """Lower a function of one number to its table."""
    source, target = node.inputs[0], node.outputs[0]
    image = context.read(source)
    context.write(target)
    table = function_table(
        node.op,
        context.quantized(source),
        context.quantized(target),
        node.attributes,
        context.exactness,
        image.shape[0] * image.shape[1] * image.shape[2],
    )
    context.emit(Lut, node.name, (source,), target, table=table)


def lower_table(node: Node, context: GraphContext) -> None:
    """Lower a function of one byte whose results are known."""
    source, target = node.inputs[0], node.outputs[0]
    context.read(source)
    context.write(target)
    table = context.quantized(target).image(np.array(node["table"]))
    context.emit(Lut, node.name, (source,), target, table=table)


def lower_pad(node: Node, context: GraphContext) -> None:
    """Lower padding; the value is an integer of the output."""
    target = node.outputs[0]
    source = context.requantized(node, node.inputs[0], target)
    y = context.quantized(target)
    context.read(source)
    context.write(target)
    context.emit(
        Pad,
        node.name,
        (source,),
        target,
        padding=tuple(node["padding"]),
        value=int(node["value"]) - y.zero_point + y.zero,
    )


def lower_concat(node: Node, context: GraphContext) -> None:
    """Lower concatenation; inputs of other scales are requantized first."""
    target = node.outputs[0]
    y = context.quantized(target)
    sources = []
    for index, name in enumerate(node.inputs):
        context.read(name)
        if (x := context.quantized(name)) != y:
            table = concat_table(x, y, context.exactness)
            name = context.map(name, f"{node.name}/{index}", table)
        sources.append(name)
    context.write(target)
    if activation_bounds(node["activation"], y, context.exactness) != INT8_BOUNDS:
        raise UnsupportedError(f"it has the activation {node['activation']}")
    axis = image_axis(context.tensor(target).shape, node["axis"])
    context.emit(Concat, node.name, tuple(sources), target, axis=axis)


def lower_reshape(node: Node, context: GraphContext) -> None:
    """Lower a reshape: integers stay in order and as they are.

    One that parts vectors of the machine is the CPU's at the ends of a network, where it writes or
    reads each element anyway.
    """
    source, target = node.inputs[0], node.outputs[0]
    image = context.read(source)
    wanted = context.write(target)
    ends = is_at_end(source, target, context)
    absorbed = _is_absorbed(node, context)
    if image.dtype == "int32":
        _rename_sums(node, image, wanted, context)
        return
    if ends and not absorbed and not context.keeps_vectors(image.shape, wanted.shape):
        context.refuse_parting(image.shape, wanted.shape)
    if image.dtype == "int8":
        x, y = context.quantized(source), context.quantized(target)
        if x != y and context.exactness.ort:
            source = context.requantized(node, source, target)
        elif x.unsigned != y.unsigned:
            raise UnsupportedError("its tensors are int8 and uint8")
    context.reshape(node.name, source, target, absorbed=absorbed)


def _rename_sums(node: Node, image: Activation, wanted: Activation, context: GraphContext) -> None:
    """Give sums, which the machine does not move, another name: the CPU reads them in order."""
    source, target = node.inputs[0], node.outputs[0]
    read = sum(other.inputs.count(source) for other in context.graph.nodes)
    alone = read == 1 and source not in context.graph.wanted
    made = any(layer.output == source for layer in context.layers)
    if image.shape[2] != wanted.shape[2] or not (alone and made):
        raise UnsupportedError("its tensor is int32, which the machine does not move")
    context.declare(target, image.shape, "int32")
    context.emit(Reshape, node.name, (source,), target)


def is_at_end(source: str, target: str, context: GraphContext) -> bool:
    """Return whether a tensor comes from outside, or another is read there.

    That is by the user, or by changes of scale that the CPU makes.
    """
    begins = all(layer.output != source for layer in context.layers)
    readers = [node.op for node in context.graph.nodes if target in node.inputs]
    unread = all(op in ("quantize", "dequantize") for op in readers)
    return begins or target in context.graph.wanted or unread


def _is_absorbed(node: Node, context: GraphContext) -> bool:
    """Return whether only dense layers read a reshape, which see its input as well."""
    target = node.outputs[0]
    users = [other for other in context.graph.nodes if target in other.inputs]
    if target in context.graph.wanted:
        return False
    return bool(users) and all(
        other.op == "dense" and reads_image(other, context, node.inputs[0]) for other in users
    )
