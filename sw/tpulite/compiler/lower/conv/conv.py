"""Convolutions on the systolic array."""

from collections.abc import Iterator

from tpulite.compiler.geometry.cut import SMALLEST_PART, halves
from tpulite.compiler.lower.conv.commands import ConvCommands
from tpulite.compiler.lower.lowering import LayerContext, Lowering
from tpulite.compiler.ops import Op
from tpulite.compiler.place.views import View
from tpulite.compiler.place.weights import layer_records, packed_row_weights, tile_weights
from tpulite.compiler.plan.strips import StripPlan
from tpulite.graph.layers import Conv, Made


class ConvLowering(Lowering[Conv, StripPlan]):
    """A convolution.

    Each strip is cut into the parts of single commands. Parts of all n-blocks are computed one
    after the other, so that the next layer can start on what is complete; if the weights are too
    many to stay, an n-block is finished first. If not even the image rows of one output row fit,
    or if strips would load too much, the image comes tile by tile, as each pass over the kernel
    reads it, and some n-blocks share each tile.
    """

    def __init__(self, layer: Conv, context: LayerContext, plan: StripPlan) -> None:
        super().__init__(layer, context, plan)
        weight, packed, size = layer.weight, self._source.placed.packed, self._config.array_size
        if packed is not None:
            weight = packed_row_weights(layer, size, transposed=packed.transposed)
        zero_point, bank = layer.weight_zero_point, self._config.ub_banks // 2
        tiles = tile_weights(weight, size, zero_point, int4=plan.facts.int4)
        self._commands = ConvCommands(layer, context, self._source, plan.facts)
        self._y = self._commands.y
        self._weights = [
            [context.constant("weights", part.of(tiles[n]), bank=bank) for part in passes]
            for n, passes in enumerate(plan.passes)
        ]
        _, records = layer_records(layer, self._config)
        self._records = [context.constant("records", rows) for rows in records]

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        view = None
        if not self._source.resident and not self._plan.by_tiles:
            view, loads = self._source.read(self._y.needed(rows), self._context.index)
            yield from loads
        if self._plan.per_block:
            yield from self._strip_by_blocks(rows, view, again=again)
        else:
            yield from self._strip(rows, view, again=again)

    def _strip(self, rows: range, view: View | None, *, again: bool) -> Iterator[Op]:
        index, blocks = self._context.index, range(len(self._weights))
        regions = self._plan.regions.cut(rows)
        parts = [(region, n) for region in regions for n in blocks]
        if not self._plan.keep:
            parts = [(region, n) for n in blocks for region in regions]
        # Rows that are stored leave part by part.
        apart = self._plan.keep and not self._target.resident and self._target.grain == 1
        out = None
        loaded: set[int] = set()
        stored = rows.start // self._target.grain * self._target.grain
        last = {region[0]: number for number, (region, _) in enumerate(parts)}
        ending = self._ending(rows, regions)
        for number, ((out_rows, columns), n) in enumerate(parts):
            fresh = not self._plan.keep and (self._plan.per_region or (again and n not in loaded))
            loaded.add(n)
            source = view
            if number == 0 and self._source.made is Made.BY_BLOCKS and not fresh:
                for weights in self._weights[n]:  # the last channel block comes late
                    yield from weights.use()[1]
            if source is None:
                source, loads = self._source.read(self._y.needed(out_rows), index)
                yield from loads
            if out is None or (apart and out.rows != out_rows):
                out = self._target.open(out_rows if apart else rows)
            yield from self._block(source, out, (out_rows, columns), n, n, again=fresh)
            complete = out_rows.stop // self._target.grain * self._target.grain
            if out_rows.stop == rows.stop:
                complete = rows.stop
            if ending and out_rows == regions[-1][0]:
                if (run := ending.get(n)) is not None:
                    some = self._target.some_blocks(run)
                    yield from some.store(out.behind(run.start), range(stored, complete), index)
            elif last[out_rows] == number and complete > stored:
                yield from self._target.store(out, range(stored, complete), index)
                stored = complete

    def _ending(self, rows: range, regions: list[tuple[range, range]]) -> dict[int, range]:
        """Return runs of n-blocks by their last one, if those of the last region go to DRAM so.

        What comes behind the layer waits for the last of its STOREs, which is a small one then.
        """
        target, vectors = self._target, len(regions[-1][0]) * self._target.width
        last = rows.stop == target.height and len(self._plan.regions.columns) == 1
        if not (last and target.stored and self._plan.keep) or vectors < SMALLEST_PART // 2:
            return {}
        return {run[-1]: run for run in halves(len(self._weights))}

    def _strip_by_blocks(self, rows: range, view: View | None, *, again: bool) -> Iterator[Op]:
        """Yield the commands of some n-blocks after the others, with a place of their own."""
        whole, index = self._target, self._context.index
        stored = range(rows.start // whole.grain * whole.grain, rows.stop)
        regions = self._plan.regions.cut(rows)
        for blocks in self._plan.sharing(regions):
            target, first = whole, 0
            if not whole.resident:
                target, first = whole.some_blocks(blocks), blocks.start
            out = target.open(rows)
            for number, region in enumerate(regions):
                fresh = not self._plan.keep and (self._plan.per_region or (again and number == 0))
                if self._plan.by_tiles:
                    yield from self._by_tiles(out, region, blocks, first, again=fresh)
                    continue
                source = view
                if source is None:
                    source, loads = self._source.read(self._y.needed(region[0]), index)
                    yield from loads
                for n in blocks:
                    yield from self._block(source, out, region, n, n - first, again=fresh)
            if not whole.resident:
                yield from target.store(out, stored, index)
        if whole.resident:
            yield from whole.store(whole.open(rows), stored, index)

    def _by_tiles(
        self, out: View, region: tuple[range, range], blocks: range, first: int, *, again: bool
    ) -> Iterator[Op]:
        """Compute n-blocks of a region; each pass over the kernel loads what it reads."""
        vectors, tile, read = len(region[0]) * len(region[1]), None, None
        for k, part in enumerate(self._plan.passes[blocks.start]):
            if tile is None or read != (part.rows, part.blocks):
                y = self._y.part(part.rows.start, len(part.rows))
                store = self._source.some_blocks(part.blocks)
                tile, loads = store.read(y.needed(region[0]), self._context.index)
                yield from loads
                read = (part.rows, part.blocks)
            for number, n in enumerate(blocks):
                here = (tile, 0), (out, n - first)
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
        for k, part in enumerate(self._plan.passes[n]):
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
        part, last = self._plan.passes[n][k], k == len(self._plan.passes[n]) - 1
        if k == 0:
            yield from self._commands.begin(source[0], region, n, acc_row, again=again)
        weights, loads = self._weights[n][k].use(again=again)
        yield from loads
        record = None
        if last and self._records:
            record, loads = self._records[n].use(again=again)
            yield from loads
        yield self._commands.multiply(
            source,
            region,
            part,
            weights,
            acc_row,
            first=k == 0,
            out=target if last else None,
            record=record,
        )
