"""Rows, columns and channel blocks of an image as another image."""

from collections.abc import Iterator
from itertools import product

from tpulite.compiler.geometry.cut import PARTS
from tpulite.compiler.geometry.progressions import Progression, consecutive, progressions
from tpulite.compiler.geometry.slices import column_grain
from tpulite.compiler.lower.lowering import LayerContext, Lowering, copy_ops
from tpulite.compiler.ops import Op
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.rows import RowsPlan, span
from tpulite.graph.layers import Pick


class PickLowering(Lowering[Pick, RowsPlan]):
    """Copies of vectors: a command for each pair of progressions of rows and of columns.

    What goes to DRAM has its columns picked alone: a row is stored wherever it belongs.
    """

    def __init__(self, layer: Pick, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        block = layer.channels[0] // self._config.array_size
        self._source = self._source.some_blocks(range(block, block + self._target.blocks))
        # By axis of the output.
        self._indices = layer.columns, layer.rows
        if not layer.transposed:
            self._indices = layer.rows, layer.columns

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        target, index = self._target, self._context.index
        if not (target.resident or self._layer.transposed) and target.grain == 1:
            # What is computed can be stored while the rest is: block by block, or in parts of rows.
            parts = (rows,) if target.blocks >= PARTS else self._plan.parts(rows)
            for part in parts:
                yield from self._passing(part)
            return
        for part in self._plan.parts(rows):
            view, loads = self._read(part)
            yield from loads
            out = target.open(part)
            yield from self._copies(view, out, part)
            start = part.start // target.grain * target.grain
            yield from target.store(out, range(start, part.stop), index)

    def _passing(self, rows: range) -> Iterator[Op]:
        """Pick columns of each block, and store its rows to where they belong."""
        index, needed = self._context.index, span(self._indices[0], rows)
        places = [y - needed.start for y in self._indices[0][rows.start : rows.stop]]
        for n in range(self._target.blocks):
            blocks = range(n, n + 1)
            source, target = self._source.some_blocks(blocks), self._target.some_blocks(blocks)
            view, loads = source.read(needed, index)
            yield from loads
            columns = self._indices[1]
            if consecutive(columns):
                made = View(
                    view.buffer,
                    range(len(needed)),
                    view.at(needed.start, columns[0]).row,
                    view.pitch,
                    0,
                )
            else:
                made = target.strip(range(len(needed)))
                yield from self._columns(view, made, needed)
            for run in progressions(places):
                there = run._replace(start=rows.start + run.start)
                yield from target.store_lines(made, there, index)

    def _columns(self, view: View, out: View, rows: range) -> Iterator[Op]:
        """Yield COPYs of columns; all rows at once if each column is there equally often."""
        columns, width = self._indices[1], self._source.width
        times, several = len(columns) // width, width * len(rows) > 1
        if (
            several
            and view.pitch == width
            and columns == tuple(i // times for i in range(times * width))
        ):
            extents = 1, len(rows) * width
            for x in range(times):
                places = view.at(rows.start), out.at(0, x)
                yield from copy_ops(self._context, places, extents, (0, 1), (0, times))
            return
        for x in progressions(columns):
            places = (view.at(rows.start, x.first), out.at(0, x.start))
            read = view.pitch, _far(x, x.stride)
            write = out.pitch, _far(x, x.step)
            yield from copy_ops(self._context, places, (len(rows), x.length), read, write)

    def _read(self, part: range) -> tuple[View, list[Op]]:
        """Return where the pixels are that a part of the output comes from."""
        source, index = self._source, self._context.index
        needed = span(self._indices[0], part)
        if not self._layer.transposed:
            return source.read(needed, index)
        rows = span(self._indices[1], range(self._target.width))
        if source.resident:
            return source.read(rows, index)
        grain = column_grain(self._config)
        if source.width % grain:
            return source.read(rows, index)
        columns = range(
            needed.start // grain * grain, min(-(-needed.stop // grain) * grain, source.width)
        )
        view, loads = source.part(0, columns).read(rows, index)
        return View(
            view.buffer, view.rows, view.row - columns.start, view.pitch, view.block_pitch
        ), loads

    def _copies(self, view: View, out: View, part: range) -> Iterator[Op]:
        lines = progressions(self._indices[0][part.start : part.stop])
        columns = progressions(self._indices[1])
        for block, y, x in product(range(self._target.blocks), lines, columns):
            pitches, place = (view.pitch, 1), (y.first, x.first)
            if self._layer.transposed:
                pitches, place = (1, view.pitch), (x.first, y.first)
            places = (view.at(*place, block), out.at(part.start + y.start, x.start, block))
            read = _far(y, y.stride * pitches[0]), _far(x, x.stride * pitches[1])
            write = _far(y, y.step * out.pitch), _far(x, x.step)
            yield from copy_ops(self._context, places, (y.length, x.length), read, write)


def _far(run: Progression, rows: int) -> int:
    """Return the rows from vector to vector; a vector by itself needs none."""
    return rows if run.length > 1 else 0
