"""Operators of two numbers that are several layers of the vector path.

Differences of integers have nine bits. One that is clamped at zero has eight: it is kept with the
zero point -128 if it is positive, 127 if it is negative.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import Rounding
from tpulite.graph.graph import Node
from tpulite.graph.layers import Affine, Elementwise, Lut
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.exactness.pairs import Pair, pair_layer
from tpulite.quant.exactness.scaling import activation_bounds, make_requantization
from tpulite.quant.lower.affine import affine_records
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.movement import spread
from tpulite.quant.tensors import INT8_BOUNDS, Quantized, UnsupportedError, centered, image_shape

_LOW, _HIGH = INT8_BOUNDS
_IMAGES = np.arange(_LOW, _HIGH + 1)


def lower_extreme(node: Node, context: GraphContext) -> None:
    """Lower the larger or smaller of two numbers: a table, or a difference and a sum.

    LiteRT compares integers, whatever they mean. ONNX Runtime compares real numbers, which is the
    same as to compare what they become in the quantization of the result.
    """
    if context.exactness == Exactness.BM1684X:
        raise UnsupportedError(f"bm1684x numerics do not define {node.op}")
    target = node.outputs[0]
    (a, b), swapped = pair_operands(node, context, commutes=True)
    if context.exactness.ort:
        first, second = node.inputs[1::-1] if swapped else node.inputs[:2]
        a, b = _requantized(node, context, a, first), _requantized(node, context, b, second)
    known = uniform(context, b)
    if known is not None:
        table = (np.maximum if node.op == "maximum" else np.minimum)(_IMAGES, known)
        context.emit(Lut, node.name, (a,), target, table=table.astype(np.int8))
        return
    zero = _LOW if node.op == "maximum" else _HIGH
    more = context.declare_like(a, f"{node.name}/difference")
    add_integers(context, more, (a, b), more, minus=True, zero=zero)
    add_integers(context, node.name, (more, b), target, zero_points=(zero, 0))


def add_integers(
    context: GraphContext,
    name: str,
    inputs: tuple[str, str],
    output: str,
    zero_points: tuple[int, int] = (0, 0),
    *,
    minus: bool = False,
    zero: int = 0,
) -> None:
    """Emit a layer that adds or subtracts integers less zero points, adds ``zero``, and clamps."""
    fields = sum_of_integers(context, zero_points, minus=minus, zero=zero)
    context.emit(Elementwise, name, inputs, output, **fields)


def sum_of_integers(
    context: GraphContext, zero_points: tuple[int, int], *, minus: bool = False, zero: int = 0
) -> dict[str, Any]:
    """Return the fields of a layer that adds or subtracts integers."""
    return {
        "op": "sub" if minus else "add",
        "zero_points": zero_points,
        "multipliers": (1, 1),
        "scaling": Scaling.EXACT,
        **integers(context, zero),
    }


def integers(context: GraphContext, zero: int = 0) -> dict[str, Any]:
    """Return a requantization that adds ``zero`` and clamps; there is nothing to round."""
    rounding = Rounding.FLOAT32 if context.exactness.floats else Rounding.TFLITE
    return {"requantization": make_requantization(1.0, rounding, zero)}


def uniform(context: GraphContext, image: str) -> int | None:
    """Return the integer that all elements of a known image are, if there is one."""
    value = context.constants.get(image)
    if value is None or np.any(value != value.flat[0]):
        return None
    return int(value.flat[0])


def _requantized(node: Node, context: GraphContext, image: str, tensor: str) -> str:
    """Return an image in the quantization of the result."""
    x, y = context.quantized(tensor), context.quantized(node.outputs[0])
    if x == y:
        return image
    table = function_table("requantize", x, y, {}, context.exactness, 0)
    name = f"{node.name}/{image}/requantized"
    if image in context.constants:
        return context.constant(name, table[context.constants[image].astype(int) - _LOW])
    return context.map(image, name, table)


_IN_FLOATS = ("Add", "Sub", "Sum", "Mul")
"""What files call operators that are not quantized themselves."""


def lower_pair(node: Node, context: GraphContext) -> None:
    """Lower an operator of two tensors; one may be constant, or the same for all pixels."""
    target = node.outputs[0]
    if (
        node.op == "mul"
        and node.inputs[0] == node.inputs[1]
        and (context.exactness == Exactness.LITERT_XNNPACK)
    ):
        raise UnsupportedError(
            "XNNPACK rounds the square of a tensor differently from other products"
        )
    names, swapped = pair_operands(node, context, commutes=node.op != "sub")
    a, b = (context.quantized(name) for name in node.inputs[:2])
    if swapped:
        a, b = b, a
    if context.exactness.ort and node.source in _IN_FLOATS:
        _lower_floats(node, context, names, (a, b))
        return
    pair = Pair(node.op, a, b, context.quantized(target), node["activation"])
    layer = pair_layer(pair, context.exactness)
    context.emit(partial(replace, layer), node.name, names, target)


def _lower_floats(
    node: Node, context: GraphContext, names: tuple[str, str], operands: tuple[Quantized, Quantized]
) -> None:
    """Lower what ONNX Runtime leaves between DequantizeLinear and QuantizeLinear.

    It does so where one operand is int8 and the other uint8: a product and its bias, for example.
    With a constant for each channel a result depends on one byte; records count only if they are
    right for all 256.

    Parameters
    ----------
    node : Node
        ``add``, ``sub`` or ``mul``.
    context : GraphContext
        Gets the layer.
    names : pair of str
        Images of the operands.
    operands : pair of Quantized
        Their quantizations.
    """
    if node.op != "sub" and names[0] in context.constants:
        names, operands = (names[1], names[0]), (operands[1], operands[0])
    (x, known), y = operands, context.quantized(node.outputs[0])
    value = context.constants.get(names[1])
    channels = context.activations[names[0]].shape[2]
    if value is None or value.shape != (1, 1, channels):
        raise UnsupportedError("ONNX Runtime computes in float32, and no operand is by channel")
    numbers = (value.reshape(-1).astype(np.int64) - known.zero).astype(np.float32) * known.scale
    factor, addend = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    if node.op == "mul":
        factor = numbers
    else:
        addend = -numbers if node.op == "sub" else numbers
    real = (x.integers() - x.zero_point).astype(np.float32) * x.scale
    scaled = (real[:, np.newaxis] * factor + addend) / y.scale  # one of the two rounds nothing
    wanted = y.image(np.rint(scaled).astype(np.int64) + y.zero_point)
    gain, record = affine_records(x, y, factor, addend, wanted)
    low, high = activation_bounds(node["activation"], y, context.exactness)
    record = replace(record, low=low, high=high)
    context.emit(Affine, node.name, names[:1], node.outputs[0], gain=gain, requantization=record)


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
    if commutes and context.activations[names[1]].shape == shape:
        return (names[1], names[0]), True
    if names[0] in context.constants:
        return (_expanded(node, context, names[0], shape), names[1]), False
    whole = f"{node.name}/{node.inputs[0]}/whole"
    spread(context, node.inputs[0], whole, context.tensor(node.outputs[0]).shape)
    return (whole, names[1]), False


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
    result = context.tensor(node.outputs[0]).shape
    if tensor.data is None:
        target = f"{node.name}/{name}"
        spread(context, name, target, result)
        return target
    pixel = (1,) * (len(result) - 1) + result[-1:]
    whole = pixel if own[:2] == (1, 1) else result
    levels = centered(tensor)
    try:
        value = np.broadcast_to(levels, whole)
    except ValueError as error:
        raise UnsupportedError(
            f"{name!r} of shape {list(tensor.shape)} cannot be broadcast to {list(result)}"
        ) from error
    value = np.ascontiguousarray(value).reshape((1, 1, shape[2]) if whole == pixel else shape)
    return context.constant(f"{node.name}/{name}", value)


def _aligned(shape: tuple[int, ...], rank: int) -> tuple[int, int, int]:
    """Return the image of an operand whose shape is aligned with that of the result at its end."""
    return image_shape((1,) * (rank - len(shape)) + tuple(shape))


def _expanded(node: Node, context: GraphContext, name: str, shape: tuple[int, int, int]) -> str:
    value = np.broadcast_to(context.constants[name], shape)
    return context.constant(f"{node.name}/{name}/whole", np.ascontiguousarray(value))
