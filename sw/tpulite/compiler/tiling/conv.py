"""Convolutions on the systolic array."""

from collections.abc import Iterator
from dataclasses import replace

from tpulite.arch.isa import RAW_ROWS, Axis, Drain, Opcode
from tpulite.compiler.ops import Op
from tpulite.compiler.tiling.context import Context
from tpulite.compiler.tiling.conv_weights import pack_passes, pack_records, string_weights
from tpulite.compiler.tiling.cut import cut_parts, cut_strips
from tpulite.compiler.tiling.images import View
from tpulite.compiler.tiling.lowering import Lowering
from tpulite.compiler.tiling.passes import Pass, Reach, cut_kernel, most_of_axis, plan_pieces
from tpulite.compiler.tiling.used_blocks import used_runs
from tpulite.compiler.tiling.window import Axis1D, needed_rows, read_window
from tpulite.graph.layers import Conv

__all__ = ["ConvLowering"]

_LAST_SHARE = 0.1
"""With a smaller share, everything is tried that needs fewer rows."""


class ConvLowering(Lowering[Conv]):
    """A convolution.

    Each strip is cut into the parts of single commands. Parts of all n-blocks are computed one
    after the other, so that the next layer can start on what is complete; if the weights are too
    many to stay, an n-block is finished first. If not even the image rows of one output row fit,
    they come piece by piece, as each pass over the kernel reads them.
    """

    def __init__(self, layer: Conv, context: Context) -> None:
        super().__init__(layer, context)
        strings = self._source.spec and self._source.spec.strings
        self._strings = bool(strings)
        self._transposed = strings is not None and strings.transposed
        self._weight, size = layer.weight, self._config.array_size
        if self._strings:
            self._weight = string_weights(layer, size, transposed=self._transposed)
        kh, kw = self._weight.shape[:2]
        order = slice(None, None, -1) if self._transposed else slice(None)
        stride, dilation = layer.stride[order], layer.dilation[order]
        padding = layer.padding[:2][order]
        source = self._source
        self._y = Axis1D(source.height, stride[0], dilation[0], kh, padding[0])
        left = self._pad_left(padding[1], stride[1])
        self._x = Axis1D(source.width, stride[1], dilation[1], kw, left)
        if self._strings:  # columns are bytes; padding before the first is in the string
            self._x = Axis1D(source.width, 1, 1, kw, 0)
        target = (self._target.height, self._target.width)[order]
        self._height, self._width = target
        outputs = range(-(-layer.weight.shape[3] // size))
        self._reach = (
            most_of_axis(self._y, self._height, pitched=True),
            Reach() if self._strings else most_of_axis(self._x, self._width, pitched=False),
        )
        # The first n-block starts when some of its weights are there.
        self._passes = tuple(self._cut_kernel(n, early=n == 0) for n in outputs)
        rows = sum(self._rows(part) for parts in self._passes for part in parts)
        self._keep = context.keep
        if self._keep is None:
            self._keep = rows <= self._config.ub_rows // 3
        self._pieces = self._needs_pieces()
        if self._pieces:
            self._strip_rows, rows_reach = self._plan_pieces(rows if self._keep else 0)
            self._reach = rows_reach, self._reach[1]
            self._passes = tuple(self._cut_kernel(n, early=False) for n in outputs)
        largest = max(self._rows(part) for parts in self._passes for part in parts)
        self._weights_at_once = rows if self._keep else 2 * largest
        # Weights that take so much room are loaded again for each region.
        block = max(sum(self._rows(part) for part in parts) for parts in self._passes)
        self._heavy = self._pieces or block > self._most_rows * 3 // 4
        # Weights that do not stay are loaded for each strip. Strips are larger if only the results
        # of one n-block at a time are there.
        one = context.keep is None and not self._keep and not self._target.resident
        self._apart = self._pieces or one
        self._weights = [
            pack_passes(self._weight, n, self._passes[n], layer.weight_zero_point, context)
            for n in outputs
        ]
        self._drained, self._offsets = pack_records(layer, context)

    @property
    def _most_rows(self) -> int:
        """Rows that the layer may have, whatever its share is while larger parts are tried."""
        context = self._context
        share = context.share if context.share > _LAST_SHARE else 1.0
        return int(context.free_rows / share)

    def _rows(self, part: Pass) -> int:
        """Return rows of weights."""
        taps = len(part.rows) * len(part.columns)
        return taps * len(part.blocks) * self._config.array_size

    def _cut_kernel(self, n: int, *, early: bool) -> tuple[Pass, ...]:
        size = self._config.array_size
        runs = [range(1)] if self._strings else used_runs(self._layer, size, n)
        rows, columns = self._reach
        return tuple(
            part
            for run in runs
            for part in cut_kernel(
                self._weight.shape[:2],
                run,
                self._config.ub_rows // 8 // size,
                rows=rows,
                columns=columns,
                early=early and run == runs[0],
            )
        )

    def _needs_pieces(self) -> bool:
        """Whether the image rows that the smallest strip reads do not fit beside its weights."""
        source, target = self._source, self._target
        if source.resident or self._context.keep is not None:
            return False
        strip = range(min(target.grain, self._height))
        reach = (len(strip) - 1) * self._y.stride + (self._y.kernel - 1) * self._y.dilation + 1
        needed = min(reach, source.height) * source.rows // source.height
        if not target.resident:
            needed += len(strip) * target.rows // target.height
        weights = 2 * max(self._rows(part) for parts in self._passes for part in parts[-1:])
        return needed + weights > self._most_rows

    def _plan_pieces(self, kept: int) -> tuple[int, Reach]:
        """Return rows of a strip, and passes of which two pieces fit beside what stays."""
        source, target = self._source, self._target
        room = max(1, self._context.free_rows - kept)
        widest = max(map(len, self._reach[1].cut(range(self._width), self._config.acc_rows)))
        outputs = min(self._height, self._config.acc_rows // widest)
        if not target.resident:
            per_row = target.rows // target.height // target.blocks
            outputs = min(outputs, room // 8 // per_row)
        row_rows = source.rows // source.height // source.blocks
        return plan_pieces(self._y, self._reach[0], max(1, outputs), row_rows, room // 4)

    def strips(self) -> tuple[range, ...]:  # noqa: D102
        source, target = self._source, self._target
        if self._pieces:
            return cut_strips(self._height, 1, self._strip_rows, target.grain)
        if source.resident and target.resident:
            return (range(self._height),)
        per_row = 0
        if not source.resident:
            per_row += source.blocks * source.width * self._y.stride
        if not target.resident:
            blocks = min(2, target.blocks) if self._apart else target.blocks
            per_row += target.rows // target.height // target.blocks * blocks
        budget = self._context.strip_rows
        if not self._keep:  # each strip loads all weights again: as few strips as possible
            budget = max(budget, (self._context.free_rows - self._weights_at_once) * 3 // 4)
        if not source.resident:  # the halo
            reach = (self._y.kernel - 1) * self._y.dilation
            budget -= min(budget // 2, source.blocks * source.width * reach)
        return cut_strips(self._height, per_row, budget, target.grain)

    def _regions(self, strip: range) -> list[tuple[range, range]]:
        columns = self._reach[1].cut(range(self._width), self._config.acc_rows)
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
        most = self._strip_rows if self._pieces else len(strip)
        rows = [piece for part in parts for piece in self._reach[0].cut(part, most)]
        return [(r, c) for r in rows for c in columns]

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        view = None
        if not self._source.resident and not self._pieces:
            view, loads = self._source.read(needed_rows(self._y, rows), self._context.index)
            yield from loads
        if self._apart:
            yield from self._strip_by_blocks(rows, view, again=again)
        else:
            yield from self._strip(rows, view, again=again)

    def _strip(self, rows: range, view: View | None, *, again: bool) -> Iterator[Op]:
        index, blocks = self._context.index, range(len(self._weights))
        regions = self._regions(rows)
        parts = [(region, n) for region in regions for n in blocks]
        if not self._keep:
            parts = [(region, n) for n in blocks for region in regions]
        out = self._target.open(rows)
        loaded: set[int] = set()
        stored = rows.start // self._target.grain * self._target.grain
        last = {region[0]: number for number, (region, _) in enumerate(parts)}
        for number, ((out_rows, columns), n) in enumerate(parts):
            fresh = not self._keep and (self._heavy or (again and n not in loaded))
            loaded.add(n)
            source = view
            if source is None:
                source, loads = self._source.read(needed_rows(self._y, out_rows), index)
                yield from loads
            yield from self._block(source, out, (out_rows, columns), n, n, again=fresh)
            complete = out_rows.stop // self._target.grain * self._target.grain
            if out_rows.stop == rows.stop:
                complete = rows.stop
            if last[out_rows] == number and complete > stored:
                yield from self._target.store(out, range(stored, complete), index)
                stored = complete

    def _strip_by_blocks(self, rows: range, view: View | None, *, again: bool) -> Iterator[Op]:
        """Yield the commands of one n-block after the other, each with a place of its own."""
        whole, index = self._target, self._context.index
        stored = range(rows.start // whole.grain * whole.grain, rows.stop)
        regions = self._regions(rows)
        for n in range(len(self._weights)):
            target, block = whole, n
            if not whole.resident:
                target, block = whole.some_blocks(range(n, n + 1)), 0
            out = target.open(rows)
            for number, region in enumerate(regions):
                source = view
                if self._source.resident:
                    source, loads = self._source.read(needed_rows(self._y, region[0]), index)
                    yield from loads
                fresh = not self._keep and (self._heavy or (again and number == 0))
                yield from self._block(source, out, region, n, block, again=fresh)
            if not whole.resident:
                yield from target.store(out, stored, index)
        if whole.resident:
            yield from whole.store(whole.open(rows), stored, index)

    def _block(
        self,
        source: View | None,
        out: View,
        region: tuple[range, range],
        n: int,
        out_block: int,
        *,
        again: bool,
    ) -> Iterator[Op]:
        """Compute an n-block of a region, which is block ``out_block`` of ``out``, pass by pass.

        Without ``source``, the passes load what they read.
        """
        piece = None
        for k, part in enumerate(self._passes[n]):
            y = replace(self._y, kernel=len(part.rows), start=part.rows.start)
            x = replace(self._x, kernel=len(part.columns), start=part.columns.start)
            view, block = source, part.blocks.start
            if view is None:
                if piece is None or piece[:2] != (part.rows, part.blocks):
                    rows = needed_rows(y, region[0])
                    store = self._source.some_blocks(part.blocks)
                    view, loads = store.read(rows, self._context.index)
                    yield from loads
                    piece = (part.rows, part.blocks, view)
                view, block = piece[2], 0
            if self._offsets and k == 0:
                yield from self._offsets[n].ops(view, *map(len, region), again=again)
            weights, loads = self._weights[n][k].use(again=again)
            yield from loads
            if self._strings:
                fields, place = self._string_window(view, y, x, region)
            else:
                fields, place = read_window(view, y, x, region, block)
            fields |= {
                "rows": len(region[0]),
                "columns": len(region[1]),
                "inner": Axis.X,
                "blocks": len(part.blocks),
                "pad": self._layer.input_zero_point,
                "weight_zero_point": self._layer.weight_zero_point,
                "accumulate": int(k > 0 or bool(self._offsets)),
                "drain": Drain.KEEP,
            }
            places = {"act_row": place, "weight_row": weights}
            if k == len(self._passes[n]) - 1:
                fields |= self._drained.fields()
                if self._drained.records:
                    places["record_row"], loads = self._drained.records[n].use(again=again)
                    yield from loads
                step = 1 if self._drained.records else RAW_ROWS
                if self._transposed:
                    places["out_row"] = out.at(
                        region[1].start, region[0].start, out_block, step=step
                    )
                    fields |= {"out_pitch": step, "out_step": out.pitch}
                else:
                    places["out_row"] = out.at(
                        region[0].start, region[1].start, out_block, step=step
                    )
                    fields |= {"out_pitch": out.pitch, "out_step": step}
            yield Op(Opcode.CONV, self._context.index, fields, places)

    def _string_window(self, source: View, y: Axis1D, x: Axis1D, region: tuple[range, range]):
        """Return fields and place of a region that reads strings."""
        order = slice(None, None, -1) if self._transposed else slice(None)
        step = self._layer.stride[order][1] * self._layer.weight.shape[2]
        start = region[1].start * step
        size = self._config.array_size
        if start % size:
            raise ValueError(f"Columns of strings must begin at a vector, not at byte {start}")
        last = (region[1].stop - 1) * step // size + 1  # always two vectors are read
        vectors = (region[0], range(start // size, last + 1))
        fields, place = read_window(source, y, x, vectors, 0)
        return fields | {"byte_step": step}, place
