"""Products of two activations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpulite.arch.numerics import Rounding
from tpulite.graph.graph import Node
from tpulite.graph.layers import MatMul, Pick, Transpose
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import make_requantization, scales_of_product
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.tensors import UnsupportedError

_ROUNDINGS = {
    Exactness.LITERT_REF: Rounding.TFLITE,
    Exactness.LITERT_OPT: Rounding.TFLITE,
    Exactness.LITERT_XNNPACK: Rounding.FLOAT32,
    Exactness.TFLM: Rounding.TFLITE,
    Exactness.ORT: Rounding.FLOAT32,
    Exactness.ORT_INT8: Rounding.FLOAT32,
}

_ORDERS = {
    (0, 2, 1): "m",
    (1, 0, 2): "p",
    (1, 2, 0): "pm",
    (2, 0, 1): "mp",
    (2, 1, 0): "pmp",
}
"""Orders of the axes of an image, and how to get there: by transposing matrices, or picking pixels
of an image whose height and width change places."""

Shape = tuple[int, int, int]

_AXES = 3
"""Axes of an image."""


def lower_matmul(node: Node, context: GraphContext) -> None:
    """Lower a product; matrices that are adjoint in the file change columns and channels first.

    Raises
    ------
    UnsupportedError
        If matrices of the first operand are used repeatedly, or no bits are defined.
    """
    if context.exactness not in _ROUNDINGS:
        raise UnsupportedError(f"{context.exactness} numerics do not define {node.op}")
    operands = _Operands(node, context)
    swapped = operands.swapped
    a, b = (operands.matrices(index, swapped=swapped) for index in ((1, 0) if swapped else (0, 1)))
    heights = context.activations[a].shape[0], context.activations[b].shape[0]
    if heights[1] == 1 and heights[0] > 1:  # one matrix for all: the others are one tall matrix
        height, width, inner = context.activations[a].shape
        a = operands.reshaped(a, "tall", (1, height * width, inner))
    elif heights[0] != heights[1]:
        raise UnsupportedError(f"it multiplies {heights[0]} matrices by {heights[1]}")
    x, w, y = (context.quantized(name) for name in (*node.inputs[:2], node.outputs[0]))
    exactness = context.exactness
    if exactness == Exactness.LITERT_XNNPACK and w.zero_point:
        exactness = Exactness.LITERT_OPT  # which computes what XNNPACK does not take
    scales = scales_of_product(exactness, "matmul", x, w.scale.reshape(1), y)
    target = node.outputs[0]
    (height, width, _), channels = context.activations[a].shape, context.activations[b].shape[2]
    wanted, found = context.write(target), (height, width, channels)
    made = target
    if swapped or wanted.shape != found:
        made = f"{target}/matrices"
        context.declare(made, found)
    context.emit(
        MatMul,
        node.name,
        (a, b),
        made,
        requantization=make_requantization(scales, _ROUNDINGS[exactness], y.zero),
        zero_points=(w.zero, x.zero) if swapped else (x.zero, w.zero),
    )
    if swapped:
        made, product = f"{target}/adjoint", made
        context.declare(made, (height, channels, width))
        context.emit(Transpose, made, (product,), made)
    if made != target:
        context.reshape(f"{node.name}/reshape", made, target)


def check_not_at_end(node: Node, context: GraphContext) -> None:
    """Leave a change of axes at an end of the network to the host, who writes each element anyway.

    Raises
    ------
    UnsupportedError
        If it is there.
    """
    if node.inputs[0] in context.graph.given or node.outputs[0] in context.graph.wanted:
        raise UnsupportedError("it is at an end of the network, where the CPU orders the elements")


def lower_transpose(node: Node, shape: Shape, order: Shape, context: GraphContext) -> None:
    """Lower a change of axes in which channels take part, of an image with this shape."""
    source, target = node.inputs[0], node.outputs[0]
    same = context.requantized(node, source, target)
    name, steps = same, _ORDERS.get(order, "")
    context.read(name)
    if context.activations[name].shape != shape:
        name = _reshape(context, f"{node.name}/matrix", name, shape)
    wanted = context.write(target).shape
    for number, step in enumerate(steps, 1):
        rows, columns, channels = shape = context.activations[name].shape
        swapped = (columns, rows, channels) if step == "p" else (rows, channels, columns)
        made = target
        if number < len(steps) or swapped != wanted:
            made = f"{node.name}/{number}"
            context.declare(made, swapped)
        if step == "m":
            context.emit(Transpose, made, (name,), made)
        else:
            picked = {"rows": tuple(range(rows)), "columns": tuple(range(columns))}
            every = {"channels": tuple(range(channels)), "transposed": True}
            context.emit(Pick, made, (name,), made, **picked, **every)
        name = made
    if name != target:
        context.reshape(f"{node.name}/reshape", name, target)


def image_axes(extents: Sequence[int], perm: Sequence[int]) -> tuple[Shape, Shape] | None:
    """Return rows, columns and channels of a tensor, and their order behind a transposition.

    Axes of one element are left out, wherever they go. Where more than three are left, axes that
    stay neighbors are one; None if these are still more than three, or the channels stay last.

    Examples
    --------
    >>> image_axes((2, 3, 4, 8), (0, 1, 3, 2))
    ((6, 4, 8), (0, 2, 1))
    """
    order = [axis for axis in perm if extents[axis] != 1]
    groups = [[axis] for axis in order]
    if len(order) > _AXES and order[-1] != max(order):
        rank = sorted(order).index
        groups = [[order[0]]]
        for before, axis in pairwise(order):
            if rank(axis) == rank(before) + 1:
                groups[-1].append(axis)
            else:
                groups.append([axis])
    lead = _AXES - len(groups)
    if lead < 0:
        return None
    axes = sorted(groups)
    rows, columns, channels = (
        *(1,) * lead,
        *(math.prod(extents[axis] for axis in group) for group in axes),
    )
    first, second, third = (*range(lead), *(axes.index(group) + lead for group in groups))
    return (rows, columns, channels), (first, second, third)


def _padded(extent: int) -> int:
    """Return elements of whole vectors, of a machine of the default size."""
    return -(-extent // 16) * 16


def _reshape(context: GraphContext, target: str, source: str, shape: Shape) -> str:
    context.declare(target, shape)
    context.reshape(target, source, target)
    return target


@dataclass(frozen=True)
class _Operands:
    """The operands of a node, as images of which each row is a matrix."""

    node: Node
    context: GraphContext

    @property
    def swapped(self) -> bool:
        """Whether the adjoint of the product, with the operands swapped, transposes less.

        Both are products of as many matrices, the second one adjoint.
        """
        if self.node["adj_x"] or not self.node["adj_y"]:
            return False
        (heads, m, k), (others, n, _) = (self._image(index) for index in (0, 1))
        return heads == others and m * _padded(k) + n * _padded(m) < n * _padded(k)

    def _image(self, index: int) -> Shape:
        shape = self.context.tensor(name := self.node.inputs[index]).shape
        height, width, channels = self.context.read(name).shape
        return (1, height, channels) if len(shape) == 2 else (height, width, channels)

    def matrices(self, index: int, *, swapped: bool = False) -> str:
        """Return the image of an operand, not adjoint, or of its adjoint."""
        name, context = self.node.inputs[index], self.context
        shape = context.tensor(name).shape
        image = context.read(name).shape
        if len(shape) == 2:
            name = self.reshaped(name, f"{'ab'[index]} matrix", (1, image[0], image[2]))
            image = context.activations[name].shape
        if self.node[("adj_x", "adj_y")[index]] == swapped:
            return name
        target = f"{self.node.name}/{'ab'[index]} adjoint"
        context.declare(target, (image[0], image[2], image[1]))
        context.emit(Transpose, target, (name,), target)
        return target

    def reshaped(self, name: str, what: str, shape: Shape) -> str:
        """Return the same image of another shape."""
        if self.context.activations[name].shape == shape:
            return name
        return _reshape(self.context, f"{self.node.name}/{what}", name, shape)
