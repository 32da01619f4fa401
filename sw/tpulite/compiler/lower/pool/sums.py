"""Sums over large windows on the systolic array.

A weight tile is N rows of N bytes: just so lie the pixels of a channel block in the buffer. So the
image takes the place of the weights, and what is streamed is constant: for each output a vector
that is 1 where a position lies in its window. Products of all input tiles add up in int32, exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tpulite.arch.isa import Drain, Opcode, RecordForm, dense
from tpulite.compiler.lower.lowering import LayerContext
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.constants import Constant, channel_records
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.pool_rows import lines_at_once, sums_of_row
from tpulite.compiler.plan.pool_windows import InputTiles, Run
from tpulite.compiler.plan.requantizations import pool_requantization
from tpulite.graph.layers import Pool


@dataclass(frozen=True)
class InputTile:
    """Pixels of one channel block in the unified buffer: lines of an image, or part of one line."""

    #: Which pixels.
    lines: range
    columns: range
    pitch: int  #: Rows of the buffer from line to line.
    #: The first row of the buffer with pixels of the image: all up to those that count are there.
    first: Region
    origin: int  #: Place of the first row if pixel (0, 0) of the image had place 0.

    def place(self, line: int, column: int) -> int:
        """Return the place of a pixel, counted from the first row."""
        return line * self.pitch + column - self.origin

    def at(self, place: int) -> Region:
        """Return the row of the buffer at a place."""
        return Region(self.first.buffer, self.first.row + place)


def read_input_tile(
    source: Store, context: LayerContext, block: int, lines: range, columns: range
) -> tuple[InputTile, list[Op]]:
    """Return where an input tile of a channel block is, and the LOADs before it."""
    if source.resident:
        view, loads = source.read(lines, context.index)
        first = view.at(view.rows.start, 0, block)
        return InputTile(lines, columns, view.pitch, first, view.rows.start * view.pitch), loads
    # All of a channel block is one run of pixels in DRAM.
    pixels = source.some_blocks(range(block, block + 1)).flat()
    line, column, size = source.line, source.column, context.config.array_size
    start = lines.start * line + column + columns.start
    stop = (lines.stop - 1) * line + column + columns.stop
    start = max(0, min(start, stop - size))  # a weight tile is the least
    stop = max(stop, start + size)
    view, loads = pixels.read(range(start, stop), context.index)
    first = Region(view.buffer, view.row)
    return InputTile(lines, columns, line, first, view.rows.start - column), loads


class _Product(NamedTuple):
    """Weight tiles from a place of an input tile on, and the vectors that multiply them."""

    place: int
    tiles: int
    mask: Constant
    pitch: int


class WindowSums:
    """Sums, or averages, over windows of any size.

    Parameters
    ----------
    source : Store
        Where pixels come from.
    input tiles : InputTiles
        How windows are read.
    layer : Pool
        How sums are requantized.
    """

    def __init__(
        self,
        source: Store,
        input_tiles: InputTiles,
        context: LayerContext,
        layer: Pool,
    ) -> None:
        self._source, self._input_tiles = source, input_tiles
        self._context, self._layer = context, layer
        self._size = context.config.array_size
        self._masks: dict[tuple[int, ...], Constant] = {}
        self._records: dict[int, tuple[RecordForm, Constant]] = {}

    def row(self, lines: range, runs: list[Run], block: int, out: View, y: int) -> Iterator[Op]:
        """Yield the commands that compute one channel block of an output row.

        Parameters
        ----------
        lines : range
            Rows of the image that the windows cover.
        runs : list of Run
            All outputs of the row.
        block : int
            Number of the channel block.
        out : View
            Where the result goes.
        y : int
            Number of the output row.
        """
        context = self._context
        for group in sums_of_row(self._input_tiles, lines, runs, context.config):
            for number, cut in enumerate(group.input_tiles):
                input_tile, loads = read_input_tile(self._source, context, block, *cut)
                yield from loads
                acc_row = 0
                for run in group.runs:
                    products = list(self._products(input_tile, run))
                    for k, product in enumerate(products):
                        fields = {"acc_row": acc_row, "accumulate": int(number > 0 or k > 0)}
                        last = number == len(group.input_tiles) - 1 and k == len(products) - 1
                        target = (len(lines) * run.size, out, y, block) if last else None
                        yield from self._conv(input_tile, run, product, fields, target)
                    acc_row += len(run.outputs)

    def _products(self, input_tile: InputTile, run: Run) -> Iterator[_Product]:
        """Yield products that count each position of a tile once for each window around it."""
        columns = range(
            max(run.span.start, input_tile.columns.start),
            min(run.span.stop, input_tile.columns.stop),
        )
        lines = 1
        if lines_at_once(self._input_tiles, run) and len(input_tile.columns) == input_tile.pitch:
            columns, lines = input_tile.columns, len(input_tile.lines)
        for line in input_tile.lines[::lines]:
            place = input_tile.place(line, columns.start)
            count = len(columns) * lines
            full = count // self._size * self._size
            if full:
                yield self._product(run, columns, place, 0, range(full))
            if full < count:  # a tile that ends there: before it, too, there are pixels
                start = max(-place, count - self._size)
                yield self._product(run, columns, place, start, range(full, count))

    def _product(
        self, run: Run, columns: range, place: int, start: int, counted: range
    ) -> _Product:
        """Multiply the tiles from ``start`` on; of these positions those that are not yet counted.

        Positions are counted from ``place`` on: columns, line after line.
        """
        tiles = -(-(counted.stop - start) // self._size)
        key = (run.first, run.size, run.step, len(run.outputs), columns.start, len(columns))
        key = (*key, start, counted.start, counted.stop)
        if key not in self._masks:
            positions = np.arange(start, start + tiles * self._size)
            column = columns.start + positions % len(columns)
            first = run.first + np.arange(len(run.outputs))[:, None] * run.step
            inside = (column >= first) & (column < first + run.size)
            inside &= (positions >= counted.start) & (positions < counted.stop)
            mask = inside.reshape(-1, tiles, self._size).transpose(1, 0, 2).astype(np.int8)
            if (mask == mask[0]).all():
                mask = mask[:1]
            bank = self._context.config.ub_banks // 2
            self._masks[key] = self._context.constant("mask", mask, bank=bank)
        constant = self._masks[key]
        pitch = len(run.outputs) if constant.rows > len(run.outputs) else 0
        return _Product(place + start, tiles, constant, pitch)

    def _conv(
        self,
        input_tile: InputTile,
        run: Run,
        product: _Product,
        fields: dict[str, int],
        target: tuple[int, View, int, int] | None,
    ) -> Iterator[Op]:
        """Yield a product, after the LOADs of its constants.

        The last one drains: positions of a window, view, row and block.
        """
        mask, loads = product.mask.use()
        yield from loads
        places = {"act_row": mask, "weight_row": input_tile.at(product.place)}
        if target is not None:
            count, out, y, block = target
            form, record = self._record(count)
            places["record_row"], loads = record.use()
            yield from loads
            places["out_row"] = out.at(y, run.outputs.start, block)
            fields |= {"drain": Drain.REQUANTIZE, "record_form": form}
        fields = dense(m=len(run.outputs), k_tiles=product.tiles, act_pitch=product.pitch, **fields)
        del fields["act_row"]
        yield Op(Opcode.CONV, self._context.index, fields, places)

    def _record(self, count: int) -> tuple[RecordForm, Constant]:
        if count not in self._records:
            requantization = pool_requantization(self._layer, count)
            bias = np.broadcast_to(requantization.bias, self._size).astype(np.int64)
            form, (rows,) = channel_records(requantization, bias, self._context.config)
            self._records[count] = form, self._context.constant("record", rows)
        return self._records[count]
