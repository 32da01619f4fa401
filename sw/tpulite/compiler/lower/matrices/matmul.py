"""Products of two activations: blocks of the second one are the weights, as they lie there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tpulite.arch.isa import RAW_ROWS, Axis, Drain, Opcode
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.lower.lowering import LayerContext, Lowering, copy_ops
from tpulite.compiler.lower.matrices.array_copies import ONE_TAP, ArrayCopies
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.place.constants import channel_records
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.layer_cost import most_columns, offset_parts, offsets_beside
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import MatMul

_PIPELINED = 4
"""N-blocks, of one matrix or of several, whose biases are made before the first is multiplied."""

_ROOM = 16
"""Tails and records of several matrices take at most this part of the free rows."""

_Tiles = list[tuple[int, int, Region]]
"""The first k-tile, the k-tiles and the weights of each CONV of an n-block."""


@dataclass(frozen=True)
class _Panels:
    """Where the weights of all n-blocks of a matrix are, and their records."""

    view: View  #: The second operand.
    row: int  #: Row of it that is the matrix.
    #: Copies of its last rows by n-block, if they do not fill a tile, filled up.
    tails: Region | None
    records: Region  #: Channel records, ``step`` rows from n-block to n-block.
    step: int


@dataclass(frozen=True)
class _Block:
    """An n-block of a matrix."""

    panels: _Panels
    n: int
    tiles: _Tiles
    acc_row: int  #: Of its offsets, if they are made with products, which follow them.


class MatMulLowering(Lowering[MatMul, RowsPlan]):
    """A row of a block of an activation, pixel below pixel, is a column of weight tiles.

    Where the inner extent does not fill its last tile, that tile is a copy, filled with the zero
    point. The array multiplies the first operand as it is, so its zero point needs the column sums
    of the second one: the array computes them from padding alone, and drains them as sums of int32,
    which lie as the biases of a channel record do. Where accumulators have room, padding and the
    first operand share all tiles but the last one.

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
            for some in split(len(part), -(-len(part) // self._together()), 1):
                yield from self._products(views, out, part[some.start : some.stop])
            start = part.start // target.grain * target.grain
            yield from target.store(out, range(start, part.stop), index)

    def _together(self) -> int:
        """Return the rows whose biases are made before the first of them is multiplied."""
        if not self._beside(1):
            return 1
        size, blocks = self._config.array_size, self._target.blocks
        tails = self._inner_blocks if self._layer.transposed else blocks
        rows = tails * size * bool(self._rest) + blocks * (self._head + RAW_ROWS)
        most = self._context.free_rows // (_ROOM * rows)
        return max(1, min(most, -(-_PIPELINED // blocks)))

    def _beside(self, rows: int) -> int:
        """Return n-blocks of some rows that are begun together with their offsets."""
        if not self._layer.zero_points[0]:
            return 0
        blocks = self._inner_blocks, rows * self._target.blocks
        return offsets_beside(self._target.width, blocks, self._config)

    def _products(self, views: list[View], out: View, rows: range) -> Iterator[Op]:
        """Multiply the matrices of some rows."""
        a, b = views
        width, beside = self._target.width, self._beside(len(rows))
        blocks: list[tuple[_Panels, int]] = []
        for y in rows:
            ops, panels = self._panels(b, y)
            yield from ops
            blocks += [(panels, n) for n in range(self._target.blocks)]
        for group in split(len(blocks), -(-len(blocks) // (beside or len(blocks))), 1):
            some = [
                _Block(panels, n, self._tiles(panels, n, beside > 0), number * (width + 1))
                for number, (panels, n) in enumerate(blocks[group.start : group.stop])
            ]
            if beside:
                for block in some:
                    yield from self._begin(a, block)
            elif self._layer.zero_points[0]:
                for block in some:
                    yield from self._offsets(block)
            for block in some:
                yield from self._requantize(a, out, block, begun=beside > 0)

    def _requantize(self, a: View, out: View, block: _Block, *, begun: bool) -> Iterator[Op]:
        """Yield the products of an n-block: those of the last tile, if the others are there."""
        panels, n, width = block.panels, block.n, self._target.width
        shift = self._target.column - self._source.column
        tiles = block.tiles[-1:] if begun else block.tiles
        for columns in split(width, -(-width // most_columns(self._config)), 1):
            fields = {
                "rows": 1,
                "columns": len(columns),
                "height": 1,
                "width": len(columns),
                "act_block_pitch": a.block_pitch,
                "acc_row": block.acc_row + 1 if begun else 0,
            }
            last = {
                "drain": Drain.REQUANTIZE,
                "record_form": self._form,
                "out_step": 1,
            }
            places = {
                "record_row": panels.records.behind(n * panels.step),
                "out_row": out.at(panels.row, columns.start, n),
            }
            source = fields, a.at(panels.row, columns.start + shift)
            yield from self._sums(tiles, source, (last, places), first=not begun)

    def _panels(self, b: View, y: int) -> tuple[list[Op], _Panels]:
        """Return the commands that complete the weights of a matrix, and begin its records."""
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
        return ops, _Panels(b, y, tails, records, step)

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

    def _begin(self, a: View, block: _Block) -> Iterator[Op]:
        """Yield products of all tiles but the last one, and the biases.

        What offsets are sums of is padding, a column in front of the first operand's.
        """
        width, shift = self._target.width, self._target.column - self._source.column
        fields = {
            "rows": 1,
            "columns": width + 1,
            "height": 1,
            "width": width,
            "pad_left": 1,
            "pad": offset_parts(self._layer.zero_points[0])[0],
            "act_block_pitch": a.block_pitch,
            "acc_row": block.acc_row,
        }
        yield from self._sums(block.tiles[:-1], (fields, a.at(block.panels.row, shift)), None)
        yield from self._offsets(block, begun=True)

    def _offsets(self, block: _Block, *, begun: bool = False) -> Iterator[Op]:
        """Yield what makes the biases: the column sums times the zero point, negative.

        A position between rows of padding sees no row of the activation, see
        :class:`tpulite.compiler.lower.conv.commands.Offset`.
        """
        panels = block.panels
        position = {"rows": 1, "columns": 1, "height": 1, "width": 1, "stride_y": 2, "pad_top": 1}
        position["acc_row"] = block.acc_row if begun else 0
        parts = offset_parts(self._layer.zero_points[0])
        for number, pad in enumerate(parts):
            drained = None
            if number == len(parts) - 1:
                place = panels.records.behind(block.n * panels.step + self._head)
                drained = {"drain": Drain.RAW}, {"out_row": place}
            tiles = block.tiles[-1:] if begun and number == 0 else block.tiles
            source = {**position, "pad": pad}, panels.view.at(panels.row)
            yield from self._sums(tiles, source, drained, first=number == 0 and not begun)

    def _tiles(self, panels: _Panels, n: int, last_apart: bool) -> _Tiles:
        """Return the tiles of an n-block; the last one may have to be a command of its own."""
        size, view, tails = self._config.array_size, panels.view, panels.tails
        if self._layer.transposed:
            if n < self._full:
                places = [view.at(panels.row, n * size, k) for k in range(self._inner_blocks)]
            else:
                assert tails is not None
                places = [tails.behind(k * size) for k in range(self._inner_blocks)]
            return [(k, 1, place) for k, place in enumerate(places)]
        ends = {0, self._full}
        if last_apart and tails is None:
            ends.add(self._full - 1)
        tiles = [
            (start, stop - start, view.at(panels.row, start * size, n))
            for start, stop in pairwise(sorted(ends))
        ]
        if tails is not None:
            tiles.append((self._full, 1, tails.behind(n * size)))
        return tiles

    def _sums(
        self,
        tiles: _Tiles,
        source: tuple[Mapping[str, int], Region],
        drained: tuple[Mapping[str, int], Mapping[str, Region]] | None,
        *,
        first: bool = True,
    ) -> Iterator[Op]:
        """Yield the CONVs that multiply by some tiles."""
        fields, place = source
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
