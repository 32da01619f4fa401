"""Sums and differences of two tensors of int16.

LiteRT scales both to 2**14 times the larger one, as integers of 31 bits, and rounds their sum. The
operand y of the smaller scale is P = y * multiplier there, divided by 2**(16 + shift), half away
from zero. That is h * 2**(15 - shift) + low with any h near P / 2**31, and of P - h * 2**31, which
has 32 bits, low is the rounded quotient.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tpulite.arch.numerics import INT8, Rounding, quantize_multiplier
from tpulite.graph.graph import Node
from tpulite.graph.layers import Concat, Conv, Requantization
from tpulite.layout.int16 import split_int16
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import INT16, activation_bounds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.int16.scales import identity, require_litert, scale_of
from tpulite.quant.tensors import UnsupportedError

_LEFT = 15
"""Left shift of operands before they are scaled."""

_HALF = 1 << 30
"""Multiplier that leaves 2**14 times an operand."""

_VECTOR = 16
"""Elements at a time of the optimized kernel of ADD, which rounds operands once."""

_BASE, _DIGITS = 256, 4
"""Of weights of 32 bits."""

_MOST_CHANNELS = 1 << 9
"""Channels that the products with identity matrices are worth."""


@dataclass(frozen=True)
class _Sum:
    """The integers of an addition, after the operand of the larger scale came first."""

    signs: tuple[int, int]  #: Of the operands.
    #: Of the second operand: ``multiplier * 2**-shift``.
    multiplier: int
    shift: int
    once: bool  #: Whether the second operand is rounded once, half up.
    result: Requantization  #: How the sum is scaled.


def lower_addition(node: Node, context: GraphContext) -> None:
    """Lower ADD or SUB.

    Raises
    ------
    UnsupportedError
        If an activation would be broadcast, scales are too far apart, or the vector code of the
        optimized kernels would round the last elements differently.
    """
    require_litert(context.exactness)
    target = node.outputs[0]
    scales = [float(scale_of(context.tensor(name)).scale) for name in node.inputs[:2]]
    swapped = scales[1] > scales[0]
    names = node.inputs[1::-1] if swapped else node.inputs[:2]
    total = _total(node, context, sorted(scales, reverse=True), swapped=swapped)
    height, width, channels = context.write(target).shape
    if channels > _MOST_CHANNELS:
        raise UnsupportedError(f"it has {channels} channels, more than {_MOST_CHANNELS}")
    operands = tuple(whole_operand(node, name, context) for name in names)
    both = f"{node.name}/operands"
    context.declare(both, (height, width, 2 * channels))
    context.emit(Concat, both, operands, both, axis=2)
    if not total.shift:
        weight = 64 * identity(channels, *total.signs).transpose(0, 1, 3, 2)
        digits = np.ones(2 * channels, np.int64)
        _emit(node.name, context, (both, target), weight, total.result, digits)
        return
    block = -(-channels // context.vector) * context.vector
    parts, pieces = f"{node.name}/parts", f"{node.name}/pieces"
    for name, count in ((parts, 8), (pieces, 3)):
        context.declare(name, (height, width, count * block))
    _emit(parts, context, (both, parts), *_parts(total, channels, block))
    _emit(pieces, context, (parts, pieces), *_pieces(total, block))
    weight, digits = _joining(total, block)
    weight = weight[:, :, :, :channels]
    _emit(node.name, context, (pieces, target), weight, total.result, digits)


def whole_operand(node: Node, name: str, context: GraphContext) -> str:
    """Return the image of an operand, which has the shape of the result, or is constant.

    Raises
    ------
    UnsupportedError
        If an activation would be broadcast.
    """
    tensor, shape = context.tensor(name), context.tensor(node.outputs[0]).shape
    if tensor.shape == shape:
        context.read(name)
        return name
    if tensor.data is None:
        raise UnsupportedError(f"{name!r} of shape {list(tensor.shape)} would be broadcast")
    value = np.ascontiguousarray(np.broadcast_to(tensor.data, shape))
    image = context.write(node.outputs[0]).shape
    return context.constant(f"{node.name}/{name}", split_int16(value).reshape(image))


def _total(node: Node, context: GraphContext, scales: list[float], *, swapped: bool) -> _Sum:
    """Return the integers of a node; scales are those of the operands, the larger one first."""
    y = scale_of(context.tensor(node.outputs[0]))
    twice = 2 * scales[0]
    multiplier, shift = quantize_multiplier(scales[1] / twice)
    last = quantize_multiplier(twice / ((1 << _LEFT) * float(y.scale)))
    if last[1] > 0 or shift < -_LEFT:
        raise UnsupportedError(f"its scales {scales} and {float(y.scale)} are too far apart")
    if (multiplier, shift) == (_HALF, 1):
        multiplier, shift = _HALF, 0
    second = -1 if node.op == "sub" else 1
    signs = (second, 1) if swapped else (1, second)
    low, high = activation_bounds(node["activation"], y, Exactness.LITERT_REF, INT16)
    record = Requantization(
        multiplier=np.array([last[0]]),
        shift=np.array([last[1]]),
        rounding=Rounding.TFLITE,
        low=low,
        high=high,
        bits=16,
    )
    once = _rounds_once(node, context, multiplier, -shift)
    return _Sum(signs, multiplier, -shift, once, record)


def _rounds_once(node: Node, context: GraphContext, multiplier: int, shift: int) -> bool:
    """Return whether the smaller operand is rounded once: by vector code of the optimized ADD."""
    shapes = [context.tensor(name).shape for name in (*node.inputs[:2], node.outputs[0])]
    vectors, rest = divmod(math.prod(shapes[0]), _VECTOR)
    optimized = context.exactness in (Exactness.LITERT_OPT, Exactness.LITERT_XNNPACK)
    if not optimized or node.op != "add" or len(set(shapes)) > 1 or not vectors or not shift:
        return False
    products = np.arange(INT16[0], INT16[-1] + 1, dtype=np.int64) * multiplier
    first = (products + (1 << 15)) >> 16
    twice = (first + (1 << (shift - 1)) - (first < 0)) >> shift
    once = (products + (1 << (15 + shift))) >> (16 + shift)
    if rest and np.any(twice != once):
        raise UnsupportedError(f"LiteRT's vector code rounds the last {rest} elements differently")
    return True


def _parts(
    total: _Sum, channels: int, block: int
) -> tuple[np.ndarray, Requantization, np.ndarray | None]:
    """Return what makes y four times, h, whether y is negative, x, and h of both operands.

    Of h its sign is that which the sum lacks.
    """
    second = -total.signs[1]
    weight = np.zeros((1, 1, 2 * channels, 8, block), np.int8)
    for part, factor in enumerate((1, 1, 1, 1, second, 1, 0, second)):
        weight[0, 0, range(channels, 2 * channels), part, range(channels)] = factor
    weight[0, 0, range(channels), 6, range(channels)] = 1
    by_part = {
        "multiplier": [_HALF] * 4 + [total.multiplier, _HALF, _HALF, total.multiplier],
        "shift": [1] * 4 + [0, 1, 1, 0],
        "low": [INT16[0]] * 5 + [-1] + [INT16[0]] * 2,
        "high": [INT16[-1]] * 5 + [0] + [INT16[-1]] * 2,
    }
    record = _by_blocks(by_part, block)
    return weight.reshape(1, 1, 2 * channels, -1), record, None


def _pieces(total: _Sum, block: int) -> tuple[np.ndarray, Requantization, np.ndarray]:
    """Return what makes x, h and the lower piece of what is to be added of the parts.

    Half away from zero is half up of a negative number less one.
    """
    digits = _digits(total.multiplier)
    weight = np.zeros((1, 1, 8, block, 3, block), np.int8)
    each = range(block)
    for part, factor in enumerate((*digits, INT8[0], 0 if total.once else 1)):
        weight[0, 0, part, each, 2, each] = factor
    weight[0, 0, 6, each, 0, each] = weight[0, 0, 7, each, 1, each] = 1
    by_piece = {
        "multiplier": [_HALF, _HALF, 1 << 15],
        "shift": [1, 1, -total.shift],
        "rounding": [*[Rounding.RUY] * 2, Rounding.SINGLE if total.once else Rounding.RUY],
    }
    record = _by_blocks(by_piece, block)
    counted = np.repeat(np.array([0, 1, 2, 3, 3, 2, 0, 0]), block)
    return weight.reshape(1, 1, 8 * block, -1), record, counted


def _by_blocks(fields: Mapping[str, list[int]], block: int) -> Requantization:
    """Return a record of blocks of channels, each with a value of every field."""
    arrays: dict[str, Any] = {
        name: np.repeat(np.array(values, np.int64), block) for name, values in fields.items()
    }
    plain = Requantization(
        multiplier=np.array([_HALF]), shift=np.array([1]), low=INT16[0], high=INT16[-1], bits=16
    )
    return replace(plain, **arrays)


def _joining(total: _Sum, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and digits that add x, h and the lower piece, each as often as it counts."""
    digit, bit = divmod(_LEFT - total.shift, 8)
    weight = np.zeros((1, 1, 3, block, block), np.int8)
    for piece, factor in enumerate((64 * total.signs[0], -(1 << bit), total.signs[1])):
        weight[0, 0, piece, range(block), range(block)] = factor
    return weight.reshape(1, 1, -1, block), np.repeat(np.array([1, digit, 0]), block)


def _digits(value: int) -> list[int]:
    """Return the digits of a number modulo 2**32, the lowest one first, each an int8."""
    digits = []
    for _ in range(_DIGITS):
        digit = (value - INT8[0]) % _BASE + INT8[0]
        digits.append(digit)
        value = (value - digit) // _BASE
    return digits


def _emit(
    name: str,
    context: GraphContext,
    ends: tuple[str, str],
    weight: np.ndarray,
    record: Requantization,
    digits: np.ndarray | None,
) -> None:
    """Emit a product of int16 whose weights have digits."""
    fields = {"weight": np.ascontiguousarray(weight), "requantization": record, "digits": digits}
    context.emit(Conv, name, ends[:1], ends[1], int16=True, **fields)
