"""Pooling, bound to shapes."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import VectorOp
from tpulite.arch.numerics import INT8
from tpulite.compiler.geometry.axis import Axis1D, axes_of
from tpulite.compiler.geometry.closed_forms import Number, ceil_div
from tpulite.compiler.operators.operator import Constants, Operator, Task
from tpulite.compiler.operators.pool_commands import PoolCommands
from tpulite.compiler.operators.shapes import Extents, Shape
from tpulite.compiler.operators.steps import Step
from tpulite.compiler.operators.tiling import Buffers, Cut, Tiling, block_cut, even_cut
from tpulite.compiler.place.constants import common_record
from tpulite.compiler.plan.pool import PoolFacts, pool_rows, pool_strategies
from tpulite.compiler.plan.pool_windows import LARGEST_WINDOW
from tpulite.compiler.plan.requantizations import pool_requantization
from tpulite.compiler.plan.slabs import slab_bounds
from tpulite.compiler.plan.strategy import Room, Strategy
from tpulite.graph.layers import Pool


class Pooling(Operator):
    """Pooling layer; follows :class:`tpulite.compiler.operators.operator.Operator`.

    Parameters
    ----------
    layer : Pool
        The layer.
    config : Config
        The machine.
    whole : bool
        Whether its window is the whole tensor, whatever that is.

    Attributes
    ----------
    facts : PoolFacts
        What its strategies depend on.
    fields : mapping of str to int
        Fields of all of its commands.

    Raises
    ------
    ValueError
        If a window is too large or may lie in the padding, or if the machine lacks the rounding.
    """

    def __init__(self, layer: Pool, config: Config, *, whole: bool = False) -> None:
        self.config, self.layer, self._whole = config, layer, whole
        if max(layer.window) > LARGEST_WINDOW and not whole:
            raise ValueError(
                f"{layer.title}: a window must cover {LARGEST_WINDOW} positions of an axis "
                f"or less, not {layer.window}"
            )
        if any(pad >= layer.window[i % 2] for i, pad in enumerate(layer.padding)):
            raise ValueError(
                f"{layer.title}: a window {layer.window} must not lie in padding {layer.padding}"
            )
        y, x = axes_of(layer.window, layer.stride, (1, 1), layer.padding)
        maximum = layer.op == "max"
        operation = VectorOp.MAX if maximum else VectorOp.SUM
        self._records: dict[int, bytes] = {}
        rows = 0 if maximum else len(self.record(1)) // config.row_bytes
        if layer.op == "average" and not whole:  # as many as there are sizes of windows
            rows *= min(y.kernel, y.clipped + 1) * min(x.kernel, x.clipped + 1)
        self.facts = PoolFacts(config, y, x, rows, operation)
        self.constants, self.zero_points = b"", (0, 0)
        self.key: Hashable | None = None
        summed = layer.op == "sum"
        self.fields = {
            "operation": operation,
            "low": INT8[0] if summed else layer.low,
            "high": INT8[-1] if summed else layer.high,
        }

    def axes_of(self, height: Number, width: Number) -> tuple[Axis1D, Axis1D]:
        """Return the geometries along height and width."""
        if self._whole:
            return Axis1D(height), Axis1D(width)
        return self.facts.y, self.facts.x

    def _facts_of(self, height: Number, width: Number) -> PoolFacts:
        if not self._whole:
            return self.facts
        y, x = self.axes_of(height, width)
        return replace(self.facts, y=y, x=x)

    @property
    def weight_rows(self) -> int:
        """Return the rows of the buffer for all weights and parameters."""
        return self.facts.record_rows

    def strategies_in(self, extents: Extents, room: Room) -> tuple[Strategy, ...]:
        """Return all strategies; see :func:`pool_strategies`."""
        blocks = ceil_div(extents[3], self.config.array_size)
        return pool_strategies(self._facts_of(*extents[1:3]), extents[:3], blocks, room)

    def tiling(self, shape: Shape, strategy: Strategy, room: Room) -> Tiling:
        """Return the tiles of a strategy: slabs of rows, and panels of their columns."""
        facts, sizes = self._facts_of(shape.height, shape.width), strategy.sizes
        rows = pool_rows(facts, shape.batch, shape.height, shape.width, room)
        bounds = slab_bounds(strategy.mode, sizes["parts"], rows)
        unit = BEAT_BYTES // min(BEAT_BYTES, self.config.row_bytes)
        columns = even_cut("columns", facts.x.outputs(shape.width), sizes["panels"], unit)
        blocks = np.arange(sizes["groups"] + 1) * sizes["tile_blocks"]
        channels = block_cut(shape.channels, blocks, self.config.array_size)
        cut = Cut("rows", tuple(bounds.tolist())), columns, channels
        slots, first, input_rows = sizes["slots"], facts.record_rows, sizes["in_slot"]
        used = min(slots, prod(map(len, cut)))
        inputs = Buffers("input", used, first, input_rows)
        outputs = Buffers("output", used, first + slots * input_rows, sizes["out_slot"])
        return Tiling.of(cut, (inputs, outputs))

    @classmethod
    def steps(cls, tasks: Sequence[Task["Pooling"]], constants: Constants) -> list[Step]:
        """Return the steps of all pooling layers."""
        return [task.operator._step(task, constants) for task in tasks]

    def _step(self, task: Task["Pooling"], constants: Constants) -> Step:
        shape, strategy, site = task.shape, task.strategy, task.site
        commands = PoolCommands(self._facts_of(shape.height, shape.width), shape, strategy, site)
        records, param_row = self._parameters(*commands.sizes)
        rows = len(records) // self.config.row_bytes
        first = constants.add(records) - task.offset if rows else 0
        return commands.step(self.fields, param_row, first, rows)

    def _parameters(self, y: np.ndarray, x: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Return the records that windows of some sizes need, and the row of each one's."""
        if self.layer.op != "average":
            records = b"" if self.layer.op == "max" else self.record(1)
            return records, np.zeros((len(y), len(x)), np.int64)
        counts, index = np.unique(y[:, None] * x, return_inverse=True)
        records = [self.record(count) for count in counts.tolist()]
        rows = len(records[0]) // self.config.row_bytes
        return b"".join(records), index.reshape(len(y), len(x)) * rows

    def record(self, count: int) -> bytes:
        """Return the record of windows of ``count`` vectors."""
        if count not in self._records:
            requantization = pool_requantization(self.layer, count)
            self._records[count] = common_record(requantization, self.config).tobytes()
        return self._records[count]
