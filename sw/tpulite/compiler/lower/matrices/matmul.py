"""Products of two activations: blocks of the second one are the weights, as they lie there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.arch.isa import RAW_ROWS, Axis, Drain, Opcode
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.lower.lowering import LayerContext, Lowering, copy_ops
from tpulite.compiler.lower.matrices.array_copies import ONE_TAP, ArrayCopies
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.place.constants import channel_records
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.layer_cost import most_columns
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import MatMul


@dataclass(frozen=True)
class _Panels:
    """Where the weights of all n-blocks of a matrix are, and their records."""

    view: View  #: The second operand.
    row: int  #: Row of it that is the matrix.
    #: Copies of its last rows by n-block, if they do not fill a tile, filled up.
    tails: Region | None
    records: Region  #: Channel records, ``step`` rows from n-block to n-block.
    step: int


class MatMulLowering(Lowering[MatMul, RowsPlan]):
    """A row of a block of an activation, pixel below pixel, is a column of weight tiles.

    Where the inner extent does not fill its last tile, that tile is a copy, filled with the zero
    point. The array multiplies the first operand as it is, so its zero point needs the column sums
    of the second one: the array computes them from padding alone, and drains them as sums of int32,
    which lie as the biases of a channel record do.

    A transposed tile is N pixels of a block. Then it is the outer extent that may not fill its last
    tiles, of which there are copies; the inner one fills all. The array makes copies: scores of a
    head need not wait until the vector path has done the softmax of the head before.
    """

    def __init__(self, layer: MatMul, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        size = self._config.array_size
        inner, columns = context.channels[layer.inputs[0]], context.channels[layer.output]
        self._inner_blocks = -(-inner // size)
        self._full, self._rest = divmod(columns if layer.transposed else inner, size)
        bias = np.zeros(size, np.int64)
        self._form, (records,) = channel_records(layer.requantization, bias, self._config)
        rows = np.ascontiguousarray(records).view(np.uint8).reshape(-1, self._config.row_bytes)
        self._head = len(rows) - RAW_ROWS  # what is the same for all channels
        shared = rows if not layer.zero_points[0] else rows[: self._head]
        self._records = context.constant("records", shared)
        if layer.transposed:
            self._copies = ArrayCopies(context)
        elif self._rest:
            fill = np.full((1, self._config.row_bytes), layer.zero_points[1], np.int8)
            self._fill = context.constant("zero points", fill)

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        first, second = self._sources
        target, index = self._target, self._context.index
        for part in self._plan.parts(rows):
            views = []
            for source in (first, second):
                view, loads = source.read(part, index)
                yield from loads
                views.append(view)
            out = target.open(part)
            for y in part:
                yield from self._product(views, out, y)
            start = part.start // target.grain * target.grain
            yield from target.store(out, range(start, part.stop), index)

    def _product(self, views: list[View], out: View, y: int) -> Iterator[Op]:
        """Multiply the matrices of a row."""
        a, b = views
        ops, panels = self._panels(b, y)
        yield from ops
        width = self._target.width
        shift = self._target.column - self._source.column
        for n in range(self._target.blocks):
            for columns in split(width, -(-width // most_columns(self._config)), 1):
                fields = {
                    "rows": 1,
                    "columns": len(columns),
                    "height": 1,
                    "width": len(columns),
                    "act_block_pitch": a.block_pitch,
                }
                last = {
                    "drain": Drain.REQUANTIZE,
                    "record_form": self._form,
                    "out_step": 1,
                }
                places = {
                    "record_row": panels.records.behind(n * panels.step),
                    "out_row": out.at(y, columns.start, n),
                }
                place = a.at(y, columns.start + shift)
                yield from self._sums(panels, n, (fields, place), (last, places))

    def _panels(self, b: View, y: int) -> tuple[list[Op], _Panels]:
        """Return the commands that complete the weights and records of a matrix."""
        size, count, context = self._config.array_size, self._target.blocks, self._context
        ops: list[Op] = []
        tails = None
        if self._rest:
            blocks = self._inner_blocks if self._layer.transposed else count
            tails = Region(Buffer(f"tails of {context.name}", blocks * size))
            ops += self._fill_tails(b.at(y, self._full * size), tails, blocks, b.block_pitch)
        common, loads = self._records.use()
        ops += loads
        if not self._layer.zero_points[0]:
            return ops, _Panels(b, y, tails, common, 0)
        step = self._head + RAW_ROWS
        records = Region(Buffer(f"records of {context.name}", count * step))
        if self._layer.transposed:
            ops += self._copies.ops((common, records), (count, self._head), (0, step))
        else:
            ops += copy_ops(context, (common, records), (count, self._head), (0, 1), (step, 1))
        panels = _Panels(b, y, tails, records, step)
        for n in range(count):
            ops += self._offsets(panels, n)
        return ops, panels

    def _fill_tails(self, place: Region, tails: Region, blocks: int, pitch: int) -> Iterator[Op]:
        """Copy the last rows of a matrix into tiles of their own, filled with the zero point."""
        size, zero_point = self._config.array_size, self._layer.zero_points[1]
        if self._layer.transposed:
            yield from self._copies.ops(
                (place, tails), (blocks, size), (pitch, size), width=self._rest, pad=zero_point
            )
            return
        fill, loads = self._fill.use()
        yield from loads
        context, write = self._context, (size, 1)
        yield from copy_ops(context, (place, tails), (blocks, self._rest), (pitch, 1), write)
        filled = tails.behind(self._rest)
        yield from copy_ops(context, (fill, filled), (blocks, size - self._rest), (0, 0), write)

    def _offsets(self, panels: _Panels, n: int) -> Iterator[Op]:
        """Yield what makes the biases: the column sums times the zero point, negative.

        A position between rows of padding sees no row of the activation, see
        :class:`tpulite.compiler.lower.conv.commands.Offset`.
        """
        value = -self._layer.zero_points[0]
        parts = (value,) if value in range(-128, 128) else (value // 2, value - value // 2)
        for number, pad in enumerate(parts):
            fields = {"rows": 1, "columns": 1, "height": 1, "width": 1}
            fields |= {"stride_y": 2, "pad_top": 1, "pad": pad}
            drained = None
            if number == len(parts) - 1:
                place = panels.records.behind(n * panels.step + self._head)
                drained = {"drain": Drain.RAW}, {"out_row": place}
            source = panels.view.at(panels.row)
            yield from self._sums(panels, n, (fields, source), drained, first=number == 0)

    def _tiles(self, panels: _Panels, n: int) -> list[tuple[int, int, Region]]:
        """Return the first k-tile, the k-tiles and the weights of each CONV of an n-block."""
        size, view, tails = self._config.array_size, panels.view, panels.tails
        if self._layer.transposed:
            if n < self._full:
                places = [view.at(panels.row, n * size, k) for k in range(self._inner_blocks)]
            else:
                assert tails is not None
                places = [tails.behind(k * size) for k in range(self._inner_blocks)]
            return [(k, 1, place) for k, place in enumerate(places)]
        tiles = [(0, self._full, view.at(panels.row, 0, n))] if self._full else []
        if tails is not None:
            tiles.append((self._full, 1, tails.behind(n * size)))
        return tiles

    def _sums(
        self,
        panels: _Panels,
        n: int,
        source: tuple[Mapping[str, int], Region],
        drained: tuple[Mapping[str, int], Mapping[str, Region]] | None,
        *,
        first: bool = True,
    ) -> Iterator[Op]:
        """Yield the CONVs that multiply by one n-block: whole tiles, then the last one."""
        fields, place = source
        tiles = self._tiles(panels, n)
        for number, (block, count, weights) in enumerate(tiles):
            final = drained is not None and number == len(tiles) - 1
            every = {
                **ONE_TAP,
                **fields,
                "inner": Axis.X,
                "blocks": count,
                "weight_zero_point": self._layer.zero_points[1],
                "transposed": int(self._layer.transposed),
                "accumulate": int(number > 0 or not first),
                "drain": Drain.KEEP,
            }
            act = place.behind(block * fields.get("act_block_pitch", 0))
            places = {"act_row": act, "weight_row": weights}
            if final:
                assert drained is not None
                every, places = {**every, **drained[0]}, {**places, **drained[1]}
            yield Op(Opcode.CONV, self._context.index, every, places)
