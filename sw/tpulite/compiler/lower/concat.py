"""Concatenation of images."""

from collections.abc import Iterator, Mapping

import numpy as np

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Drain, Opcode, dense
from tpulite.compiler.lower.lowering import LayerContext, Lowering, copy_ops
from tpulite.compiler.lower.vector import lines_of
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.constants import Constant, channel_records
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.rows import Concatenation, ConcatPlan
from tpulite.graph.layers import Concat
from tpulite.graph.requantization import IDENTITY


class ConcatLowering(Lowering[Concat, ConcatPlan]):
    """Several images become one.

    Along channels that are no multiples of N it is a convolution with an identity matrix.
    """

    def __init__(self, layer: Concat, context: LayerContext, plan: ConcatPlan) -> None:
        super().__init__(layer, context, plan)
        self._channels = [context.channels[name] for name in layer.inputs]
        self._join = _ChannelJoin(self._channels, context) if plan.multiplies else None

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        way = self._plan.way
        if way == Concatenation.STACKED:
            yield from self._stack(rows)
            return
        for part in self._plan.rows.parts(rows):
            if way == Concatenation.BLOCKS:
                for block in range(self._target.blocks):
                    yield from self._block(part, block)
            elif way == Concatenation.COLUMNS:
                yield from self._columns(part)
            else:
                yield from self._part(part)

    def _columns(self, rows: range) -> Iterator[Op]:
        """Copy some columns after the other, side by side; nothing else is on chip."""
        index, plan = self._context.index, self._plan
        cuts = plan.columns(rows, self._target.blocks)
        for source, position, cut in zip(self._sources, plan.starts, cuts, strict=True):
            for columns in cut:
                places = range(position + columns.start, position + columns.stop)
                some, target = source.part(0, columns), self._target.part(0, places)
                view, loads = some.read(rows, index)
                yield from loads
                out = target.open(rows)
                yield from _side_by_side(1, rows, [some], [view], out, self._context)
                yield from target.store(out, rows, index)

    def _block(self, rows: range, block: int) -> Iterator[Op]:
        """Join what belongs to one channel block; nothing else is on chip."""
        index, size = self._context.index, self._config.array_size
        target = self._target.some_blocks(range(block, block + 1))
        views: dict[int, View] = {}
        for number, source in enumerate(self._sources):
            start = self._plan.starts[number]
            stop = start + self._channels[number]
            channels = range(max(block * size, start), min((block + 1) * size, stop))
            if not channels:
                continue
            blocks = range((channels[0] - start) // size, (channels[-1] - start) // size + 1)
            if source.resident:
                yield from source.read(rows, index)[1]
                view = source.open(rows)
            else:
                view, loads = source.some_blocks(blocks).read(rows, index)
                yield from loads
                view = view.without(blocks.start)
            views[number] = view
        here = target.open(rows)
        out = here.without(block)
        if self._join is not None:
            yield from self._join.ops(rows, target, views, out, range(block, block + 1))
        else:
            ((number, view),) = views.items()
            place = view.at(rows.start, 0, block - self._plan.starts[number] // size)
            places = (place, out.at(rows.start, 0, block))
            extents = (len(rows), target.width)
            yield from copy_ops(self._context, places, extents, (view.pitch, 1), (out.pitch, 1))
        start = rows.start // target.grain * target.grain
        yield from target.store(here, range(start, rows.stop), index)

    def _part(self, rows: range) -> Iterator[Op]:
        index, target = self._context.index, self._target
        out = target.open(rows)
        views = []
        for source in self._sources:
            view, loads = source.read(rows, index)
            yield from loads
            views.append(view)
        if self._join is not None:
            some = dict(enumerate(views))
            yield from self._join.ops(rows, target, some, out, range(target.blocks))
        else:
            yield from _side_by_side(
                self._layer.axis, rows, self._sources, views, out, self._context
            )
        start = rows.start // target.grain * target.grain
        yield from target.store(out, range(start, rows.stop), index)

    def _stack(self, rows: range) -> Iterator[Op]:
        """Copy rows of one image to where they belong."""
        target, context, starts = self._target, self._context, self._plan.starts
        if not target.resident and any(start % target.grain for start in starts):
            raise ValueError(
                f"Activation {target.name!r} takes {target.rows} rows, and must stay in the "
                f"unified buffer of {self._config.ub_rows} rows, because rows of "
                f"{target.width} vectors do not begin at {BEAT_BYTES} bytes in DRAM"
            )
        number = max(i for i, start in enumerate(starts) if start <= rows.start)
        first, source = starts[number], self._sources[number]
        inside = range(rows.start - first, rows.stop - first)
        view, loads = source.read(inside, context.index)
        yield from loads
        out = target.open(rows)
        for block in range(source.blocks):
            places = (view.at(inside.start, 0, block), out.at(rows.start, 0, block))
            extents = (len(rows), source.width)
            yield from copy_ops(context, places, extents, (view.pitch, 1), (out.pitch, 1))
        complete = [row // target.grain * target.grain for row in (rows.start, rows.stop)]
        if rows.stop == target.height:
            complete[1] = target.height
        if complete[0] < complete[1]:
            yield from target.store(out, range(*complete), context.index)


def _side_by_side(
    axis: int,
    strip: range,
    sources: list[Store],
    views: list[View],
    out: View,
    context: LayerContext,
) -> Iterator[Op]:
    """Join rows of images along the width, or block after block."""
    position = 0
    for source, view in zip(sources, views, strict=True):
        for block in range(source.blocks):
            column, target_block = (position, block) if axis == 1 else (0, position + block)
            places = (
                view.at(strip.start, 0, block),
                out.at(strip.start, column, target_block),
            )
            extents = (len(strip), source.width)
            yield from copy_ops(context, places, extents, (view.pitch, 1), (out.pitch, 1))
        position += source.width if axis == 1 else source.blocks


class _ChannelJoin:
    """Sums of shifted blocks: each block multiplies the part of the identity that it goes to."""

    def __init__(self, counts: list[int], context: LayerContext) -> None:
        self._context, self._counts = context, counts
        config = context.config
        self._form, records = channel_records(IDENTITY, np.zeros(sum(counts), np.int64), config)
        self._records = [context.constant("records", rows) for rows in records]
        self._tiles: dict[bytes, Constant] = {}

    def ops(
        self, strip: range, target: Store, views: Mapping[int, View], out: View, blocks: range
    ) -> Iterator[Op]:
        """Return the commands that join rows of images: some blocks of the result.

        Images that have no channels there need no view.
        """
        most = self._context.config.acc_rows
        for n in blocks:
            for pixels in lines_of(strip, target.width, [*views.values(), out], most):
                y, x = divmod(pixels.start, target.width)
                parts = list(self._parts(n, y, x, views))
                for number, (place, tile) in enumerate(parts):
                    weights, loads = tile.use()
                    yield from loads
                    last = number == len(parts) - 1
                    fields = dense(
                        m=len(pixels),
                        k_tiles=1,
                        accumulate=int(number > 0),
                        drain=Drain.REQUANTIZE if last else Drain.KEEP,
                        record_form=self._form,
                    )
                    del fields["act_row"]
                    rows = {"act_row": place, "weight_row": weights}
                    if last:
                        rows["record_row"], loads = self._records[n].use()
                        yield from loads
                        rows["out_row"] = out.at(y, x, n)
                    yield Op(Opcode.CONV, self._context.index, fields, rows)

    def _parts(
        self, n: int, y: int, x: int, views: Mapping[int, View]
    ) -> Iterator[tuple[Region, Constant]]:
        """Yield blocks that have channels in block n of the result, and what they multiply."""
        size, first = self._context.config.array_size, 0
        for number, channels in enumerate(self._counts):
            for block in range(-(-channels // size)):
                tile = np.zeros((size, size), np.int8)
                for k in range(min(size, channels - block * size)):
                    column = first + block * size + k - n * size
                    if 0 <= column < size:
                        tile[k, column] = 1
                if tile.any():
                    key = tile.tobytes()
                    if key not in self._tiles:
                        self._tiles[key] = self._context.constant("identity", tile)
                    yield views[number].at(y, x, block), self._tiles[key]
            first += channels
