"""Windows of pooling: runs of those that are alike, and how large ones are read by tiles."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tpulite.arch.isa import VECTOR
from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.cut import WINDOW_ROOM, cut_strips, split
from tpulite.compiler.geometry.slices import column_grain
from tpulite.compiler.plan.space import Placed, Space

MOST_VECTORS = VECTOR.limit("columns")
"""Most rows, and most columns, of a VECTOR."""

LARGEST_WINDOW = VECTOR.limit("window_rows")
"""Largest window of a VECTOR, along each axis."""

_SHARE = 8
"""An input tile takes this part of the free rows: one is computed while the next are loaded. With
room for three only, each LOAD would wait for the end of a product."""

_LARGEST = 1024
"""Rows of an input tile, at most: nothing is computed while the first one is loaded."""


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
    """Return outputs as runs, as long as commands allow; clipped windows are alone.

    Raises
    ------
    ValueError
        If a window lies in the padding altogether.
    """
    first = max(-(-axis.before // axis.stride), outputs.start)
    stop = min((axis.size + axis.before - axis.kernel) // axis.stride + 1, outputs.stop)
    if stop <= first:
        first = stop = outputs.stop
    whole = [range(i, min(i + MOST_VECTORS, stop)) for i in range(first, stop, MOST_VECTORS)]
    alone = [range(i, i + 1) for i in outputs]
    inside = slice(first - outputs.start, stop - outputs.start)
    alone[inside] = whole
    runs = []
    for each in alone:
        span = axis.span(each[:1])
        if not span:
            raise ValueError("A window must cover a position of each axis, not padding alone")
        runs.append(Run(each, span.start, len(span), axis.stride))
    return runs


def in_tiles(y: Axis1D, x: Axis1D, source: Placed, target: Placed, space: Space) -> bool:
    """Return whether windows are too large for a command, or for the room that there is.

    As a rule there must be room for all columns. But an activation may also be cut into columns,
    which is as good if there is room for the next ones while some are computed.
    """
    rows, columns = (
        max(run.size for run in find_runs(axis, range(extent)))
        for axis, extent in ((y, target.height), (x, target.width))
    )
    if max(rows, columns) > LARGEST_WINDOW:
        return True
    if source.resident:
        return False
    # The form does not depend on how small the parts are that are tried.
    room = int(space.free_rows / space.share) * WINDOW_ROOM[0] // WINDOW_ROOM[1]
    strips = split(target.height, target.height, target.grain)
    lines = max(len(y.needed(strip)) for strip in strips)
    if lines * source.width <= room:
        return False
    grain = column_grain(space.config)
    end = source.width - max(0, x.origin((target.width - 1) // grain * grain))
    # The last columns of the output have all columns of the input that are left.
    narrow = max((grain - 1) * x.stride + columns, end)
    return max(2 * rows * columns, lines * min(source.width, narrow)) > room


@dataclass(frozen=True)
class InputTiles:
    """How windows are read by tiles, each of one channel block.

    In DRAM input tiles are whole lines. If a line is too long, an input tile has those columns of
    one line that some outputs read; if even a single output reads too many, part of them.
    """

    size: int  #: Rows of a weight tile: the least that is loaded.
    budget: int  #: Rows of an input tile, unless a single line on chip has more.
    #: Columns that are here, and vectors in a row in DRAM.
    width: int
    line: int
    resident: bool  #: Whether nothing is loaded.

    @classmethod
    def of(cls, source: Placed, space: Space) -> "InputTiles":
        """Return how windows over an activation are read."""
        size = space.config.array_size
        budget = max(2 * size, min(space.free_rows // _SHARE, _LARGEST))
        return cls(size, budget, source.width, source.line, source.resident)

    @property
    def whole_lines(self) -> bool:
        """Whether input tiles are whole lines."""
        return self.resident or self.line <= self.budget

    @property
    def gapless(self) -> bool:
        """Whether lines follow each other without columns that are not here."""
        return self.width == self.line

    @property
    def _longest(self) -> int:
        return self.budget // self.size * self.size

    def cut(self, lines: range, columns: range) -> tuple[tuple[range, range], ...]:
        """Return lines and columns of all; what is not whole lines ends at weight tiles."""
        if not self.whole_lines:
            cuts = cut_strips(len(columns), 1, self._longest, self.size)
            return tuple(
                (range(line, line + 1), columns[cut.start : cut.stop])
                for line in lines
                for cut in cuts
            )
        line = self.width if self.resident else self.line
        grain = self.size // gcd(self.size, line)
        if grain * line > self.budget:
            grain = 1
        # No input tile has less than a weight tile.
        budget = max(self.budget, 2 * -(-self.size // line) * line)
        cuts = cut_strips(len(lines), line, budget, grain)
        return tuple((lines[cut.start : cut.stop], range(self.width)) for cut in cuts)

    def most_outputs(self, run: Run) -> int:
        """Return how many outputs of a run may have their columns in one tile; at least one."""
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
            if group and not (fits and self._in_one_tile(larger)):
                yield group
                larger = (run,)
            group = larger
        yield group

    def _in_one_tile(self, runs: Sequence[Run]) -> bool:
        return self.whole_lines or len(columns_of(runs)) <= self._longest


def columns_of(runs: Sequence[Run]) -> range:
    """Return the columns that runs read."""
    spans = [run.span for run in runs]
    return range(min(s.start for s in spans), max(s.stop for s in spans))
