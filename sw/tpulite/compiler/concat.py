"""Concatenation of images."""

from collections.abc import Iterator

import numpy as np

from tpulite.arch.isa import Drain, Opcode, dense
from tpulite.arch.numerics import Rounding
from tpulite.compiler.constants import Constant, channel_records
from tpulite.compiler.context import Context
from tpulite.compiler.images import Store, View
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.plan import split
from tpulite.compiler.rearrange import copy_ops, must_stay
from tpulite.compiler.vector import strips_of
from tpulite.graph.layers import Concat, Requantization

__all__ = ["concat_ops"]

_IDENTITY = Requantization(
    multiplier=np.array([1 << 30]), shift=np.array([1]), rounding=Rounding.AWAY
)


def concat_ops(layer: Concat, context: Context) -> list[Op]:
    """Return the commands that join images.

    Along channels that are no multiples of N it is a convolution with an identity matrix.
    """
    target = context.stores[layer.output]
    sources = [context.stores[name] for name in layer.inputs]
    channels = [context.channels[name] for name in layer.inputs]
    if layer.axis == 0:
        return _stack(sources, target, context)
    join = None
    if layer.axis == 2 and any(count % context.config.array_size for count in channels[:-1]):
        join = _ChannelJoin(channels, context)
    ops: list[Op] = []
    for strip in strips_of(tuple(sources), target, context):
        out = target.open(strip)
        views = []
        for source in sources:
            view, loads = source.read(strip, context.index)
            ops += loads
            views.append(view)
        if join is not None:
            ops += join.ops(strip, target, views, out)
        else:
            ops += _side_by_side(layer.axis, strip, sources, views, out, context)
        ops += target.store(out, strip, context.index)
    return ops


def _stack(sources: list[Store], target: Store, context: Context) -> list[Op]:
    """Join images along the height."""
    must_stay(*sources, target)
    out = target.open(range(target.height))
    ops: list[Op] = []
    row = 0
    for source in sources:
        view, loads = source.read(range(source.height), context.index)
        ops += loads
        for block in range(source.blocks):
            places = (view.at(0, 0, block), out.at(row, 0, block))
            extents = (source.height, source.width)
            ops += copy_ops(context, places, extents, (view.pitch, 1), (out.pitch, 1))
        row += source.height
    return ops + target.store(out, range(target.height), context.index)


def _side_by_side(
    axis: int, strip: range, sources: list[Store], views: list[View], out: View, context: Context
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

    def __init__(self, counts: list[int], context: Context) -> None:
        self._context, self._counts = context, counts
        config = context.config
        self._form, records = channel_records(_IDENTITY, np.zeros(sum(counts), np.int64), config)
        self._records = [context.constant("records", rows) for rows in records]
        self._tiles: dict[bytes, Constant] = {}

    def ops(self, strip: range, target: Store, views: list[View], out: View) -> Iterator[Op]:
        """Return the commands that join rows of images."""
        pixels = len(strip) * target.width
        for n in range(target.blocks):
            parts = list(self._parts(n, strip.start, views))
            for piece in split(pixels, -(-pixels // self._context.config.acc_rows), 1):
                for number, (place, tile) in enumerate(parts):
                    weights, loads = tile.use()
                    yield from loads
                    last = number == len(parts) - 1
                    fields = dense(
                        m=len(piece),
                        k_tiles=1,
                        accumulate=int(number > 0),
                        drain=Drain.REQUANTIZE if last else Drain.KEEP,
                        record_form=self._form,
                    )
                    del fields["act_row"]
                    rows = {
                        "act_row": Region(place.buffer, place.row + piece.start),
                        "weight_row": weights,
                    }
                    if last:
                        rows["record_row"], loads = self._records[n].use()
                        yield from loads
                        first = out.at(strip.start, 0, n)
                        rows["out_row"] = Region(first.buffer, first.row + piece.start)
                    yield Op(Opcode.CONV, self._context.index, fields, rows)

    def _parts(self, n: int, row: int, views: list[View]) -> Iterator[tuple[Region, Constant]]:
        """Yield blocks that have channels in block n of the result, and what they multiply."""
        size, first = self._context.config.array_size, 0
        for view, channels in zip(views, self._counts, strict=True):
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
                    yield view.at(row, 0, block), self._tiles[key]
            first += channels
