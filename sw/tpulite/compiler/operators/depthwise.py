"""Depthwise convolutions, bound to shapes."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.geometry.axis import Axis1D, axes_of
from tpulite.compiler.geometry.closed_forms import Number
from tpulite.compiler.operators.depthwise_commands import depthwise_steps
from tpulite.compiler.operators.depthwise_table import FilterWork
from tpulite.compiler.operators.depthwise_weights import pack_depthwise
from tpulite.compiler.operators.operator import Constants, Operator, Task, check_window
from tpulite.compiler.operators.shapes import Extents, Shape
from tpulite.compiler.operators.steps import Step
from tpulite.compiler.operators.tiling import Buffers, Cut, Tiling, block_cut
from tpulite.compiler.plan.depthwise import FilterFacts, depthwise_strategies, filter_rows
from tpulite.compiler.plan.requantizations import pool_requantization
from tpulite.compiler.plan.slabs import slab_bounds
from tpulite.compiler.plan.strategy import Room, Strategy
from tpulite.graph.layers import Depthwise, Pool, Requantization


class DepthwiseFilter(Operator):
    """Depthwise convolution; follows :class:`tpulite.compiler.operators.operator.Operator`.

    Parameters
    ----------
    layer : Depthwise
        The layer.
    config : Config
        The machine.
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
        kh, kw, channels = layer.weight.shape
        check_window(layer)
        self._layer, self.config = layer, config
        self._axes = axes_of((kh, kw), layer.stride, layer.dilation, layer.padding)
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
        axes = axes_of(layer.window, layer.stride, (1, 1), layer.padding)
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
