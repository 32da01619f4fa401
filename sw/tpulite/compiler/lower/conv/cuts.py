"""How a convolution is cut: passes over its kernel, strips and regions of its output."""

from dataclasses import replace
from itertools import pairwise

from tpulite.arch.isa import RAW_ROWS
from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.cut import cut_parts, cut_strips, split
from tpulite.compiler.geometry.passes import (
    Pass,
    Reach,
    cut_kernel,
    far_columns,
    most_of_axis,
    plan_pieces,
)
from tpulite.compiler.geometry.used_blocks import used_runs
from tpulite.compiler.lower.context import SMALLEST_SHARE, Context
from tpulite.compiler.place.stores import Store
from tpulite.graph.layers import Conv

__all__ = ["ConvCuts"]

_BOUND = (1, 2)
"""Loads that take more than this part of the matrix unit's time are worth fewer."""


class ConvCuts:
    """The cuts of a layer.

    Parameters
    ----------
    layer : Conv
        The layer.
    context : Context
        Its surroundings.
    source, target : Store
        The image that it reads, perhaps as strings of bytes, and the one that it computes.
    y, x : Axis1D
        Its geometry.
    extents : tuple of int
        Rows and columns of the output, as they are computed.

    Attributes
    ----------
    passes : tuple of tuple of Pass
        By n-block.
    keep : bool
        Whether weights stay for all strips.
    pieces : bool
        Whether each pass loads what it reads, because strips of the image do not fit, or because
        too many weights would come with each of them.
    heavy : bool
        Whether not even the weights of an n-block stay from region to region.
    apart : bool
        Whether n-blocks are computed one after the other, each with a place of its own.
    """

    def __init__(
        self,
        layer: Conv,
        context: Context,
        source: Store,
        target: Store,
        y: Axis1D,
        x: Axis1D,
        extents: tuple[int, int],
    ) -> None:
        self._layer, self._context, self._config = layer, context, context.config
        self._source, self._target = source, target
        self._y, self._kernel, (self._height, self._width) = y, (y.kernel, x.kernel), extents
        self._rows = most_of_axis(y, self._height, pitched=True)
        self._columns = Reach()
        if not source.strings:
            self._columns = most_of_axis(x, self._width, pitched=False)
            self._consider_far_columns(x)
        outputs = range(-(-layer.weight.shape[3] // self._config.array_size))
        # The first n-block starts when some of its weights are there.
        self.passes = tuple(self._cut_kernel(n, early=n == 0) for n in outputs)
        self._weights = sum(map(self._weight_rows, self.passes))
        keep = context.keep
        self.keep = self._weights <= self._config.ub_rows // 3 if keep is None else keep
        # Strips are larger if only the results of one n-block at a time are there.
        self.apart = keep is None and not self.keep and not target.resident
        self.pieces = False
        if not source.resident and keep is None:
            self._consider_pieces()
        most = self._most_rows * 3 // 4
        self.heavy = self.pieces or max(map(self._weight_rows, self.passes)) > most

    def _consider_far_columns(self, x: Axis1D) -> None:
        """Compute rows at once instead of columns, where that keeps the array busier."""
        far, size = far_columns(x, self._width), self._config.array_size
        resident = self._source.resident and self._target.resident
        at_once = len(cut_parts(range(self._height), 1, self._config)[0]) if resident else 1
        if far is not None and min(far.limited[1] - far.limited[0], size) > min(at_once, size):
            self._columns, self._rows = far, replace(self._rows, taps=1, most=1)

    @property
    def _most_rows(self) -> int:
        """Rows that the layer may have, whatever its share is while larger parts are tried."""
        share = self._context.share
        return int(self._context.free_rows / (share if share > SMALLEST_SHARE else 1.0))

    def _weight_rows(self, passes: tuple[Pass, ...]) -> int:
        tiles = sum(len(part.rows) * len(part.columns) * len(part.blocks) for part in passes)
        return tiles * self._config.array_size

    def _weights_at_once(self) -> int:
        if self.keep:
            return self._weights
        return 2 * max(self._weight_rows((part,)) for parts in self.passes for part in parts)

    def _cut_kernel(self, n: int, *, early: bool) -> tuple[Pass, ...]:
        size = self._config.array_size
        runs = [range(1)] if self._source.strings else used_runs(self._layer, size, n)
        return tuple(
            part
            for run in runs
            for part in cut_kernel(
                self._kernel,
                run,
                self._config.ub_rows // 8 // size,
                rows=self._rows,
                columns=self._columns,
                early=early and run == runs[0],
            )
        )

    def _consider_pieces(self) -> None:
        """Take the image by pieces if strips do not fit, or if they load too much.

        Weights that do not stay come with each strip, and so does the halo of a dilated kernel.
        Pieces load the image more often, but for regions as large as the accumulators.
        """
        fits = self._smallest_strip() <= self._most_rows
        strips = self.strips()
        loads = sum(self._rows_read(len(strip)) for strip in strips) * self._source.blocks
        loads += self._weights * (1 if self.keep else len(strips))
        part, whole = _BOUND
        cycles = self._weights // self._config.array_size * self._height * self._width
        if fits and (self._source.strings or loads * whole < cycles * part):
            return
        before = self._rows, self.passes, self.apart
        self.pieces = self.apart = True
        self._strip_rows, self._rows = self._plan_pieces()
        outputs = range(len(self.passes))
        self.passes = tuple(self._cut_kernel(n, early=False) for n in outputs)
        if fits and self._piece_loads() >= loads:
            self._rows, self.passes, self.apart = before
            self.pieces = False

    def _rows_read(self, outputs: int, taps: int | None = None) -> int:
        """Return the buffer's rows of the image rows, of one block, that outputs read."""
        taps = self._y.kernel if taps is None else taps
        height = (outputs - 1) * self._y.stride + (taps - 1) * self._y.dilation + 1
        source = self._source
        return min(height, source.height) * (source.rows // source.height // source.blocks)

    def _smallest_strip(self) -> int:
        """Return the rows that the smallest strip takes with the weights of two passes."""
        target, strip = self._target, min(self._target.grain, self._height)
        rows = self._rows_read(strip) * self._source.blocks
        if not target.resident:
            rows += strip * target.rows // target.height
        return rows + 2 * max(self._weight_rows(parts[-1:]) for parts in self.passes)

    def _piece_loads(self) -> int:
        """Return the rows that pieces and the weights with them load."""
        strips = self.strips()
        regions = self.regions(strips[0])
        read = 0
        for blocks in self.blocks_at_once(regions):
            pieces = {(part.rows, part.blocks) for part in self.passes[blocks.start]}
            for rows, _ in regions:
                read += sum(self._rows_read(len(rows), len(k)) * len(b) for k, b in pieces)
        weights = self._weights * (1 if self.keep else len(strips) * len(regions))
        return read * len(strips) + weights

    def _plan_pieces(self) -> tuple[int, Reach]:
        """Return rows of a strip, and passes of which two pieces fit beside what stays."""
        source, target = self._source, self._target
        room = max(1, self._context.free_rows - (self._weights if self.keep else 0))
        widest = max(map(len, self._columns.cut(range(self._width), self._config.acc_rows)))
        outputs = min(self._height, self._config.acc_rows // widest)
        if not target.resident:
            outputs = min(outputs, room // 8 // (target.rows // target.height // target.blocks))
        row_rows = source.rows // source.height // source.blocks
        return plan_pieces(self._y, self._rows, max(1, outputs), row_rows, room // 4)

    def strips(self) -> tuple[range, ...]:
        """Return output rows in parts that fit the buffer, as the layer alone is cut."""
        source, target = self._source, self._target
        if self.pieces:
            return cut_strips(self._height, 1, self._strip_rows, target.grain)
        if source.resident and target.resident:
            return (range(self._height),)
        per_row = 0
        if not source.resident:
            per_row += source.blocks * source.width * self._y.stride
        if not target.resident:
            blocks = min(2, target.blocks) if self.apart else target.blocks
            per_row += target.rows // target.height // target.blocks * blocks
        budget = self._context.strip_rows
        if not self.keep:  # each strip loads all weights again: as few strips as possible
            room = self._context.free_rows - self._weights_at_once()
            budget = max(budget, room * 3 // 4)
        if not source.resident:  # the halo
            reach = (self._y.kernel - 1) * self._y.dilation
            budget -= min(budget // 2, source.blocks * source.width * reach)
        return cut_strips(self._height, per_row, budget, target.grain)

    def regions(self, strip: range) -> list[tuple[range, range]]:
        """Return the rows and columns of a strip that single commands compute."""
        columns = self._columns.cut(range(self._width), self._config.acc_rows)
        widest = max(map(len, columns))
        grain = self._target.grain if self._target.spec else 1
        grain = min(grain, self._config.acc_rows // widest)
        parts = cut_parts(
            strip,
            widest,
            self._config,
            grain=grain,
            block_start=self._context.options.block_start,
        )
        most = self._strip_rows if self.pieces else len(strip)
        rows = [piece for part in parts for piece in self._rows.cut(part, most)]
        return [(r, c) for r in rows for c in columns]

    def blocks_at_once(self, regions: list[tuple[range, range]]) -> list[range]:
        """Return n-blocks that share the pieces of the image, as their sums fit."""
        every = range(len(self.passes))
        if not self.pieces:
            return [range(n, n + 1) for n in every]
        vectors = max(len(rows) * len(columns) for rows, columns in regions)
        most = self._config.acc_rows // vectors
        if not self._target.resident:
            step = RAW_ROWS if self._layer.requantization is None else 1
            most = min(most, self._context.free_rows // 8 // (vectors * step))
        same = [n for n in every if n == 0 or self.passes[n] != self.passes[n - 1]]
        runs = [range(a, b) for a, b in pairwise([*same, len(every)])]
        return [
            run[piece.start : piece.stop]
            for run in runs
            for piece in split(len(run), -(-len(run) // max(1, most)), 1)
        ]
