"""Weight tiles of depthwise convolutions, for every number of outputs that a command computes."""

from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.interleave import interleave
from tpulite.arch.isa import Axis
from tpulite.compiler.geometry.axis import LARGEST_KERNEL
from tpulite.compiler.place.constants import channel_records
from tpulite.compiler.place.requantizations import folded_bias
from tpulite.compiler.plan.closed_forms import ceil_div
from tpulite.compiler.plan.depthwise_pattern import DepthwiseWeights, Pattern, Taps
from tpulite.compiler.plan.depthwise_plan import (
    delayed_ways,
    large_depthwise_plan,
    plain_outputs,
)
from tpulite.graph.layers import Depthwise

__all__ = ["pack_depthwise"]


def pack_depthwise(layer: Depthwise, config: Config) -> DepthwiseWeights:
    """Pack weights and records of all channel blocks."""
    size, channels = config.array_size, layer.weight.shape[2]
    sums = (layer.weight.astype(np.int64) - layer.weight_zero_point).sum(axis=(0, 1))
    bias = np.broadcast_to(layer.requantization.bias, channels)
    bias = folded_bias(bias, sums, layer.input_zero_point)
    form, records = channel_records(layer.requantization, bias, config)
    parts = [b"".join(block.tobytes() for block in records)]
    offset = len(parts[0])
    patterns = []
    for inner in (Axis.Y, Axis.X):
        pattern = _pattern(layer, inner, offset, config)
        parts.append(_tiles(layer, pattern, config))
        offset += len(parts[-1])
        patterns.append(pattern)
    parts.append(np.full(size * size, layer.weight_zero_point, np.int8).tobytes())
    rows = len(records[0])
    return DepthwiseWeights(b"".join(parts), form, rows, tuple(patterns), offset)


def _pattern(layer: Depthwise, inner: Axis, offset: int, config: Config) -> Pattern:
    """Return the pattern that streams the fewest vectors for each output of a large activation."""
    # Taps of a part are adjacent; those of a dilated kernel are parts of their own.
    longest = tuple(1 if dilation > 1 else LARGEST_KERNEL for dilation in layer.dilation)
    best = large_depthwise_plan(layer.weight.shape[:2], layer.stride, inner, config, longest)
    taps = np.array([(y.start, len(y), x.start, len(x)) for y, x in product(*best.kernel)])
    kernel, stride = layer.weight.shape[:2], layer.stride[1 if inner == Axis.X else 0]
    few, many, pairs = best.outputs, best.outputs + 1, False
    for way in delayed_ways(kernel, inner, stride, 1, longest, config):
        if best.outputs in way.outputs and len(taps) == 1:
            few, many = plain_outputs(kernel, stride, config), way.outputs[0]
            pairs = interleave(inner, many, stride, 1, kernel, config).pairs
    return Pattern(best, Taps(*taps.T), offset, few, many, pairs)


def _tiles(layer: Depthwise, pattern: Pattern, config: Config) -> bytes:
    """Return the tiles [block, number of outputs, part, row, channel] of a pattern."""
    weight, taps, size = layer.weight, pattern.taps, config.array_size
    channels = weight.shape[2]
    stride = layer.stride[1 if pattern.inner == Axis.X else 0]
    blocks = ceil_div(channels, size)
    shape = (pattern.numbers, len(taps), size, blocks * size)
    tiles = np.full(shape, layer.weight_zero_point, np.int8)
    if pattern.inner == Axis.Y:
        weight = weight.transpose(1, 0, 2)
    for number in range(pattern.numbers):
        outputs = pattern.many if number == pattern.few else number + 1
        for kernel_part in range(len(taps)):
            outer = taps.row[kernel_part], taps.rows[kernel_part]
            inner = taps.column[kernel_part], taps.columns[kernel_part]
            if pattern.inner == Axis.Y:
                outer, inner = inner, outer
            kernel = int(outer[1]), int(inner[1])
            way = interleave(pattern.inner, outputs, stride, 1, kernel, config)
            for a, b in product(*map(range, kernel)):
                tap = weight[outer[0] + a, inner[0] + b]
                tiles[number, kernel_part, way.row(a, b), :channels] = tap
    parts = tiles.reshape(*shape[:3], blocks, size).transpose(3, 0, 1, 2, 4)
    return np.ascontiguousarray(parts).tobytes()
