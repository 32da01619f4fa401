"""Operators of two numbers that are several layers of the vector path.

Differences of integers have nine bits. One that is clamped at zero has eight: it is kept with the
zero point -128 if it is positive, 127 if it is negative.
"""

from typing import Any

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import Rounding
from tpulite.graph.graph import Node
from tpulite.graph.layers import Elementwise, Lut
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.pairs import pair_operands
from tpulite.quant.tensors import INT8_BOUNDS, UnsupportedError

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
