"""Averages and means of int16: products with ones, of which each channel sees itself."""

import math
from dataclasses import replace

import numpy as np

from tpulite.arch.numerics import Rounding, quantize_multiplier
from tpulite.graph.graph import Node
from tpulite.graph.layers import Conv, Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import INT16, activation_bounds
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.int16.scales import require_litert, scale_of
from tpulite.quant.tensors import UnsupportedError

_MOST_WEIGHTS = 1 << 24
"""Weights, most of them zeros, that sums of windows are worth."""

_LARGEST_WINDOW = 64
"""Rows or columns of a kernel."""

_MOST_ELEMENTS = 1 << 14
"""Averages of fewer elements are exact, see :func:`_average`; so are sums of 32 bits."""


def lower_average_pool_of_int16(node: Node, context: GraphContext) -> None:
    """Lower an average of LiteRT: of integers, half away from zero, whatever the scales.

    Raises
    ------
    UnsupportedError
        If it is not of the same count everywhere, or too large.
    """
    require_litert(context.exactness)
    source, target = node.inputs[0], node.outputs[0]
    x, y = (scale_of(context.tensor(name)) for name in (source, target))
    if x != y:
        raise UnsupportedError(f"{context.exactness} does not requantize in average_pool")
    if any(node["padding"]):
        raise UnsupportedError("its windows reach into padding, so that they count differently")
    low, high = activation_bounds(node["activation"], y, Exactness.LITERT_REF, INT16)
    record = replace(_average(math.prod(node["window"])), low=low, high=high)
    _emit_sums(node, context, tuple(node["window"]), tuple(node["stride"]), record)


def lower_mean_of_int16(node: Node, context: GraphContext) -> None:
    """Lower a mean over height, width or both.

    Raises
    ------
    UnsupportedError
        If it is over other axes, or too large.
    """
    require_litert(context.exactness)
    source = node.inputs[0]
    x, y = (scale_of(context.tensor(name)) for name in (source, node.outputs[0]))
    shape = context.tensor(source).shape
    height, width, _ = context.read(source).shape
    axes = {axis % len(shape) for axis in node["axes"] if shape[axis] > 1}
    rows, columns = len(shape) - 3, len(shape) - 2
    if rows < 0 or math.prod(shape[:rows]) > 1 or axes - {rows, columns}:
        raise UnsupportedError(f"it is over axes {list(node['axes'])} of {list(shape)}")
    if (height, width) != (shape[rows], 2 * shape[columns]):
        raise UnsupportedError(f"its {shape[columns]} columns are more than a row has")
    window = height if rows in axes else 1, width // 2 if columns in axes else 1
    count = math.prod(window)
    multiplier, shift = quantize_multiplier(float(x.scale) / float(y.scale))
    more = min(count.bit_length() - 1, 32, 31 + shift)
    record = replace(
        _average(count),
        multiplier=np.array([(multiplier << more) // count]),
        shift=np.array([shift - more]),
        rounding=Rounding.TFLITE,
    )
    _emit_sums(node, context, window, window, record)


def _average(count: int) -> Requantization:
    """Return the record that divides by a count, half away from zero.

    Its multiplier is 1 / count rounded up, at most 2**-30 too large. A sum of ``count`` int16 is
    off by less than 2**-15 then, and quotients that are not halves are 1 / (2 count) away from one,
    so that they round as they should; halves do, as they do not become less.
    """
    if count >= _MOST_ELEMENTS:
        raise UnsupportedError(f"sums of {count} elements may be beyond 32 bits")
    bits = (count - 1).bit_length()
    return Requantization(
        multiplier=np.array([-(-(1 << (30 + bits)) // count)], np.int64),
        shift=np.array([1 - bits]),
        rounding=Rounding.AWAY,
        low=INT16[0],
        high=INT16[-1],
        bits=16,
    )


def _emit_sums(
    node: Node,
    context: GraphContext,
    window: tuple[int, int],
    stride: tuple[int, int],
    record: Requantization,
) -> None:
    """Emit the sums of windows; a result of another shape has the same vectors."""
    source, target = node.inputs[0], node.outputs[0]
    height, width, channels = context.read(source).shape
    if max(window) > _LARGEST_WINDOW or math.prod(window) * channels**2 > _MOST_WEIGHTS:
        raise UnsupportedError(f"windows of {window} and {channels} channels take too many weights")
    extents = height, width // 2
    down, across = (1 if extents[i] == window[i] else stride[i] for i in (0, 1))
    weight = np.zeros((*window, channels, channels), np.int8)
    weight[:] = np.eye(channels, dtype=np.int8)
    rows, columns = (extents[0] - window[0]) // down + 1, (extents[1] - window[1]) // across + 1
    found = (rows, 2 * columns, channels)
    made = target
    if context.write(target).shape != found:
        made = f"{target}/windows"
        context.declare(made, found)
    fields = {"stride": (down, across), "dilation": (1, 2 if window[1] > 1 else 1), "int16": True}
    context.emit(Conv, node.name, (source,), made, weight=weight, requantization=record, **fields)
    if made != target:
        context.reshape(f"{node.name}/reshape", made, target, pairs=True)
