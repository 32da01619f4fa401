"""Maxima over large windows on the vector path: those of parts, then the maximum of these."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tpulite.arch.isa import VECTOR, VectorOp
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.lower.context import Context
from tpulite.compiler.lower.pool.windows import Piece, PieceReader, Run
from tpulite.compiler.lower.vector_commands import vector_op
from tpulite.compiler.ops import Buffer, Op, Region, Side
from tpulite.compiler.place.stores import View

__all__ = ["LARGEST_WINDOW", "WindowMaxima"]

LARGEST_WINDOW = VECTOR.limit("window_rows")
"""Largest window of a command, along each axis."""

_SHARE = 8
"""Maxima of parts take at most this part of the free rows."""

_FEWEST = 4
"""Maxima of parts that there is room for at a time, if an output row is not too long."""


class _Part(NamedTuple):
    """Part of a window: its place in a piece, rows, columns, and places from row to row."""

    place: int
    rows: int
    columns: int
    pitch: int


class WindowMaxima:
    """Maxima over windows of any size.

    Parameters
    ----------
    reader : PieceReader
        Where pixels come from.
    context : Context
        The layer.
    low, high : int
        Clamp of the result. Parts are clamped, too, which changes nothing.
    """

    def __init__(self, reader: PieceReader, context: Context, low: int, high: int) -> None:
        self._reader, self._context = reader, context
        self._clamp = {"low": low, "high": high}
        self._room = context.free_rows // _SHARE

    def row(self, lines: range, runs: list[Run], block: int, out: View, y: int) -> Iterator[Op]:
        """Yield the commands of one channel block of an output row: see :class:`WindowSums`."""
        reader, most = self._reader, max(1, self._room // _FEWEST)
        short = []
        for run in runs:
            outputs = len(run.outputs)
            parts = -(-outputs // min(most, reader.most_outputs(run)))
            short += [run.part(part) for part in split(outputs, parts, 1)]
        for group in reader.together(short, most):
            cuts = reader.cut(lines, reader.columns(group))
            room = self._room // sum(len(run.outputs) for run in group)
            made = []
            for run in group:
                slots = min(room, LARGEST_WINDOW, sum(_most_parts(run, *cut) for cut in cuts))
                place = out.at(y, run.outputs.start, block)
                made.append(_Maxima(self._context.name, max(2, slots), len(run.outputs), place))
            for number, cut in enumerate(cuts):
                piece, loads = reader.read(block, *cut)
                yield from loads
                for run, maxima in zip(group, made, strict=True):
                    parts = _parts(piece, run)
                    for k, part in enumerate(parts):
                        last = number == len(cuts) - 1 and k == len(parts) - 1
                        fields = {
                            "window_rows": part.rows,
                            "window_columns": part.columns,
                            "window_pitch": part.pitch,
                            "a_step": run.step if len(run.outputs) > 1 else 0,
                        }
                        yield self._max(run, fields, piece.at(part.place), maxima.next(last=last))
                        yield from self._combine(run, maxima, last=last)

    def _combine(self, run: Run, maxima: "_Maxima", *, last: bool) -> Iterator[Op]:
        """Yield the maximum of what is there, if no more comes or there is no room for it."""
        if (full := maxima.full(last=last)) is not None:
            rows, a_row, out_row = full
            fields = {"window_rows": rows, "window_pitch": len(run.outputs), "a_step": 1}
            yield self._max(run, fields, a_row, out_row)

    def _max(self, run: Run, fields: dict[str, int], a_row: Region, out_row: Region) -> Op:
        fields = {"rows": 1, "columns": len(run.outputs), "out_step": 1, **fields, **self._clamp}
        places = {"a_row": a_row, "out_row": out_row}
        return vector_op(self._context, VectorOp.MAX, fields, places)


class _Maxima:
    """Maxima of parts of the windows of some outputs, in the order in which they are made.

    Parameters
    ----------
    name : str
        Name of the layer, for error messages.
    slots : int
        How many there is room for at a time; at least two.
    outputs : int
        Outputs.
    out : Region
        Where the result goes.
    """

    def __init__(self, name: str, slots: int, outputs: int, out: Region) -> None:
        self._name, self._slots, self._outputs, self._out = name, slots, outputs, out
        self._buffer = self._make()
        self._used = 0

    def next(self, *, last: bool) -> Region:
        """Return where the next maxima go; if they are the only ones, they are the result."""
        if last and not self._used:
            return self._out
        self._used += 1
        return Region(self._buffer, (self._used - 1) * self._outputs)

    def full(self, *, last: bool) -> tuple[int, Region, Region] | None:
        """Return how many must be combined now, where they are, and where their maximum goes."""
        if not self._used or (self._used < self._slots and not last):
            return None
        used, there = self._used, Region(self._buffer)
        if last:
            return used, there, self._out
        self._buffer, self._used = self._make(), 1
        return used, there, Region(self._buffer)

    def _make(self) -> Buffer:
        rows = self._slots * self._outputs
        return Buffer(f"maxima of parts of {self._name}", rows, bank=0, side=Side.TOP)


def _parts(piece: Piece, run: Run) -> list[_Part]:
    """Return parts of windows that cover what a piece has of them."""
    columns = range(
        max(run.span.start, piece.columns.start), min(run.span.stop, piece.columns.stop)
    )
    place = piece.place(piece.lines.start, columns.start)
    if len(run.outputs) == 1 and len(columns) in (piece.pitch, len(columns) * len(piece.lines)):
        return [_Part(place, *_fold(len(columns) * len(piece.lines)))]
    size = min(run.size, len(columns))
    return [
        _Part(place + y.start * piece.pitch + x.start, len(y), len(x), piece.pitch)
        for y, x in product(_cut(len(piece.lines)), _cut(size))
    ]


def _most_parts(run: Run, lines: range, columns: range) -> int:
    return len(_cut(len(lines))) * len(_cut(min(run.size, len(columns))))


def _cut(extent: int) -> tuple[range, ...]:
    return split(extent, -(-extent // LARGEST_WINDOW), 1)


def _fold(count: int) -> tuple[int, int, int]:
    """Return rows, columns and pitch of a window that covers so many pixels in a string.

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
