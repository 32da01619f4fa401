"""Depthwise convolutions, bound to shapes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.interleave import interleave
from tpulite.arch.isa import Axis
from tpulite.compiler.geometry.axis import LARGEST_KERNEL, Axis1D, Number, axes_of
from tpulite.compiler.operators.depthwise_commands import depthwise_steps
from tpulite.compiler.operators.depthwise_table import FilterWork
from tpulite.compiler.operators.operator import (
    Buffers,
    Constants,
    Cut,
    Extents,
    Operator,
    Shape,
    Task,
    Tiling,
    block_cut,
    check_window,
)
from tpulite.compiler.operators.words import Step
from tpulite.compiler.place.weights import filter_tiles, layer_records
from tpulite.compiler.plan.depthwise import (
    DepthwiseWeights,
    FilterFacts,
    Pattern,
    Taps,
    depthwise_strategies,
    filter_rows,
)
from tpulite.compiler.plan.depthwise_plan import delayed_ways, large_depthwise_plan
from tpulite.compiler.plan.requantizations import pool_requantization
from tpulite.compiler.plan.slabs import Room, Strategy, slab_bounds
from tpulite.graph.layers import Depthwise, Pool, Requantization


class DepthwiseFilter(Operator):
    """Depthwise convolution; follows :class:`tpulite.compiler.operators.operator.Operator`.

    Parameters
    ----------
    outputs : tuple of int, optional
        Outputs along height and width, if they are known.
    averages : mapping of int to Requantization, optional
        What becomes of sums over windows of so many positions, in order.

    Attributes
    ----------
    facts : FilterFacts
        What its strategies depend on.

    Raises
    ------
    ValueError
        If the machine cannot express the layer, or lacks its rounding.
    """

    def __init__(
        self,
        layer: Depthwise,
        config: Config,
        outputs: tuple[int, int] | None = None,
        averages: Mapping[int, Requantization] | None = None,
    ) -> None:
        channels = layer.weight.shape[2]
        check_window(layer)
        self._layer, self.config = layer, config
        self._axes = axes_of(layer.windows)
        weights = pack_depthwise(layer, config, outputs, averages)
        self.constants = weights.data
        blocks = -(-channels // config.array_size)
        self.facts = FilterFacts(config, *self._axes, blocks, weights)
        self.zero_points = layer.input_zero_point, layer.weight_zero_point
        kind = layer.weight.shape, self._axes, weights.form, weights.divisors
        self.key: Hashable | None = (Depthwise, *kind)

    @classmethod
    def averaging(cls, layer: Pool, channels: int, config: Config) -> "DepthwiseFilter":
        """Return what computes the averages of a pool as products with ones.

        Raises
        ------
        ValueError
            If averages of so many numbers cannot be exact.
        """
        axes = axes_of(layer.windows)
        sizes = (range(1 if axis.clipped else axis.kernel, axis.kernel + 1) for axis in axes)
        counts = sorted({rows * columns for rows, columns in product(*sizes)})
        averages = {count: pool_requantization(layer, count) for count in counts}
        summed = Depthwise(
            name=layer.name,
            inputs=layer.inputs,
            output=layer.output,
            weight=np.ones((*layer.window, channels), np.int8),
            requantization=averages[counts[-1]],
            stride=layer.stride,
            padding=layer.padding,
        )
        return cls(summed, config, None, averages)

    def axes_of(self, height: Number, width: Number) -> tuple[Axis1D, Axis1D]:
        """Return the geometries along height and width."""
        return self._axes

    @property
    def weight_rows(self) -> int:
        """Return the rows of the buffer for all weights and parameters."""
        return self.facts.blocks * self.facts.block_rows(self.facts.weights.patterns[0])

    def strategies_in(self, extents: Extents, room: Room) -> tuple[Strategy, ...]:
        """Return all strategies; see :func:`depthwise_strategies`."""
        return depthwise_strategies(self.facts, extents[:3], room)

    def tiling(self, shape: Shape, strategy: Strategy, room: Room) -> Tiling:
        """Return the tiles of a strategy: slabs of rows of single channel blocks."""
        facts, sizes = self.facts, strategy.sizes
        rows = filter_rows(facts, shape[:3], room)
        bounds = slab_bounds(strategy.mode, sizes["parts"], rows)
        cut = (
            Cut("rows", tuple(bounds.tolist())),
            Cut("columns", (0, facts.x.outputs(shape.width))),
            block_cut(shape.channels, range(facts.blocks + 1), self.config.array_size),
        )
        slots, in_rows, out_rows = sizes["slots"], sizes["in_slot"], sizes["out_slot"]
        tiles = prod(map(len, cut))
        weights = facts.block_rows(facts.weights.patterns[sizes["pattern"]])
        buffers = (
            Buffers("input", min(slots, tiles), 0, in_rows),
            Buffers("output", min(slots, tiles), slots * in_rows, out_rows),
            Buffers(
                "weights", min(sizes["weight_slots"], tiles), slots * (in_rows + out_rows), weights
            ),
        )
        return Tiling.of(cut, buffers)

    @classmethod
    def steps(cls, tasks: Sequence[Task["DepthwiseFilter"]], constants: Constants) -> list[Step]:
        """Return the steps of all depthwise convolutions."""
        works = []
        for task in tasks:
            extents = task.shape[:3]
            works.append(FilterWork(task.operator.facts, extents, task.strategy, task.site))
        return depthwise_steps(works)


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
