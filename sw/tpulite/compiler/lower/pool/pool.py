"""Pooling on the vector path."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from tpulite.arch.isa import VECTOR
from tpulite.compiler.lower.depthwise import DepthwiseLowering
from tpulite.compiler.lower.lowering import LayerContext, Lowering, vector_op
from tpulite.compiler.lower.pool.maxima import WindowMaxima
from tpulite.compiler.lower.pool.sums import WindowSums
from tpulite.compiler.ops import Op
from tpulite.compiler.place.constants import Constant, common_record
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.pool_cuts import PoolPart, PoolPlan
from tpulite.compiler.plan.pool_windows import Run, find_runs
from tpulite.compiler.plan.requantizations import pool_requantization
from tpulite.graph.layers import Depthwise, Pool

_FAR = VECTOR.limit("a_pitch")
"""No rows of the buffer lie further apart; an output row by itself needs no pitch."""


class PoolLowering(Lowering[Pool, PoolPlan]):
    """Pooling; clipped windows at the edges have commands of their own.

    The array computes a share of an average: :mod:`tpulite.compiler.plan.pool_cuts`.

    Windows that are too large for a command of the vector path, or for the unified buffer, are
    read tile by tile: :mod:`.sums`, :mod:`.maxima`.
    """

    def __init__(self, layer: Pool, context: LayerContext, plan: PoolPlan) -> None:
        super().__init__(layer, context, plan)
        self._records: dict[int, Constant] = {}
        self._sums: dict[int, DepthwiseLowering] = {}
        self._y, self._x = plan.y, plan.x
        self._large = self._find_large()

    def _find_large(self) -> WindowSums | WindowMaxima | None:
        """Return what reads windows tile by tile, if the plan says so."""
        layer, context, input_tiles = self._layer, self._context, self._plan.input_tiles
        if input_tiles is None:
            return None
        if layer.op == "max":
            return WindowMaxima(self._source, input_tiles, context, layer.low, layer.high)
        return WindowSums(self._source, input_tiles, context, layer)

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:
        """Yield the commands.

        Raises
        ------
        ValueError
            If a window lies in the padding altogether.
        """
        index, target, plan = self._context.index, self._target, self._plan
        if self._large is not None:
            out = target.open(rows)
            for y in rows:
                yield from self._large_row(self._large, out, y)
            yield from target.store(out, rows, index)
            return
        for part in plan.parts(rows):
            out = target.open(part.rows)
            for blocks in part.blocks:
                source = self._source
                if len(blocks) < source.blocks:
                    source = source.some_blocks(blocks)
                view, loads = source.read(part.needed, index)
                yield from loads
                yield from self._part(view, out, part, blocks)
            start = part.rows.start // target.grain * target.grain
            yield from target.store(out, range(start, part.rows.stop), index)

    def _part(self, view: View, out: View, part: PoolPart, blocks: range) -> Iterator[Op]:
        """Compute channel blocks of a part; both engines take turns, so that neither waits."""
        regions = list(product(find_runs(self._y, part.rows), self._plan.columns))
        chosen = self._plan.share(part).regions
        if not chosen:
            for y, x in regions:
                yield from self._region(view, out, y, x, blocks)
            return
        single = [(y, x) for y, x in regions if len(y.outputs) == len(x.outputs) == 1]
        for y, x in single:
            if (y, x) not in chosen:
                yield from self._region(view, out, y, x, blocks)
        for block in blocks:
            one = range(block, block + 1)
            for y, x in regions:
                if (y, x) in chosen:
                    yield from self._sum(view.without(blocks.start), out, y, x, block)
            for y, x in regions:
                if (y, x) not in chosen and (y, x) not in single:
                    yield from self._region(view.behind(block - blocks.start), out, y, x, one)

    def _sum(self, view: View, out: View, y: Run, x: Run, block: int) -> Iterator[Op]:
        """Compute a region of one channel block on the array."""
        count = y.size * x.size
        if count not in self._sums:
            layer, channels = self._layer, self._target.blocks * self._config.array_size
            ones = Depthwise(
                name=layer.name,
                inputs=layer.inputs,
                output=layer.output,
                weight=np.ones((*layer.window, channels), np.int8),
                requantization=pool_requantization(layer, count),
                stride=layer.stride,
                padding=layer.padding,
            )
            self._sums[count] = DepthwiseLowering(ones, self._context, self._plan.on_array)
        lowering = self._sums[count]
        phase = self._plan.on_array.phase((0, 0), y.outputs, x.outputs)
        for region in phase.regions:
            yield from lowering.block(view, out, phase, region, block)

    def _large_row(self, large: WindowSums | WindowMaxima, out: View, y: int) -> Iterator[Op]:
        """Compute an output row; windows that are clipped may suit a command nevertheless."""
        source, plan = self._source, self._plan
        (row,) = find_runs(self._y, range(y, y + 1))
        plain = plan.plain(row)
        if plain:
            view, loads = source.read(row.span, self._context.index)
            yield from loads
            for x in plain:
                yield from self._region(view, out, row, x, range(source.blocks))
        if rest := [x for x in plan.columns if x not in plain]:
            for block in range(source.blocks):
                yield from large.row(row.span, rest, block, out, y)

    def _region(self, view: View, out: View, y: Run, x: Run, blocks: range) -> list[Op]:
        """Compute a region whose windows are all of one size; ``view`` has just these blocks."""
        ops: list[Op] = []
        fields = {
            "window_rows": y.size,
            "window_columns": x.size,
            "window_pitch": view.pitch,
        }
        if self._layer.op != "sum":
            fields |= {"low": self._layer.low, "high": self._layer.high}
        places = {}
        if self._layer.op != "max":
            places["param_row"], ops = self._record(y.size * x.size).use()
        heads = blocks
        if len(y.outputs) == len(x.outputs) == 1:  # the rows of the command are blocks
            fields |= {
                "rows": len(blocks),
                "columns": 1,
                "a_pitch": view.block_pitch,
                "out_pitch": out.block_pitch,
            }
            heads = blocks[:1]
        else:
            fields |= {
                "rows": len(y.outputs),
                "columns": len(x.outputs),
                "a_pitch": min(view.pitch * self._y.stride, _FAR),
                "a_step": self._x.stride,
                "out_pitch": out.pitch,
                "out_step": 1,
            }
        for block in heads:
            places = places | {
                "a_row": view.at(y.first, x.first, block - blocks.start),
                "out_row": out.at(y.outputs.start, x.outputs.start, block),
            }
            ops = [*ops, vector_op(self._context, self._layer.vector_op, fields, places)]
        return ops

    def _record(self, count: int) -> Constant:
        if self._layer.op == "sum":
            count = 0
        if count not in self._records:
            rows = common_record(pool_requantization(self._layer, count), self._context.config)
            self._records[count] = self._context.constant("record", rows)
        return self._records[count]
