"""Weight tiles of depthwise convolutions, for every number of outputs that a command computes."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.interleave import interleave
from tpulite.arch.isa import Axis
from tpulite.compiler.geometry.axis import LARGEST_KERNEL
from tpulite.compiler.place.weights import filter_tiles, layer_records
from tpulite.compiler.plan.depthwise_pattern import DepthwiseWeights, Pattern, Taps
from tpulite.compiler.plan.depthwise_plan import delayed_ways, large_depthwise_plan
from tpulite.graph.layers import Depthwise, Requantization


def pack_depthwise(
    layer: Depthwise,
    config: Config,
    outputs: tuple[int, int] | None = None,
    averages: Mapping[int, Requantization] | None = None,
) -> DepthwiseWeights:
    """Pack weights and records of all channel blocks.

    Patterns are those of a large activation, or of one whose outputs along y and x are known.
    Averages have a requantization for each number of positions of a window.
    """
    size, averages = config.array_size, averages or {}
    packed = [
        layer_records(replace(layer, requantization=each), config) for each in averages.values()
    ] or [layer_records(layer, config)]
    form = packed[0][0]
    assert form is not None and all(each == form for each, _ in packed)
    records = [np.concatenate(block) for block in zip(*(each for _, each in packed), strict=True)]
    parts = [b"".join(block.tobytes() for block in records)]
    offset = len(parts[0])
    patterns = []
    for inner in (Axis.Y, Axis.X):
        pattern = _pattern(layer, inner, offset, config, outputs)
        parts.append(_tiles(layer, pattern, config))
        offset += len(parts[-1])
        patterns.append(pattern)
    parts.append(np.full(size * size, layer.weight_zero_point, np.int8).tobytes())
    rows = len(records[0])
    return DepthwiseWeights(b"".join(parts), form, rows, tuple(patterns), offset, tuple(averages))


def _pattern(
    layer: Depthwise,
    inner: Axis,
    offset: int,
    config: Config,
    outputs: tuple[int, int] | None,
) -> Pattern:
    """Return the pattern that streams the fewest vectors."""
    # Taps of a part are adjacent; those of a dilated kernel are parts of their own.
    longest = tuple(1 if dilation > 1 else LARGEST_KERNEL for dilation in layer.dilation)
    kernel, stride = layer.weight.shape[:2], layer.stride
    best = large_depthwise_plan(kernel, stride, inner, config, longest, outputs)
    taps = np.array([(y.start, len(y), x.start, len(x)) for y, x in product(*best.kernel)])
    few, many, pairs = best.outputs, best.outputs + 1, False
    along = stride[1 if inner == Axis.X else 0]
    for way in delayed_ways(kernel, inner, stride, 1, longest, config):
        if best.outputs in way.outputs and best.kernel == way.kernel:
            few, many = way.plain_outputs(along, inner, config), way.outputs[0]
            pairs = interleave(inner, many, along, 1, kernel, config).pairs
    return Pattern(best, Taps(*taps.T), offset, few, many, pairs)


def _tiles(layer: Depthwise, pattern: Pattern, config: Config) -> bytes:
    """Return the tiles [block, number of outputs, part, row, channel] of a pattern."""
    step = pattern.step
    stride = layer.stride[1 if pattern.inner == Axis.X else 0] // step
    tiles = []
    for number in range(pattern.numbers):
        outputs = pattern.many if number == pattern.few else number + 1
        for rows, columns in product(*pattern.plan.kernel):
            outer, inner = (columns, rows) if pattern.inner == Axis.Y else (rows, columns)
            kernel = len(outer), len(inner)
            way = interleave(pattern.inner, outputs, stride, step, kernel, config)
            taps = rows, columns
            repeated = pattern.plan.repeated(taps)
            tiles.append(filter_tiles(layer, taps, pattern.inner, way, config.array_size, repeated))
    return np.stack(tiles, axis=1).tobytes()
