"""SQUARED_DIFFERENCE: a table of a magnitude, or steps along a difference of 16 bits.

LiteRT scales both operands to 1/64 of the larger scale, so their difference d has 16 bits. A coarse
difference of 8 bits names an interval of d, which is at most 128 long, and the lowest byte of d
tells where in it d is: sums of the vector path wrap. Within an interval the result has few steps,
each at a byte that a table of intervals knows.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8, Rounding
from tpulite.golden.layers import run_layer
from tpulite.graph.graph import Node
from tpulite.graph.layers import Elementwise, Layer, Lut
from tpulite.quant.exactness.litert import Integers
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.quant.exactness.selections import scaled_operands, squared_difference, squares
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.selections import add_integers, pair_operands, uniform
from tpulite.quant.tensors import INT8_BOUNDS, Quantized, UnsupportedError

_LOW, _HIGH = INT8_BOUNDS
_BYTES = len(INT8)
_IMAGES = np.arange(_LOW, _HIGH + 1)

_LARGER = 64
"""What the operand of the larger scale is multiplied by."""

_TOP = 1 << 24
"""A factor of which sums in int32 keep the lowest byte of what it multiplies."""

_FINE = 1 << 14
"""Denominator of the factors of the coarse difference; sums and bias together fit int32."""

_ENDS = 4
"""Intervals that are left over for differences whose square is clamped, at both ends together."""


def lower_squared_difference(node: Node, context: GraphContext) -> None:
    """Lower the square of a difference: a table of its magnitude where 8 bits will do, or steps.

    With one scale the magnitude has 8 bits. Where large differences have all the same square a
    signed difference of 8 bits will do.
    """
    if not context.exactness.litert:
        raise UnsupportedError(f"{context.exactness} has no integer squared difference")
    target = node.outputs[0]
    (a, b), swapped = pair_operands(node, context, commutes=True)
    x, other, y = (context.quantized(name) for name in (*node.inputs[:2], target))
    if swapped:
        x, other = other, x
    if x.unsigned:
        raise UnsupportedError(f"{context.exactness} has no uint8 squared difference")
    zeros = (x.zero, other.zero)
    known = uniform(context, b)
    if known is not None:
        constant = np.array(known - other.zero)
        table = squared_difference((_IMAGES - x.zero, constant), x, other, y)
        context.emit(Lut, node.name, (a,), target, table=table)
        return
    most = _BYTES - 1 + abs(x.zero - other.zero)
    magnitudes = squared_difference((np.arange(most + 1), np.array(0)), x, other, y)
    found = f"{node.name}/magnitude"
    if x.scale == other.scale and np.all(magnitudes[_HIGH:] == magnitudes[_HIGH]):
        context.declare_like(a, found)
        add_integers(context, found, (a, b), found, zero_points=zeros, minus=True)
        table = magnitudes[np.minimum(np.abs(_IMAGES), most)]
    elif x.scale == other.scale and np.all(magnitudes[_BYTES:] == magnitudes[_BYTES - 1]):
        context.declare_like(a, found)
        signs = {}
        for zero in (_LOW, _HIGH):
            signs[zero] = context.declare_like(a, f"{node.name}/difference{zero}")
            add_integers(
                context, signs[zero], (a, b), signs[zero], zero_points=zeros, minus=True, zero=zero
            )
        add_integers(
            context, found, (signs[_LOW], signs[_HIGH]), found, (_LOW, _HIGH), minus=True, zero=_LOW
        )
        table = magnitudes[_IMAGES - _LOW]
    else:
        _lower_steps(node, context, (a, b), (x, other, y))
        return
    context.emit(Lut, node.name, (found,), target, table=table)


def _lower_steps(
    node: Node,
    context: GraphContext,
    images: tuple[str, str],
    tensors: tuple[Quantized, Quantized, Quantized],
) -> None:
    """Lower the square of a difference of 16 bits, if that is right for all pairs of bytes.

    Parameters
    ----------
    context : GraphContext
        Gets the layers.
    images : pair of str
        The operands.
    tensors : tuple of Quantized
        The operands and the result.
    """
    x, other, _ = tensors
    rounding = Rounding.FLOAT32 if context.exactness.floats else Rounding.TFLITE
    scaled = scaled_operands((_IMAGES - x.zero, _IMAGES - other.zero), x, other)
    differences = np.subtract.outer(*scaled)
    results = squares(differences, *tensors)
    coarse = _coarse(tensors, differences, results, rounding)
    pairs = {"a": _IMAGES[:, np.newaxis], "b": _IMAGES[np.newaxis]}
    starts, steps = _steps(run_layer(coarse, *pairs.values()), differences, results)
    layers = [
        coarse,
        _table("coarse", "start", starts),
        *(_passed(scaled, tensors, steps, rounding) if len(steps) else ()),
    ]
    for layer in layers:
        pairs[layer.output] = run_layer(layer, *(pairs[name] for name in layer.inputs))
    if not np.array_equal(pairs[layers[-1].output], results):
        raise UnsupportedError(
            "its difference needs 16 bits, and 8-bit steps do not give LiteRT's results"
        )
    names = dict(zip("ab", images, strict=True))
    for layer in layers:
        inputs = tuple(names[name] for name in layer.inputs)
        name = names[layer.output] = f"{node.name}/{layer.name}"
        if isinstance(layer, Lut) and inputs[0] in context.constants:
            value = context.constants[inputs[0]].astype(np.int64)
            context.constant(name, layer.table[value - _LOW])
            continue
        if layer is layers[-1]:
            name, names[layer.output] = node.name, node.outputs[0]
        else:
            context.declare_like(inputs[0], name)
        context.emit(partial(replace, layer), name, inputs, names[layer.output])


def _coarse(
    tensors: tuple[Quantized, Quantized, Quantized],
    differences: Integers,
    results: NDArray[np.int8],
    rounding: Rounding,
) -> Elementwise:
    """Return a difference of 8 bits: the intervals of all d whose square is not clamped."""
    x, other, _ = tensors
    free = differences[results < _HIGH] if np.any(results < _HIGH) else differences
    low, high = int(free.min()), int(free.max())
    whole = high - low == np.ptp(differences)
    length = max(1.0, (high - low + 1) / (_BYTES if whole else _BYTES - _ENDS))
    middle = (low + high) / 2 + (length / 2 if whole else 0)
    larger = max(float(x.scale), float(other.scale))
    first, second = (round(_LARGER * float(side.scale) / larger * _FINE) for side in (x, other))
    return Elementwise(
        name="coarse",
        inputs=("a", "b"),
        output="coarse",
        op="sub",
        zero_points=(x.zero, other.zero),
        multipliers=(first, second),
        scaling=Scaling.EXACT,
        requantization=make_requantization(
            1 / (length * _FINE), rounding, bias=round(-middle * _FINE)
        ),
    )


def _steps(
    coarse: NDArray[np.int8], differences: Integers, results: NDArray[np.int8]
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return where the result of each interval starts, int8 [256], and its steps, [count, 256].

    A step t counts one from d = t + 1 on, at most 127 after t and 128 before. So one that goes down
    is one half a turn before: it counts for what is less.
    """
    starts = np.zeros(_BYTES, np.int8)
    never = np.zeros(_BYTES, np.int64)
    steps = [never[:0]] * _BYTES
    for index in np.unique(coarse.astype(np.int64)) - _LOW:
        here = coarse == index + _LOW
        where, first = np.unique(differences[here], return_index=True)
        values = results[here][first].astype(np.int64)
        jumps = np.diff(values)
        up, down = (np.repeat(where[1:], np.maximum(sign * jumps, 0)) for sign in (1, -1))
        steps[index] = np.concatenate([up - 1, down + _LOW])
        starts[index], never[index] = values[0] - len(down), where[-1]
    table = np.tile(never, (max(map(len, steps)), 1))
    for index, own in enumerate(steps):
        table[: len(own), index] = own
    return starts, _lowest_byte(table)


def _passed(
    scaled: tuple[Integers, Integers],
    tensors: tuple[Quantized, Quantized, Quantized],
    steps: NDArray[np.int8],
    rounding: Rounding,
) -> Iterator[Layer]:
    """Yield the layers that count steps: lowest bytes of d, then of each step one more result."""
    sides = []
    for name, values, tensor in zip("ab", scaled, tensors, strict=False):
        if np.array_equal(values, _LARGER * (_IMAGES - tensor.zero)):
            sides.append((name, tensor.zero, _LARGER * _TOP))
        else:
            sides.append((f"{name} lowest", 0, _TOP))
            yield _table(name, sides[-1][0], _lowest_byte(values))
    names, zeros, factors = zip(*sides, strict=True)
    yield _lowest("lowest", names, rounding, zero_points=zeros, multipliers=factors)
    for index, table in enumerate(steps):
        yield _table("coarse", f"step{index}", table)
        yield _lowest(f"passed{index}", ("lowest", f"step{index}"), rounding, bounds=(0, 1))
        yield Elementwise(
            name=f"count{index}",
            inputs=(f"count{index - 1}" if index else "start", f"passed{index}"),
            output=f"count{index}",
            op="add",
            zero_points=(0, 0),
            multipliers=(1, 1),
            scaling=Scaling.EXACT,
            requantization=make_requantization(1.0, rounding),
        )


def _lowest(
    name: str,
    inputs: tuple[str, str],
    rounding: Rounding,
    *,
    zero_points: tuple[int, int] = (0, 0),
    multipliers: tuple[int, int] = (_TOP, _TOP),
    bounds: tuple[int, int] = INT8_BOUNDS,
) -> Elementwise:
    """Return a difference modulo 256, from -128 to 127."""
    return Elementwise(
        name=name,
        inputs=inputs,
        output=name,
        op="sub",
        zero_points=zero_points,
        multipliers=multipliers,
        scaling=Scaling.EXACT,
        requantization=make_requantization(1 / _TOP, rounding, bounds=bounds),
    )


def _table(source: str, name: str, table: NDArray[np.int8]) -> Lut:
    return Lut(name=name, inputs=(source,), output=name, table=np.ascontiguousarray(table))


def _lowest_byte(values: Integers) -> NDArray[np.int8]:
    return values.astype(np.int8)  # modulo 256
