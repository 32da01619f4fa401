"""Windows of pooling that are read piece by piece: geometry, and the way into the buffer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.cut import cut_strips
from tpulite.compiler.lower.context import Context
from tpulite.compiler.lower.vector_commands import MOST_VECTORS
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.stores import Store

__all__ = ["Piece", "PieceReader", "Run", "find_runs"]

_SHARE = 8
"""A piece takes this part of the free rows: one is computed while the next ones are loaded. With
room for three only, each LOAD would wait for the end of a product."""

_LARGEST = 1024
"""Rows of a piece, at most: nothing is computed while the first one is loaded."""


@dataclass(frozen=True)
class Run:
    """Outputs along an axis whose windows have the same size after clipping.

    ``first`` is the first position that the window of the first of them covers, ``step`` the
    positions from window to window.
    """

    outputs: range
    first: int
    size: int
    step: int

    @property
    def span(self) -> range:
        """Positions from the first window to the last one."""
        return range(self.first, self.first + (len(self.outputs) - 1) * self.step + self.size)

    def part(self, outputs: range) -> "Run":
        """Return some of the outputs, which are counted from 0."""
        chosen = self.outputs[outputs.start : outputs.stop]
        return replace(self, outputs=chosen, first=self.first + outputs.start * self.step)


def find_runs(axis: Axis1D, outputs: range) -> list[Run]:
    """Return outputs as runs, as long as commands allow.

    Raises
    ------
    ValueError
        If a window lies in the padding altogether.
    """
    runs: list[Run] = []
    for output in outputs:
        span = axis.span(range(output, output + 1))
        if not span:
            raise ValueError("A window must cover a position of each axis, not padding alone")
        last = runs[-1] if runs else None
        if last and len(last.outputs) < MOST_VECTORS and _continues(last, span):
            runs[-1] = replace(last, outputs=range(last.outputs.start, output + 1))
        else:
            runs.append(Run(range(output, output + 1), span.start, len(span), axis.stride))
    return runs


def _continues(run: Run, span: range) -> bool:
    start = run.first + len(run.outputs) * run.step
    return span == range(start, start + run.size)


@dataclass(frozen=True)
class Piece:
    """Pixels of one channel block in the unified buffer: lines of an image, or part of one line.

    Parameters
    ----------
    lines, columns : range
        Which pixels.
    pitch : int
        Rows of the buffer from line to line.
    first : Region
        The first row of the buffer with pixels of the image: all up to those that count are there.
    origin : int
        Place of the first row if pixel (0, 0) of the image had place 0.
    """

    lines: range
    columns: range
    pitch: int
    first: Region
    origin: int

    def place(self, line: int, column: int) -> int:
        """Return the place of a pixel, counted from the first row."""
        return line * self.pitch + column - self.origin

    def at(self, place: int) -> Region:
        """Return the row of the buffer at a place."""
        return Region(self.first.buffer, self.first.row + place)


class PieceReader:
    """Brings the windows of output rows into the buffer, or finds them there.

    Images in DRAM come in pieces of whole lines. If a line is too long, a piece has those columns
    of one line that some outputs read; if even a single output reads too many, part of them.

    Parameters
    ----------
    source : Store
        The image.
    context : Context
        The layer.

    Attributes
    ----------
    budget : int
        Rows of a piece, unless a single line on chip has more.
    width : int
        Columns of the image.
    gapless : bool
        Whether lines follow each other without columns that do not belong to the image.
    whole_lines : bool
        Whether pieces are whole lines.
    """

    def __init__(self, source: Store, context: Context) -> None:
        size = context.config.array_size
        self._source, self._index, self._size = source, context.index, size
        self.budget = max(2 * size, min(context.free_rows // _SHARE, _LARGEST))
        self.width = source.width
        self._longest = self.budget // size * size
        self.gapless = source.width == source.line
        self.whole_lines = source.resident or source.line <= self.budget

    def cut(self, lines: range, columns: range) -> tuple[tuple[range, range], ...]:
        """Return lines and columns of the pieces; what is not whole lines ends at weight tiles."""
        if not self.whole_lines:
            cuts = cut_strips(len(columns), 1, self._longest, self._size)
            return tuple(
                (range(line, line + 1), columns[cut.start : cut.stop])
                for line in lines
                for cut in cuts
            )
        line = self.width if self._source.resident else self._source.line
        grain = self._size // gcd(self._size, line)
        if grain * line > self.budget:
            grain = 1
        # No piece has less than a weight tile.
        budget = max(self.budget, 2 * -(-self._size // line) * line)
        cuts = cut_strips(len(lines), line, budget, grain)
        return tuple((lines[cut.start : cut.stop], range(self.width)) for cut in cuts)

    def read(self, block: int, lines: range, columns: range) -> tuple[Piece, list[Op]]:
        """Return where a piece is, and the LOADs before it."""
        source = self._source
        if source.resident:
            view, loads = source.read(lines, self._index)
            first = view.at(view.rows.start, 0, block)
            return Piece(lines, columns, view.pitch, first, view.rows.start * view.pitch), loads
        # All of a channel block is one string of pixels in DRAM.
        pixels = source.some_blocks(range(block, block + 1)).flat()
        line, column = source.line, source.column
        start = lines.start * line + column + columns.start
        stop = (lines.stop - 1) * line + column + columns.stop
        start = max(0, min(start, stop - self._size))  # a weight tile is the least
        stop = max(stop, start + self._size)
        view, loads = pixels.read(range(start, stop), self._index)
        first = Region(view.buffer, view.row)
        return Piece(lines, columns, line, first, view.rows.start - column), loads

    def most_outputs(self, run: Run) -> int:
        """Return how many outputs of a run may have their columns in one piece; at least one."""
        if self.whole_lines:
            return len(run.outputs)
        return max(1, min(len(run.outputs), (self._longest - run.size) // run.step + 1))

    def together(self, runs: Sequence[Run], most: int) -> Iterator[tuple[Run, ...]]:
        """Yield runs that are computed while their columns are read once: at most so many outputs.

        Each of them has at most so many, and at most :meth:`most_outputs`.
        """
        group: tuple[Run, ...] = ()
        for run in runs:
            larger = (*group, run)
            fits = sum(len(each.outputs) for each in larger) <= most
            if group and not (fits and self._in_one_piece(larger)):
                yield group
                larger = (run,)
            group = larger
        yield group

    def _in_one_piece(self, runs: Sequence[Run]) -> bool:
        return self.whole_lines or len(self.columns(runs)) <= self._longest

    def columns(self, runs: Sequence[Run]) -> range:
        """Return the columns that runs read."""
        spans = [run.span for run in runs]
        return range(min(s.start for s in spans), max(s.stop for s in spans))
