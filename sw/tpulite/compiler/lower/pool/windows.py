"""The way of input tiles of activations into the buffer."""

from dataclasses import dataclass

from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.stores import Store


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
