"""Maxima over large windows on the vector path: those of parts, then the maximum of these."""

from collections.abc import Iterator

from tpulite.arch.isa import VectorOp
from tpulite.compiler.lower.lowering import LayerContext, vector_op
from tpulite.compiler.lower.pool.sums import read_input_tile
from tpulite.compiler.ops import Buffer, Op, Region, Side
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.pool_rows import maxima_of_row, window_parts
from tpulite.compiler.plan.pool_windows import InputTiles, Run


class WindowMaxima:
    """Maxima over windows of any size.

    Parameters
    ----------
    source : Store
        Where pixels come from.
    input tiles : InputTiles
        How windows are read.
    low, high : int
        Clamp of the result. Parts are clamped, too, which changes nothing.
    """

    def __init__(
        self, source: Store, input_tiles: InputTiles, context: LayerContext, low: int, high: int
    ) -> None:
        self._source, self._input_tiles, self._context = source, input_tiles, context
        self._clamp = {"low": low, "high": high}

    def row(self, lines: range, runs: list[Run], block: int, out: View, y: int) -> Iterator[Op]:
        """Yield the commands of one channel block of an output row: see :class:`WindowSums`."""
        context = self._context
        for group in maxima_of_row(self._input_tiles, lines, runs, context.free_rows):
            made = [
                _Maxima(context.name, slots, len(run.outputs), out.at(y, run.outputs.start, block))
                for run, slots in zip(group.runs, group.slots, strict=True)
            ]
            for number, cut in enumerate(group.input_tiles):
                input_tile, loads = read_input_tile(self._source, context, block, *cut)
                yield from loads
                for run, maxima in zip(group.runs, made, strict=True):
                    parts = window_parts(cut, input_tile.pitch, run)
                    for k, part in enumerate(parts):
                        last = number == len(group.input_tiles) - 1 and k == len(parts) - 1
                        fields = {
                            "window_rows": part.rows,
                            "window_columns": part.columns,
                            "window_pitch": part.pitch,
                            "a_step": run.step if len(run.outputs) > 1 else 0,
                        }
                        place = input_tile.at(input_tile.place(part.line, part.column))
                        yield self._max(run, fields, place, maxima.next(last=last))
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
