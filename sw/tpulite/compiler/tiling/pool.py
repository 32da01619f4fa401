"""Pooling on the vector path."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tpulite.arch.isa import VECTOR, VectorOp
from tpulite.arch.numerics import Rounding
from tpulite.compiler.ops import Op
from tpulite.compiler.tiling.constants import Constant, common_record
from tpulite.compiler.tiling.context import Context
from tpulite.compiler.tiling.cut import cut_parts, cut_strips, split
from tpulite.compiler.tiling.images import View
from tpulite.compiler.tiling.lowering import Lowering
from tpulite.compiler.tiling.vector_commands import MOST_VECTORS, vector_op
from tpulite.compiler.tiling.window import Axis1D, needed_rows
from tpulite.graph.layers import Pool, Requantization

__all__ = ["PoolLowering", "average_requantization"]

_WINDOW = VECTOR.limit("window_rows")
"""Largest window of a command, along each axis."""


@dataclass(frozen=True)
class _Run:
    """Outputs along an axis whose windows have the same size after clipping.

    ``first`` is the first position that the window of the first of them covers.
    """

    outputs: range
    first: int
    size: int


def average_requantization(count: int, low: int, high: int, offset: int = 0) -> Requantization:
    """Return how a sum of ``count`` numbers becomes their average, half away from zero, exactly.

    The average is that of the numbers plus ``offset``, less ``offset``. The reciprocal is rounded
    up, so that exact halves are not missed; its relative error of 2**-30 cannot move anything else:
    a quotient of at most 255 that is no half is at least 1 / (2 * count) away from one.

    Examples
    --------
    >>> average_requantization(2, -128, 127).multiplier.tolist()
    [1073741824]
    """
    shift = 1
    while -(-(1 << (31 - shift)) // count) < 1 << 30:
        shift -= 1
    multiplier = -(-(1 << (31 - shift)) // count)
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
    """Pooling; clipped windows at the edges have commands of their own."""

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

    def strips(self) -> tuple[range, ...]:  # noqa: D102
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
            If a window lies in the padding altogether, or is too large.
        """
        index, target = self._context.index, self._target
        parts = cut_parts(
            rows,
            target.width,
            self._config,
            grain=target.grain,
            block_start=self._context.options.block_start,
        )
        for part in parts:
            out = target.open(part)
            needed = needed_rows(self._y, part)
            for blocks in self._cut_blocks(needed):
                source = self._source
                if len(blocks) < source.blocks:
                    source = source.some_blocks(blocks)
                view, loads = source.read(needed, index)
                yield from loads
                for y in self._runs(self._y, part):
                    for x in self._runs(self._x, range(target.width)):
                        yield from self._region(view, out, y, x, blocks)
            start = part.start // target.grain * target.grain
            yield from target.store(out, range(start, part.stop), index)

    def _cut_blocks(self, rows: range) -> tuple[range, ...]:
        """Return channel blocks in parts whose windows fit: one may be as large as the image."""
        source, most = self._source, self._context.free_rows // 2
        block = len(rows) * source.width
        if source.resident or source.blocks * block <= most:
            return (range(source.blocks),)
        return split(source.blocks, -(-source.blocks // max(1, most // block)), 1)

    def _runs(self, axis: Axis1D, outputs: range) -> list[_Run]:
        runs: list[_Run] = []
        for output in outputs:
            span = axis.span(range(output, output + 1))
            if not 0 < len(span) <= _WINDOW:
                raise ValueError(
                    f"A window must cover 1 to {_WINDOW} positions of an axis, not {len(span)}"
                )
            last = runs[-1] if runs else None
            if last and len(last.outputs) < MOST_VECTORS and self._continues(axis, last, span):
                runs[-1] = replace(last, outputs=range(last.outputs.start, output + 1))
            else:
                runs.append(_Run(range(output, output + 1), span.start, len(span)))
        return runs

    @staticmethod
    def _continues(axis: Axis1D, run: _Run, span: range) -> bool:
        start = run.first + len(run.outputs) * axis.stride
        return span == range(start, start + run.size)

    def _region(self, view: View, out: View, y: _Run, x: _Run, blocks: range) -> list[Op]:
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
                "a_pitch": view.pitch * self._y.stride,
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
            requantization = self._layer.requantization
            if self._layer.op == "average":
                layer = self._layer
                requantization = average_requantization(count, layer.low, layer.high, layer.offset)
            assert requantization is not None
            rows = common_record(requantization, self._context.config)
            self._records[count] = self._context.constant("record", rows)
        return self._records[count]
