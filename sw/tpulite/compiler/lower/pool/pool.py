"""Pooling on the vector path."""

from collections.abc import Iterator

import numpy as np

from tpulite.arch.isa import VECTOR, VectorOp
from tpulite.arch.numerics import Rounding
from tpulite.compiler.geometry.axis import Axis1D, needed_rows
from tpulite.compiler.geometry.cut import WINDOW_ROOM, cut_parts, cut_strips, split
from tpulite.compiler.geometry.slices import column_grain
from tpulite.compiler.lower.context import Context
from tpulite.compiler.lower.lowering import Lowering
from tpulite.compiler.lower.pool.maxima import LARGEST_WINDOW, WindowMaxima
from tpulite.compiler.lower.pool.sums import WindowSums
from tpulite.compiler.lower.pool.windows import PieceReader, Run, find_runs
from tpulite.compiler.lower.vector_commands import vector_op
from tpulite.compiler.ops import Op
from tpulite.compiler.place.constants import Constant, common_record
from tpulite.compiler.place.stores import View
from tpulite.graph.layers import Pool, Requantization

__all__ = ["PoolLowering", "average_requantization"]


_FAR = VECTOR.limit("a_pitch")
"""No rows of the buffer lie further apart; an output row by itself needs no pitch."""


def average_requantization(count: int, low: int, high: int, offset: int = 0) -> Requantization:
    """Return how a sum of ``count`` numbers becomes their average, half away from zero, exactly.

    The average is that of the numbers plus ``offset``, less ``offset``. The reciprocal is rounded
    up, so that exact halves are not missed; a quotient that is no half is at least 1 / (2 * count)
    away from one, and the error must be smaller: it is for two million numbers, whatever they are.

    Raises
    ------
    ValueError
        If the average of so many numbers cannot be exact.

    Examples
    --------
    >>> average_requantization(2, -128, 127).multiplier.tolist()
    [1073741824]
    """
    shift = 1
    while -(-(1 << (31 - shift)) // count) < 1 << 30:
        shift -= 1
    multiplier = -(-(1 << (31 - shift)) // count)
    excess, largest = multiplier * count - (1 << (31 - shift)), 255 if offset else 128
    if 2 * count * largest * excess >= 1 << (31 - shift):
        raise ValueError(f"An average of {count} numbers cannot be exact")
    return Requantization(
        multiplier=np.array([multiplier]),
        shift=np.array([shift]),
        bias=np.array([offset * count], np.int32),
        rounding=Rounding.AWAY,
        zero_point=-offset,
        low=low,
        high=high,
    )


class PoolLowering(Lowering[Pool]):
    """Pooling; clipped windows at the edges have commands of their own.

    Windows that are too large for a command of the vector path, or for the unified buffer, are
    read piece by piece: :mod:`.pool_sums`, :mod:`.pool_maxima`.
    """

    def __init__(self, layer: Pool, context: Context) -> None:
        super().__init__(layer, context)
        self._records: dict[int, Constant] = {}
        padding = (layer.padding[0], self._pad_left(layer.padding[1], layer.stride[1]))
        self._y, self._x = (
            Axis1D(extent, stride, 1, size, pad)
            for extent, stride, size, pad in zip(
                (self._source.height, self._source.width),
                layer.stride,
                layer.window,
                padding,
                strict=True,
            )
        )
        self._large = self._find_large()

    def _find_large(self) -> WindowSums | WindowMaxima | None:
        """Return what reads windows piece by piece, if that is necessary."""
        layer, source, target = self._layer, self._source, self._target
        sizes = [
            max(run.size for run in find_runs(axis, range(extent)))
            for axis, extent in ((self._y, target.height), (self._x, target.width))
        ]
        if max(sizes) <= LARGEST_WINDOW and (source.resident or self._fits(*sizes)):
            return None
        reader = PieceReader(source, self._context)
        if layer.op == "max":
            return WindowMaxima(reader, self._context, layer.low, layer.high)
        return WindowSums(reader, self._context, self._requantization)

    def _fits(self, rows: int, columns: int) -> bool:
        """Return whether windows of at most so many rows and columns fit the unified buffer.

        As a rule it must have room for all columns. But an image may also be cut into columns,
        which is as good if there is room for the next ones while some are computed.
        """
        room = int(self._context.free_rows / self._context.share) * WINDOW_ROOM[0] // WINDOW_ROOM[1]
        target, width = self._target, self._source.width
        strips = split(target.height, target.height, target.grain)
        lines = max(len(needed_rows(self._y, strip)) for strip in strips)
        if lines * width <= room:
            return True
        grain = column_grain(self._config)
        end = width - max(0, self._x.origin((target.width - 1) // grain * grain))
        # The last columns of the output have all columns of the image that are left.
        narrow = max((grain - 1) * self._x.stride + columns, end)
        return max(2 * rows * columns, lines * min(width, narrow)) <= room

    def strips(self) -> tuple[range, ...]:  # noqa: D102
        if self._large is None:
            return self._usual_strips()
        target = self._target
        if target.resident:
            return (range(target.height),)
        per_row = target.blocks * target.width
        return cut_strips(target.height, per_row, self._context.strip_rows, target.grain)

    def _usual_strips(self) -> tuple[range, ...]:
        source, target = self._source, self._target
        if source.resident and target.resident:
            return (range(target.height),)
        per_row = source.blocks * (source.width * self._y.stride + target.width)
        return cut_strips(target.height, per_row, self._context.strip_rows, target.grain)

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:
        """Yield the commands.

        Raises
        ------
        ValueError
            If a window lies in the padding altogether.
        """
        index, target = self._context.index, self._target
        runs = find_runs(self._x, range(target.width))
        if self._large is not None:
            out = target.open(rows)
            for y in rows:
                yield from self._large_row(self._large, out, y, runs)
            yield from target.store(out, rows, index)
            return
        for part in self._parts(rows):
            out = target.open(part)
            needed = needed_rows(self._y, part)
            for blocks in self._cut_blocks(needed):
                source = self._source
                if len(blocks) < source.blocks:
                    source = source.some_blocks(blocks)
                view, loads = source.read(needed, index)
                yield from loads
                for y in find_runs(self._y, part):
                    for x in runs:
                        yield from self._region(view, out, y, x, blocks)
            start = part.start // target.grain * target.grain
            yield from target.store(out, range(start, part.stop), index)

    def _large_row(
        self, large: WindowSums | WindowMaxima, out: View, y: int, runs: list[Run]
    ) -> Iterator[Op]:
        """Compute an output row; windows that are clipped may suit a command nevertheless."""
        source = self._source
        (row,) = find_runs(self._y, range(y, y + 1))
        plain = [x for x in runs if source.resident and max(row.size, x.size) <= LARGEST_WINDOW]
        if plain:
            view, loads = source.read(row.span, self._context.index)
            yield from loads
            for x in plain:
                yield from self._region(view, out, row, x, range(source.blocks))
        if rest := [x for x in runs if x not in plain]:
            for block in range(source.blocks):
                yield from large.row(row.span, rest, block, out, y)

    def _parts(self, rows: range) -> tuple[range, ...]:
        """Return the output rows of a strip that are computed at a time."""
        return cut_parts(
            rows,
            self._target.width,
            self._config,
            grain=self._target.grain,
            block_start=self._context.options.block_start,
        )

    def _cut_blocks(self, rows: range) -> tuple[range, ...]:
        """Return channel blocks in parts whose windows fit: one may be as large as the image."""
        source, most = self._source, self._context.free_rows // 2
        block = len(rows) * source.width
        if source.resident or source.blocks * block <= most:
            return (range(source.blocks),)
        return split(source.blocks, -(-source.blocks // max(1, most // block)), 1)

    def _region(self, view: View, out: View, y: Run, x: Run, blocks: range) -> list[Op]:
        """Compute a region whose windows are all of one size; ``view`` has just these blocks."""
        operation, ops = VectorOp.MAX, []
        fields = {
            "window_rows": y.size,
            "window_columns": x.size,
            "window_pitch": view.pitch,
        }
        if self._layer.op != "sum":
            fields |= {"low": self._layer.low, "high": self._layer.high}
        places = {}
        if self._layer.op != "max":
            operation = VectorOp.SUM
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
            ops = [*ops, vector_op(self._context, operation, fields, places)]
        return ops

    def _record(self, count: int) -> Constant:
        if self._layer.op == "sum":
            count = 0
        if count not in self._records:
            rows = common_record(self._requantization(count), self._context.config)
            self._records[count] = self._context.constant("record", rows)
        return self._records[count]

    def _requantization(self, count: int) -> Requantization:
        """Return how a sum of so many numbers becomes the result."""
        layer = self._layer
        if layer.requantization is not None:
            return layer.requantization
        return average_requantization(count, layer.low, layer.high, layer.offset)
