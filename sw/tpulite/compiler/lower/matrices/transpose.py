"""Columns and channels that change places: squares of N vectors, which the array reads as bytes.

With transposed tiles a square is a weight tile instead, by which an identity matrix is multiplied.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from tpulite.arch.isa import Axis, Drain, Opcode, dense
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.lower.lowering import LayerContext, Lowering
from tpulite.compiler.lower.matrices.array_copies import ArrayCopies
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.place.constants import channel_records
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.layer_cost import most_taps, most_tiles, taps_at_once
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import Transpose
from tpulite.graph.requantization import IDENTITY

_ROOM = 4
"""Copies of columns that fill no square take at most this part of the free rows at a time."""


class TransposeLowering(Lowering[Transpose, RowsPlan]):
    """Dense mode: output c of a square reads its vectors from byte c on, and the first byte counts.

    Tap m multiplies the vector of column m with a tile whose only weight is a 1 from the first byte
    to channel m. Squares below each other in a block are rows of one command.
    """

    def __init__(self, layer: Transpose, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        size = self._config.array_size
        weights = np.zeros((size, size, size), np.int8)
        weights[range(size), 0, range(size)] = 1
        bank = self._config.ub_banks // 2
        self._copies = None
        if self._config.transposed_tiles:
            self._copies, weights = ArrayCopies(context), weights[:0]
        self._taps = taps_at_once(context.free_rows, self._config)
        self._weights = [
            context.constant("weights", weights[first : first + self._taps], bank=bank)
            for first in range(0, len(weights), self._taps)
        ]
        bias = np.zeros(size, np.int64)
        self._form, (records,) = channel_records(IDENTITY, bias, self._config)
        self._records = context.constant("records", records)
        self._channels = context.channels[layer.inputs[0]]

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        source, target, index = self._source, self._target, self._context.index
        # Of what is not on chip a block, and the columns that it becomes, are there at a time.
        whole = target.resident or target.grain > 1
        for part in self._plan.parts(rows):
            start = part.start // target.grain * target.grain
            stored = range(start, part.stop)
            out = target.open(part) if whole else None
            for block, channels in enumerate(self._blocks()):
                some = source if source.resident else source.some_blocks(range(block, block + 1))
                view, loads = some.read(part, index)
                yield from loads
                view = view if source.resident else view.without(block)
                if out is not None:
                    yield from self._block(view, out, part, block, channels)
                    continue
                columns = target.part(0, channels)
                piece = columns.open(part)
                made = piece._replace(row=piece.row - channels.start)
                yield from self._block(view, made, part, block, channels)
                yield from columns.store(piece, stored, index)
            if out is not None:
                yield from target.store(out, stored, index)

    def _blocks(self) -> Iterator[range]:
        """Yield the channels of each block."""
        size = self._config.array_size
        for first in range(0, self._channels, size):
            yield range(first, min(first + size, self._channels))

    def _block(
        self, view: View, out: View, rows: range, block: int, channels: range
    ) -> Iterator[Op]:
        """Transpose the vectors of a channel block of some rows."""
        size = self._config.array_size
        if self._copies is not None:
            yield from self._tiles(self._copies, view, out, rows, (block, channels))
            return
        squares, rest = divmod(self._source.width, size)
        pieces = split(squares, -(-squares // most_tiles(self._config)), 1) if squares else ()
        for y in rows:
            for some in pieces:
                place, end = view.at(y, some.start * size, block), (out, y, some.start)
                yield from self._squares(place, (len(some), size), channels, end)
            if rest:  # columns that do not fill a square
                place, end = view.at(y, squares * size, block), (out, y, squares)
                yield from self._squares(place, (1, rest), channels, end)

    def _tiles(
        self, copies: ArrayCopies, view: View, out: View, rows: range, of: tuple[int, range]
    ) -> Iterator[Op]:
        """Transpose the squares of a block, then copies of columns that fill none."""
        size, (block, channels) = self._config.array_size, of
        squares, rest = divmod(self._source.width, size)
        most = max(1, min(size, self._context.free_rows // (_ROOM * size)))
        for some in split(len(rows), -(-len(rows) // most), 1):
            part = rows[some.start : some.stop]
            tails = Region(Buffer(f"tails of {self._context.name}", len(part) * size))
            if rest:
                place = view.at(part.start, squares * size, block)
                pitch = view.pitch
                yield from copies.ops((place, tails), (len(part), size), (pitch, size), width=rest)
            for y, square in product(part, range(squares)):
                place, end = view.at(y, square * size, block), (out, y, square)
                yield from self._square(copies, place, channels, end)
            for index, y in enumerate(part if rest else ()):
                end = (out, y, squares)
                yield from self._square(copies, tails.behind(index * size), channels, end)

    def _square(
        self, copies: ArrayCopies, place: Region, channels: range, end: tuple[View, int, int]
    ) -> Iterator[Op]:
        """Multiply an identity matrix by a square of vectors as a transposed tile."""
        out, y, square = end
        vectors, loads = copies.identity.use()
        yield from loads
        record, loads = copies.records.use()
        yield from loads
        fields = {
            **dense(m=len(channels), k_tiles=1, drain=Drain.REQUANTIZE),
            "inner": Axis.X,
            "transposed": 1,
            "record_form": copies.form,
        }
        places = {
            "act_row": vectors,
            "weight_row": place,
            "record_row": record,
            "out_row": out.at(y, channels.start, square),
        }
        fields = {name: value for name, value in fields.items() if name not in places}
        yield Op(Opcode.CONV, self._context.index, fields, places)

    def _squares(
        self, place: Region, extents: tuple[int, int], channels: range, end: tuple[View, int, int]
    ) -> Iterator[Op]:
        """Yield the CONVs of so many squares of so many columns, some taps at a time."""
        size, (rows, width), (out, y, square) = self._config.array_size, extents, end
        reloads = self._taps < most_taps(self._config)
        for first in range(0, width, self._taps):
            weights, loads = self._weights[first // self._taps].use(again=reloads)
            yield from loads
            taps = min(self._taps, width - first)
            fields = {
                "inner": Axis.X,
                "byte_step": 1,
                "rows": rows,
                "columns": len(channels),
                "stride_y": 1,
                "stride_x": 1,
                "act_pitch": size,
                "height": rows,
                "width": taps,
                "blocks": 1,
                "kernel_rows": 1,
                "kernel_columns": taps,
                "dilation_y": 1,
                "dilation_x": 1,
                "accumulate": int(first > 0),
                "drain": Drain.KEEP,
            }
            places = {"act_row": place.behind(first), "weight_row": weights}
            if first + taps == width:
                record, loads = self._records.use()
                yield from loads
                fields |= {
                    "drain": Drain.REQUANTIZE,
                    "record_form": self._form,
                    "out_pitch": out.block_pitch,
                    "out_step": 1,
                }
                places |= {"record_row": record, "out_row": out.at(y, channels.start, square)}
            yield Op(Opcode.CONV, self._context.index, fields, places)
