"""Which numbers a channel can hold, whatever the network's inputs are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8, Rounding
from tpulite.golden.layers import run_layer
from tpulite.golden.ops import requantize_sums
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    DepthToSpace,
    Depthwise,
    Elementwise,
    LayerGraph,
    Lut,
    MatMul,
    Pad,
    Pick,
    Pool,
    Requantization,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
)

_INT32 = 1 << 31
_SHIFTS_FIRST = (Rounding.TFLITE, Rounding.RUY)
"""Rules that shift left before they multiply, and lose bits if the number is too large."""

_FEW = 16
"""Inputs with which almost every channel of a convolution varies already."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Range:
    """Least and largest number that each channel can hold at any position."""

    #: Ndarray of int64, [C]. Bounds; where they are equal, the channel is constant.
    low: Ints
    high: Ints

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which channels hold the same number at every position of every run."""
        return self.low == self.high


def value_ranges(layers: LayerGraph) -> dict[str, Range]:
    """Return bounds of all images by name, those of padding at the borders included.

    Requantization is monotone unless a number leaves int32, and its bounds are those that the
    golden arithmetic gives. Where it could leave it, all that the clamp lets through is possible.
    """
    ranges = {name: _whole(layers.activations[name].shape[2]) for name in layers.inputs}
    for name, value in layers.constants.items():
        ranges[name] = Range(*(f(value, axis=(0, 1)).astype(np.int64) for f in (np.min, np.max)))
    for layer in layers.layers:
        sources = [ranges[name] for name in layer.inputs]
        if isinstance(layer, Reshape):
            shapes = (
                layers.activations[layer.inputs[0]].shape,
                layers.activations[layer.output].shape,
            )
            ranges[layer.output] = _reshape(sources[0], *shapes)
        elif isinstance(layer, MatMul | Transpose | TransposedConv):
            ends = int(sources[0].low.min()), int(sources[0].high.max())
            if not isinstance(layer, Transpose):
                ends = layer.requantization.low, layer.requantization.high
            ranges[layer.output] = _whole(layers.activations[layer.output].shape[2], *ends)
        else:
            ranges[layer.output] = _RULES[type(layer)](layer, *sources)
    return ranges


def _whole(
    channels: int, low: int | np.ndarray = INT8[0], high: int | np.ndarray = INT8[-1]
) -> Range:
    return Range(np.full(channels, low, np.int64), np.full(channels, high, np.int64))


def _requantized(low: Ints, high: Ints, record: Requantization) -> Range:
    """Return the range of what requantization makes of sums in a range."""
    low, high = (np.broadcast_to(x, (max(len(low), record.channels),)) for x in (low, high))
    biased = [ends + record.bias for ends in (low, high)]
    largest = np.maximum(*(np.abs(ends) for ends in biased)).astype(np.float64)
    shifts_first = np.isin(record.rounding, _SHIFTS_FIRST)
    largest = largest * np.exp2(np.where(shifts_first, np.maximum(record.shift, 0), 0))
    bounds = [requantize_sums(ends, record).astype(np.int64) for ends in (low, high)]
    known = largest < _INT32
    return Range(np.where(known, bounds[0], record.low), np.where(known, bounds[1], record.high))


def _conv(layer: Conv, x: Range) -> Range:
    channels, record = layer.weight.shape[3], layer.requantization
    if record is None:
        return _whole(channels, -_INT32, _INT32 - 1)
    low, high = _operands(layer, x)
    # Almost all channels vary with the first few inputs alone, and the others can only widen that,
    # but for those that are never zero. Only the rest of the channels is worth all products.
    few = (np.arange(len(low)) < _FEW) | (low > 0) | (high < 0)
    center = layer.weight[layer.weight.shape[0] // 2, layer.weight.shape[1] // 2]
    first = _products(layer, center[few][None, None], low[few], high[few], record)
    still = np.flatnonzero(first.constant)
    result = _whole(channels, record.low, record.high)
    if still.size:
        whole = _products(layer, layer.weight[..., still], low, high, record.of(still))
        result.low[still], result.high[still] = whole.low, whole.high
    return result


def _products(
    layer: Conv, weight: NDArray, low: NDArray, high: NDArray, record: Requantization
) -> Range:
    """Return the range of a convolution with some of its weights."""
    positive, negative = _taps(layer, weight)
    # Below 2**53: exact in float64, and BLAS is much faster than numpy's integers.
    least, most = low @ positive + high @ negative, high @ positive + low @ negative
    return _requantized(least.astype(np.int64), most.astype(np.int64), record)


def _depthwise(layer: Depthwise, x: Range) -> Range:
    low, high = _operands(layer, x)
    positive, negative = _taps(layer, layer.weight)
    least, most = low * positive + high * negative, high * positive + low * negative
    return _requantized(least.astype(np.int64), most.astype(np.int64), layer.requantization)


def _operands(layer: Conv | Depthwise, x: Range) -> tuple[NDArray, NDArray]:
    """Return the range of what is multiplied: of padding it is 0."""
    low, high = x.low - layer.input_zero_point, x.high - layer.input_zero_point
    if any(layer.padding):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    return low.astype(np.float64), high.astype(np.float64)


def _taps(layer: Conv | Depthwise, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Return the sums of positive and of negative weights over the kernel's taps."""
    centered = weight.astype(np.int16) - np.int16(layer.weight_zero_point)
    signed = (f(centered, np.int16(0)) for f in (np.maximum, np.minimum))
    positive, negative = (x.sum(axis=(0, 1), dtype=np.float64) for x in signed)
    return positive, negative


def _elementwise(layer: Elementwise, a: Range, b: Range) -> Range:
    """Return the clamp's bounds, but for what the layer makes of two constants."""
    record = layer.requantization
    known = a.constant & b.constant
    pair = (x.low.astype(np.int8)[None, None] for x in (a, b))
    result = run_layer(layer, *pair)[0, 0].astype(np.int64)
    return Range(np.where(known, result, record.low), np.where(known, result, record.high))


def _pool(layer: Pool, x: Range) -> Range:
    if layer.requantization is None:
        return Range(*(np.clip(ends, layer.low, layer.high) for ends in (x.low, x.high)))
    count = layer.window[0] * layer.window[1]
    fewest = 1 if any(layer.padding) else count
    sums = np.array([[n * ends for n in (fewest, count)] for ends in (x.low, x.high)])
    return _requantized(sums[0].min(axis=0), sums[1].max(axis=0), layer.requantization)


def _affine(layer: Affine, x: Range) -> Range:
    ends = np.array([layer.gain * x.low, layer.gain * x.high])
    return _requantized(ends.min(axis=0), ends.max(axis=0), layer.requantization)


def _lut(layer: Lut, x: Range) -> Range:
    result = _whole(len(x.low))
    for low, high in {*zip(x.low.tolist(), x.high.tolist(), strict=True)}:
        here = (x.low == low) & (x.high == high)
        entries = layer.table[low - INT8[0] : high - INT8[0] + 1]
        result.low[here], result.high[here] = entries.min(), entries.max()
    return result


def _pad(layer: Pad, x: Range) -> Range:
    if not any(layer.padding):
        return x
    return Range(np.minimum(x.low, layer.value), np.maximum(x.high, layer.value))


def _concat(layer: Concat, *parts: Range) -> Range:
    ends = [x.low for x in parts], [x.high for x in parts]
    if layer.axis == 2:
        return Range(*(np.concatenate(x) for x in ends))
    return Range(np.min(ends[0], axis=0), np.max(ends[1], axis=0))


def _pick(layer: Pick, x: Range) -> Range:
    channels = np.array(layer.channels)
    return Range(x.low[channels], x.high[channels])


def _depth_to_space(layer: DepthToSpace, *parts: Range) -> Range:
    ends = ([x.low for x in parts], [x.high for x in parts])
    count = len(layer.order)
    low, high = (np.concatenate(x).reshape(count, -1)[:, : layer.channels] for x in ends)
    return Range(low.min(axis=0), high.max(axis=0))


def _reshape(x: Range, source: tuple[int, int, int], target: tuple[int, int, int]) -> Range:
    if source[2] == target[2]:
        return x
    low, high = (np.broadcast_to(ends, source).reshape(target) for ends in (x.low, x.high))
    return Range(low.min(axis=(0, 1)), high.max(axis=(0, 1)))


_RULES = {
    Conv: _conv,
    Depthwise: _depthwise,
    Elementwise: _elementwise,
    Pool: _pool,
    Affine: _affine,
    Lut: _lut,
    Softmax: lambda layer, x: _whole(len(x.low)),
    Pad: _pad,
    Concat: _concat,
    Pick: _pick,
    DepthToSpace: _depth_to_space,
}
