"""Addition, subtraction and multiplication."""

from dataclasses import replace
from functools import partial

import numpy as np

from tpulite.graph.graph import Node
from tpulite.graph.layers import Conv
from tpulite.graph.requantization import IDENTITY
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.pairs import Pair, pair_layer
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.tensors import UnsupportedError, centered, image_shape

__all__ = ["lower_pair", "pair_operands"]


def lower_pair(node: Node, context: GraphContext) -> None:
    """Lower an operator of two tensors; one may be constant, or the same for all pixels."""
    target = node.outputs[0]
    if (
        node.op == "mul"
        and node.inputs[0] == node.inputs[1]
        and (context.exactness == Exactness.LITERT_XNNPACK)
    ):
        raise UnsupportedError("XNNPACK rounds the square of a tensor otherwise than products")
    names, swapped = pair_operands(node, context, commutes=node.op != "sub")
    a, b = (context.quantized(name) for name in node.inputs[:2])
    if swapped:
        a, b = b, a
    pair = Pair(node.op, a, b, context.quantized(target), node["activation"])
    layer = pair_layer(pair, context.exactness)
    context.emit(partial(replace, layer), node.name, names, target)


def pair_operands(
    node: Node, context: GraphContext, *, commutes: bool
) -> tuple[tuple[str, str], bool]:
    """Return the images of two operands, the first of the shape of the result, and if they swapped.

    The second is of the same shape or the same for all pixels. The result is declared.

    Raises
    ------
    UnsupportedError
        If both are constant, or their shapes do not fit.
    """
    shape = context.write(node.outputs[0]).shape
    names = [_operand(node, context, name, shape) for name in node.inputs[:2]]
    if all(name in context.constants for name in names):
        raise UnsupportedError("both operands are constant")
    if context.activations[names[0]].shape == shape:
        return (names[0], names[1]), False
    if not commutes and names[0] in context.constants:
        return (_expanded(node, context, names[0], shape), names[1]), False
    if not commutes or context.activations[names[1]].shape != shape:
        raise UnsupportedError("its first operand is the same for all pixels")
    return (names[1], names[0]), True


def _operand(node: Node, context: GraphContext, name: str, shape: tuple[int, int, int]) -> str:
    """Return the image of an operand, of the shape of the result or of one pixel."""
    tensor = context.tensor(name)
    own = _aligned(tensor.shape, len(context.tensor(node.outputs[0]).shape))
    if own in (shape, (1, 1, shape[2])):
        if image_shape(tensor.shape) == own:
            context.read(name)
            return name
        target = f"{node.name}/{name}"
        if tensor.data is None:
            context.read(name)
            context.declare(target, own)
            context.reshape(target, name, target)
            return target
    if tensor.data is None and own == (*shape[:2], 1):
        return _spread(context, name, f"{node.name}/{name}", shape)
    if tensor.data is None:
        raise UnsupportedError(f"{name!r} of {list(tensor.shape)} does not fit {list(shape)}")
    value = centered(tensor).reshape(own)
    whole = (1, 1, shape[2]) if own[:2] == (1, 1) else shape
    try:
        value = np.broadcast_to(value, whole)
    except ValueError as error:
        raise UnsupportedError(f"{name!r} of {list(own)} does not fit {list(shape)}") from error
    return context.constant(f"{node.name}/{name}", np.ascontiguousarray(value))


def _spread(context: GraphContext, name: str, target: str, shape: tuple[int, int, int]) -> str:
    """Return an image of one channel with as many as the result has, all alike: a product."""
    source = context.read(name)
    if source.shape != (*shape[:2], 1):
        raise UnsupportedError(f"{name!r} of {list(source.shape)} does not fit {list(shape)}")
    context.declare(target, shape)
    weight = np.ones((1, 1, 1, shape[2]), np.int8)
    context.emit(Conv, target, (name,), target, weight=weight, requantization=IDENTITY)
    return target


def _aligned(shape: tuple[int, ...], rank: int) -> tuple[int, int, int]:
    """Return the image of an operand whose shape is aligned with that of the result at its end."""
    return image_shape((1,) * (rank - len(shape)) + tuple(shape))


def _expanded(node: Node, context: GraphContext, name: str, shape: tuple[int, int, int]) -> str:
    value = np.broadcast_to(context.constants[name], shape)
    return context.constant(f"{node.name}/{name}/whole", np.ascontiguousarray(value))
