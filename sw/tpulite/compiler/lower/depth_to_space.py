"""Channel blocks that become pixels."""

from collections.abc import Iterator

from tpulite.compiler.geometry.progressions import Progression
from tpulite.compiler.lower.lowering import LayerContext, Lowering, copy_ops
from tpulite.compiler.ops import Op
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import DepthToSpace


class DepthToSpaceLowering(Lowering[DepthToSpace, RowsPlan]):
    """Copies of vectors: a command for each pixel of a rectangle, and channel block.

    What goes to DRAM is moved block by block, and each row of the rectangles by itself if rows
    begin at beats.
    """

    def __init__(self, layer: DepthToSpace, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        # For each part of the channels the input in which it lies, and its first block there.
        apart = sum(source.blocks for source in self._sources) // len(layer.order)
        parts = ((x, n) for x in self._sources for n in range(0, x.blocks, apart))
        self._parts = dict(zip(layer.order, parts, strict=True))

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        target, index, height = self._target, self._context.index, self._layer.block[0]
        for part in self._plan.parts(rows):
            start = part.start // target.grain * target.grain
            if target.resident:
                out = target.open(part)
                for n in range(target.blocks):
                    yield from self._rows(part, n, range(height), out.without(-n))
                yield from target.store(out, range(start, part.stop), index)
                continue
            for n in range(target.blocks):
                block = target.some_blocks(range(n, n + 1))
                if target.grain == 1:
                    yield from self._lines(part, n, block)
                    continue
                out = block.open(part)
                yield from self._rows(part, n, range(height), out)
                yield from block.store(out, range(start, part.stop), index)

    def _lines(self, rows: range, n: int, block: Store) -> Iterator[Op]:
        """Move one row of the rectangles after the other to where they belong in DRAM."""
        height, index = self._layer.block[0], self._context.index
        for i in range(height):
            squares = self._squares(rows, i)
            if not squares:
                continue
            out = block.strip(range(len(squares)))
            moved = View(out.buffer, squares, out.row, out.pitch, out.block_pitch)
            for j in range(self._layer.block[1]):
                yield from self._copies((i, j), squares, n, (moved, squares.start, 1))
            first = squares.start * height + i
            there = Progression(first, height, len(squares), squares.start, 1)
            yield from block.store_lines(moved, there, index)

    def _rows(self, rows: range, n: int, some: range, out: View) -> Iterator[Op]:
        """Move some rows of the rectangles into the rows of the output; ``out`` is its block."""
        height, width = self._layer.block
        for i in some:
            squares = self._squares(rows, i)
            for j in range(width if squares else 0):
                here = out, squares.start * height + i, height
                yield from self._copies((i, j), squares, n, here)

    def _squares(self, rows: range, i: int) -> range:
        """Return the rectangles of which row i is among those of the output."""
        height = self._layer.block[0]
        return range(*(-(-(end - i) // height) for end in (rows.start, rows.stop)))

    def _copies(
        self, pixel: tuple[int, int], squares: range, n: int, target: tuple[View, int, int]
    ) -> Iterator[Op]:
        """Copy block n of a pixel of some rectangles; the target is a view, first row and step."""
        (i, j), (out, first, step), width = pixel, target, self._layer.block[1]
        columns = -(-(self._target.width - j) // width)
        if not columns:
            return
        source, block = self._parts[i * width + j]
        place = block + n
        if not source.resident:
            source, place = source.some_blocks(range(place, place + 1)), 0
        view, loads = source.read(squares, self._context.index)
        yield from loads
        places = (view.at(squares.start, 0, place), out.at(first, j))
        write = (step * out.pitch, width)
        yield from copy_ops(self._context, places, (len(squares), columns), (view.pitch, 1), write)
