"""Rows of outputs whose windows are read by tiles: sums, and maxima of parts."""

from dataclasses import dataclass
from itertools import product
from math import inf
from typing import NamedTuple

from tpulite.arch.config import Config
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.plan.conv_cost import CONV_CYCLES
from tpulite.compiler.plan.pool_windows import LARGEST_WINDOW, InputTiles, Run, columns_of

_SHARE = 8
"""Maxima of parts take at most this part of the free rows."""

_FEWEST = 4
"""Maxima of parts that there is room for at a time, if an output row is not too long."""

TileRanges = tuple[range, range]
"""Lines and columns."""


@dataclass(frozen=True)
class Together:
    """Runs that are computed while input tiles are read one after the other."""

    runs: tuple[Run, ...]  #: The outputs.
    input_tiles: tuple[TileRanges, ...]  #: Lines and columns of each input tile.
    #: For maxima: how many of parts there is room for, by run; at least two.
    slots: tuple[int, ...] = ()


class Part(NamedTuple):
    """Part of a window: its first line and column, rows, columns, and places from row to row."""

    line: int
    column: int
    rows: int
    columns: int
    pitch: int


def sums_of_row(
    input_tiles: InputTiles, lines: range, runs: list[Run], config: Config
) -> tuple[Together, ...]:
    """Return how an output row of sums is computed, in the fewest cycles."""
    short = [part for run in runs for part in _sum_parts(input_tiles, run, config)]
    return tuple(
        Together(group, input_tiles.cut(lines, columns_of(group)))
        for group in input_tiles.together(short, config.acc_rows)
    )


def lines_at_once(input_tiles: InputTiles, run: Run) -> bool:
    """Return whether lines are multiplied together, if an input tile has whole ones."""
    one_by_one, together = _line_cycles(input_tiles, run)
    return together <= one_by_one


def _sum_parts(input_tiles: InputTiles, run: Run, config: Config) -> list[Run]:
    count = len(run.outputs)

    def cycles(outputs: int) -> float:
        return -(-count // outputs) * min(_line_cycles(input_tiles, run.part(range(outputs))))

    most = min(input_tiles.most_outputs(run), config.array_size, config.acc_rows)
    best = min(range(1, most + 1), key=cycles)
    return [run.part(part) for part in split(count, -(-count // best), 1)]


def _line_cycles(input_tiles: InputTiles, run: Run) -> tuple[float, float]:
    """Return the cycles of an input line, if lines come one by one, and together.

    Lines together also have what no window covers, but none is rounded up to tiles. One way is
    always possible; the other one only if its masks do not take too much room.
    """
    outputs, size = len(run.outputs), input_tiles.size
    lines = max(1, input_tiles.budget // input_tiles.width)
    ways = []
    for pixels, each in ((len(run.span), 1), (lines * input_tiles.width, lines)):
        full, rest = divmod(pixels, size)
        tiles, commands = full + (rest > 0), (full > 0) + (rest > 0)
        fits = outputs == 1 or tiles * outputs <= input_tiles.budget // 2
        cycles = (tiles * size + commands * CONV_CYCLES) / each
        ways.append(cycles if fits else inf)
    return ways[0], ways[1] if input_tiles.gapless else inf


def maxima_of_row(
    input_tiles: InputTiles, lines: range, runs: list[Run], free_rows: int
) -> tuple[Together, ...]:
    """Return how an output row of maxima is computed."""
    room = free_rows // _SHARE
    most = max(1, room // _FEWEST)
    short = []
    for run in runs:
        outputs = len(run.outputs)
        parts = -(-outputs // min(most, input_tiles.most_outputs(run)))
        short += [run.part(part) for part in split(outputs, parts, 1)]
    found = []
    for group in input_tiles.together(short, most):
        cuts = input_tiles.cut(lines, columns_of(group))
        each = room // sum(len(run.outputs) for run in group)
        slots = (min(each, LARGEST_WINDOW, _most_parts(run, cuts)) for run in group)
        found.append(Together(group, cuts, tuple(max(2, slot) for slot in slots)))
    return tuple(found)


def _most_parts(run: Run, input_tiles: tuple[TileRanges, ...]) -> int:
    return sum(
        len(_cut(len(lines))) * len(_cut(min(run.size, len(columns))))
        for lines, columns in input_tiles
    )


def window_parts(input_tile: TileRanges, pitch: int, run: Run) -> list[Part]:
    """Return parts of windows that cover what an input tile has of them.

    Parameters
    ----------
    input tile : (range, range)
        Lines and columns.
    pitch : int
        Rows of the buffer from line to line.
    run : Run
        The windows' columns.
    """
    lines = input_tile[0]
    columns = range(
        max(run.span.start, input_tile[1].start), min(run.span.stop, input_tile[1].stop)
    )
    if len(run.outputs) == 1 and len(columns) in (pitch, len(columns) * len(lines)):
        return [Part(lines.start, columns.start, *_fold(len(columns) * len(lines)))]
    size = min(run.size, len(columns))
    return [
        Part(lines.start + y.start, columns.start + x.start, len(y), len(x), pitch)
        for y, x in product(_cut(len(lines)), _cut(size))
    ]


def _cut(extent: int) -> tuple[range, ...]:
    return split(extent, -(-extent // LARGEST_WINDOW), 1)


def _fold(count: int) -> tuple[int, int, int]:
    """Return rows, columns and pitch of a window that covers so many pixels in a run.

    Its rows may overlap, as few pixels as possible: a maximum does not mind.

    Examples
    --------
    >>> _fold(200), _fold(1000), _fold(1021)
    ((1, 200, 200), (4, 250, 250), (5, 205, 204))
    """
    least = -(-count // LARGEST_WINDOW)
    shapes = [
        (rows, count - (rows - 1) * (count // rows), count // rows)
        for rows in range(least, min(2 * least, LARGEST_WINDOW) + 1)
    ]
    return min((s for s in shapes if s[1] <= LARGEST_WINDOW), key=lambda s: s[0] * s[1])
