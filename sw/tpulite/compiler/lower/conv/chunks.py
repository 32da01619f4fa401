"""Convolutions as their plan cuts them: see :class:`tpulite.compiler.plan.conv.ConvPlan`."""

from collections.abc import Iterator

from tpulite.arch.config import Config
from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.extents import int4_tiles
from tpulite.compiler.geometry.passes import AxisLimits, Pass, axis_limits
from tpulite.compiler.lower.conv.commands import ConvCommands
from tpulite.compiler.lower.lowering import LayerContext, Lowering
from tpulite.compiler.ops import Op, Region, Side
from tpulite.compiler.place.held import Held
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.place.weights import layer_records, tile_weights
from tpulite.compiler.plan.conv import ConvExtents, ConvPlan
from tpulite.compiler.plan.conv_facts import ConvFacts
from tpulite.compiler.plan.layer_plan import conv_facts
from tpulite.graph.layers import Conv


class ChunkedLowering(Lowering[Conv, ConvPlan]):
    """A convolution that has a plan: all of its kernel in each command, chunks of its channels.

    What stays on chip stays; of an input in DRAM the chunks of a part come when they are needed,
    and of an output in DRAM each n-block of a part goes when it is complete.
    """

    def __init__(self, layer: Conv, context: LayerContext, plan: ConvPlan) -> None:
        super().__init__(layer, context, plan)
        self._source, self._target = _stores(layer, self._source, self._target)
        self._extents = _extents(layer, self._source, self._target)
        config, pool = self._config, context.pool
        _, records = pool.packed((layer.name, "records"), lambda: layer_records(layer, config))
        facts = conv_facts(layer, self._source.placed, self._target.placed, config)
        self._commands = ConvCommands(layer, context, self._source, facts)
        weights = pool.packed((layer.name, "weights"), lambda: _weights(layer, facts))
        self._weights = self._held(
            "weights", weights, self._extents.taps * facts.tile_rows, config.ub_banks // 2
        )
        self._records = None
        if records:
            data = b"".join(each.tobytes() for each in records)
            self._records = self._held("records", data, len(records[0]))
        self._part, self._view, self._here = -1, None, 0

    def _held(self, what: str, data: bytes, rows: int, bank: int | None = None) -> Held:
        return Held(
            f"{what} of {self._layer.name}",
            self._context.index,
            data=data,
            pool=self._context.pool,
            rows=rows,
            row_bytes=self._config.row_bytes,
            bank=bank,
        )

    def alone(self, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        return self.ops(range(self._target.height), again=again)

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        plan = self._plan
        for p in range(len(plan.parts)):
            for group in plan.groups(self._extents):
                start = 0
                for size in plan.head if p == group.start == 0 else plan.body:
                    yield from self._chunk(p, group, range(start, start + size))
                    start += size

    def _chunk(self, p: int, group: range, chunk: range) -> Iterator[Op]:
        """Multiply one chunk of the input by all n-blocks of a group."""
        plan, extents, commands = self._plan, self._extents, self._commands
        rows, columns = plan.parts[p], range(extents.width)
        vectors, last_k = len(rows) * extents.width, chunk.stop == extents.blocks
        view, first_block, loads = self._read(p, chunk)
        yield from loads
        part = Pass(range(commands.y.kernel), range(commands.x.kernel), chunk)
        for n in group:
            acc_row = (n - group.start) * vectors
            if chunk.start == 0:
                yield from commands.begin(view, (rows, columns), n, acc_row, again=False)
            weights, loads = self._weight(p, n, chunk)
            yield from loads
            record = None
            if last_k and self._records is not None:
                record, loads = self._record(p, group, n)
                yield from loads
            final = last_k and n == extents.n_blocks - 1 and p == len(plan.parts) - 1
            start = rows.start
            for height in plan.tail if final else (len(rows),):
                region = range(start, start + height), columns
                skipped = (start - rows.start) * extents.width
                start += height
                source, at = (view, first_block), acc_row + skipped
                first = chunk.start == 0
                if not last_k:
                    yield commands.multiply(source, region, part, weights, at, first=first)
                    continue
                target = self._target.some_blocks(range(n, n + 1))
                out = target.open(region[0])
                if not target.resident:  # as all that comes and goes with its part
                    out = target.strip(region[0], side=Side.NEXT)
                yield commands.multiply(
                    source, region, part, weights, at, first=first, out=(out, 0), record=record
                )
                yield from target.store(out, region[0], self._context.index)

    def _read(self, p: int, chunk: range) -> tuple[View, int, list[Op]]:
        """Return where a chunk of the input of a part is, its first block there, and LOADs."""
        source, index = self._source, self._context.index
        rows = self._commands.y.needed(self._plan.parts[p])
        some = source.some_blocks(chunk)
        if source.resident:
            view, loads = some.read(rows, index)
            return view, 0, loads
        if not self._plan.whole_k:
            view, loads = some.read(rows, index)
            return view, 0, loads
        rows = range(rows.start // source.grain * source.grain, rows.stop)
        if self._part != p or self._view is None:
            self._part, self._view, self._here = p, source.strip(rows, side=Side.NEXT), 0
        missing, loads = range(self._here, chunk.stop), []
        if missing:
            some = source.some_blocks(missing)
            loads = some.load(self._view.without(-missing.start), rows, index)
            self._here = missing.stop
        return self._view, chunk.start, loads

    def _weight(self, p: int, n: int, chunk: range) -> tuple[Region, list[Op]]:
        plan, blocks = self._plan, self._extents.blocks
        whole = range(blocks) if plan.whole_k else chunk
        part = 0 if plan.keep_weights else p
        start = n * blocks
        return self._weights.take(
            (part, n, whole.start),
            range(start + whole.start, start + whole.stop),
            range(start + chunk.start, start + chunk.stop),
        )

    def _record(self, p: int, group: range, n: int) -> tuple[Region, list[Op]]:
        assert self._records is not None
        key = group.start if self._plan.keep_weights else (p, group.start)
        _, loads = self._records.take(key, group, group)
        region, _ = self._records.take(key, group, range(n, n + 1))
        return region, loads


def conv_extents(layer: Conv, source: Store, target: Store, config: Config) -> ConvExtents | None:
    """Return the extents of a convolution that can have a plan; None if it cannot have one.

    All of its kernel must be in each command, of any region of whole rows, and all channel blocks
    may be in one.
    """
    if source.packed_rows or source.batch > 1 or layer.digits is not None:
        return None
    source, target = _stores(layer, source, target)
    extents = _extents(layer, source, target)
    kernel, stride, dilation = layer.weight.shape[:2], layer.stride, layer.dilation
    for axis, (here, outputs) in enumerate(
        ((source.height, target.height), (source.width, target.width))
    ):
        line = Axis1D(kernel[axis], stride[axis], dilation[axis], layer.padding[axis], size=here)
        limits = axis_limits(line, outputs, pitched=axis == 0)
        largest = min(outputs, config.acc_rows)  # of a region
        if (
            limits != AxisLimits(most=limits.most)
            or kernel[axis] > limits.taps
            or largest > limits.most
        ):
            return None
    return extents


def _stores(layer: Conv, source: Store, target: Store) -> tuple[Store, Store]:
    """Return images as columns of pixels if the layer sees pixels only."""
    plain = not (source.packed_rows or source.skewed or target.skewed)
    narrow = source.width < source.line or target.width < target.line
    if layer.windows.single and plain and not (narrow or layer.int16):
        return source.flat(), target.flat()
    return source, target


def _extents(layer: Conv, source: Store, target: Store) -> ConvExtents:
    taps = layer.weight.shape[0] * layer.weight.shape[1]
    return ConvExtents(
        rows=target.height,
        width=target.width,
        source_rows=source.height,
        source_width=source.width,
        stride=layer.stride[0],
        reach=(layer.weight.shape[0] - 1) * layer.dilation[0] + 1,
        taps=taps,
        blocks=source.blocks,
        n_blocks=target.blocks,
        grain=max(target.grain, source.grain),
        int4=int4_tiles(layer, source.config),
    )


def _weights(layer: Conv, facts: ConvFacts) -> bytes:
    """Return all weights by n-block and channel block, the whole kernel of each."""
    size, zero_point = facts.config.array_size, layer.weight_zero_point
    return tile_weights(layer.weight, size, zero_point, int4=facts.int4).tobytes()
