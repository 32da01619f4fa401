"""Convolutions on the systolic array."""

from collections.abc import Iterator
from dataclasses import replace

from tpulite.arch.isa import RAW_ROWS, Axis, Drain, Opcode
from tpulite.compiler.ops import Op
from tpulite.compiler.tiling.context import Context
from tpulite.compiler.tiling.conv_cuts import ConvCuts
from tpulite.compiler.tiling.conv_weights import pack_passes, pack_records, string_weights
from tpulite.compiler.tiling.images import View
from tpulite.compiler.tiling.lowering import Lowering
from tpulite.compiler.tiling.window import Axis1D, needed_rows, read_window
from tpulite.graph.layers import Conv

__all__ = ["ConvLowering"]


class ConvLowering(Lowering[Conv]):
    """A convolution.

    Each strip is cut into the parts of single commands. Parts of all n-blocks are computed one
    after the other, so that the next layer can start on what is complete; if the weights are too
    many to stay, an n-block is finished first. If not even the image rows of one output row fit,
    or if strips would load too much, the image comes piece by piece, as each pass over the kernel
    reads it, and some n-blocks share each piece.
    """

    def __init__(self, layer: Conv, context: Context) -> None:
        super().__init__(layer, context)
        strings = self._source.spec and self._source.spec.strings
        self._strings = bool(strings)
        self._transposed = strings is not None and strings.transposed
        weight = layer.weight
        if self._strings:
            size = self._config.array_size
            weight = string_weights(layer, size, transposed=self._transposed)
        kh, kw = weight.shape[:2]
        order = slice(None, None, -1) if self._transposed else slice(None)
        stride, dilation = layer.stride[order], layer.dilation[order]
        padding = layer.padding[:2][order]
        source = self._source
        self._y = Axis1D(source.height, stride[0], dilation[0], kh, padding[0])
        left = self._pad_left(padding[1], stride[1])
        self._x = Axis1D(source.width, stride[1], dilation[1], kw, left)
        if self._strings:  # columns are bytes; padding before the first is in the string
            self._x = Axis1D(source.width, 1, 1, kw, 0)
        height, width = (self._target.height, self._target.width)[order]
        self._cuts = ConvCuts(
            layer, context, source, self._target, self._y, self._x, (height, width)
        )
        self._weights = [
            pack_passes(weight, n, passes, layer.weight_zero_point, context)
            for n, passes in enumerate(self._cuts.passes)
        ]
        self._drained, self._offsets = pack_records(layer, context)

    def strips(self) -> tuple[range, ...]:  # noqa: D102
        return self._cuts.strips()

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        view = None
        if not self._source.resident and not self._cuts.pieces:
            view, loads = self._source.read(needed_rows(self._y, rows), self._context.index)
            yield from loads
        if self._cuts.apart:
            yield from self._strip_by_blocks(rows, view, again=again)
        else:
            yield from self._strip(rows, view, again=again)

    def _strip(self, rows: range, view: View | None, *, again: bool) -> Iterator[Op]:
        index, blocks = self._context.index, range(len(self._weights))
        regions = self._cuts.regions(rows)
        parts = [(region, n) for region in regions for n in blocks]
        if not self._cuts.keep:
            parts = [(region, n) for n in blocks for region in regions]
        out = self._target.open(rows)
        loaded: set[int] = set()
        stored = rows.start // self._target.grain * self._target.grain
        last = {region[0]: number for number, (region, _) in enumerate(parts)}
        for number, ((out_rows, columns), n) in enumerate(parts):
            fresh = not self._cuts.keep and (self._cuts.heavy or (again and n not in loaded))
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
        """Yield the commands of some n-blocks after the others, with a place of their own."""
        whole, index = self._target, self._context.index
        stored = range(rows.start // whole.grain * whole.grain, rows.stop)
        regions = self._cuts.regions(rows)
        for blocks in self._cuts.blocks_at_once(regions):
            target, first = whole, 0
            if not whole.resident:
                target, first = whole.some_blocks(blocks), blocks.start
            out = target.open(rows)
            for number, region in enumerate(regions):
                fresh = not self._cuts.keep and (self._cuts.heavy or (again and number == 0))
                if self._cuts.pieces:
                    yield from self._by_pieces(out, region, blocks, first, again=fresh)
                    continue
                source = view
                if source is None:
                    source, loads = self._source.read(needed_rows(self._y, region[0]), index)
                    yield from loads
                for n in blocks:
                    yield from self._block(source, out, region, n, n - first, again=fresh)
            if not whole.resident:
                yield from target.store(out, stored, index)
        if whole.resident:
            yield from whole.store(whole.open(rows), stored, index)

    def _by_pieces(
        self, out: View, region: tuple[range, range], blocks: range, first: int, *, again: bool
    ) -> Iterator[Op]:
        """Compute n-blocks of a region; each pass over the kernel loads what it reads."""
        vectors, piece, read = len(region[0]) * len(region[1]), None, None
        for k, part in enumerate(self._cuts.passes[blocks.start]):
            if piece is None or read != (part.rows, part.blocks):
                y = replace(self._y, kernel=len(part.rows), start=part.rows.start)
                store = self._source.some_blocks(part.blocks)
                piece, loads = store.read(needed_rows(y, region[0]), self._context.index)
                yield from loads
                read = (part.rows, part.blocks)
            for number, n in enumerate(blocks):
                here = (piece, 0), (out, n - first)
                yield from self._pass(*here, region, n, k, number * vectors, again=again)

    def _block(
        self,
        source: View,
        out: View,
        region: tuple[range, range],
        n: int,
        out_block: int,
        *,
        again: bool,
    ) -> Iterator[Op]:
        """Compute an n-block of a region, which is block ``out_block`` of ``out``."""
        for k, part in enumerate(self._cuts.passes[n]):
            here = (source, part.blocks.start), (out, out_block)
            yield from self._pass(*here, region, n, k, 0, again=again)

    def _pass(
        self,
        source: tuple[View, int],
        target: tuple[View, int],
        region: tuple[range, range],
        n: int,
        k: int,
        acc_row: int,
        *,
        again: bool,
    ) -> Iterator[Op]:
        """Yield a pass over the kernel; views have a block where the pass or n-block begins."""
        part, (view, block), (out, out_block) = self._cuts.passes[n][k], source, target
        y = replace(self._y, kernel=len(part.rows), start=part.rows.start)
        x = replace(self._x, kernel=len(part.columns), start=part.columns.start)
        if self._offsets and k == 0:
            extents = len(region[0]), len(region[1])
            yield from self._offsets[n].ops(view, *extents, acc_row, again=again)
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
            "acc_row": acc_row,
            "accumulate": int(k > 0 or bool(self._offsets)),
            "drain": Drain.KEEP,
        }
        places = {"act_row": place, "weight_row": weights}
        if k == len(self._cuts.passes[n]) - 1:
            fields |= self._drained.fields()
            if self._drained.records:
                places["record_row"], loads = self._drained.records[n].use(again=again)
                yield from loads
            step = 1 if self._drained.records else RAW_ROWS
            if self._transposed:
                places["out_row"] = out.at(region[1].start, region[0].start, out_block, step=step)
                fields |= {"out_pitch": step, "out_step": out.pitch}
            else:
                places["out_row"] = out.at(region[0].start, region[1].start, out_block, step=step)
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
