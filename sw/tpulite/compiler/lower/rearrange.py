"""Layers that move pixels: padding and reshaping."""

from collections.abc import Iterator

from tpulite.compiler.lower.lowering import LayerContext, Lowering, copy_ops
from tpulite.compiler.ops import Op
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.rows import RowsPlan, reshape_units
from tpulite.graph.layers import Pad, Reshape


class PadLowering(Lowering[Pad, RowsPlan]):
    """An image in a frame: lines of the frame, then the image."""

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        for part in self._plan.parts(rows):
            yield from self._part(part)

    def _part(self, rows: range) -> Iterator[Op]:
        source, target, context = self._source, self._target, self._context
        top, left = self._layer.padding[:2]
        left += source.column - target.column
        # Columns of the image that are seen, if only some are computed.
        seen = range(max(left, 0), min(left + source.width, target.width))
        seen = seen or range(target.width, target.width)
        inside = range(max(rows.start - top, 0), min(rows.stop - top, source.height))
        if not inside:  # any row of the image will do
            row = min(max(rows.start - top, 0), source.height - 1)
            view, loads = source.read(range(row, row + 1), context.index)
            frame = [(rows.start, 0, len(rows), target.width)]
        else:
            view, loads = source.read(inside, context.index)
            first, last = top + inside.start, top + inside.stop
            frame = [
                (rows.start, 0, first - rows.start, target.width),
                (last, 0, rows.stop - last, target.width),
                (first, 0, len(inside), seen.start),
                (first, seen.stop, len(inside), target.width - seen.stop),
            ]
        yield from loads
        out = target.open(rows)
        for block in range(target.blocks):
            for y, x, height, width in frame:
                if height and width:
                    # Any vector becomes the value when it is clamped to it.
                    place = (view.at(view.rows.start), out.at(y, x, block))
                    copies = copy_ops(context, place, (height, width), (0, 0), (out.pitch, 1))
                    clamp = {"low": self._layer.value, "high": self._layer.value}
                    yield from (op._replace(fields=op.fields | clamp) for op in copies)
            if inside and seen:
                place = (
                    view.at(inside.start, seen.start - left, block),
                    out.at(top + inside.start, seen.start, block),
                )
                extents = (len(inside), len(seen))
                yield from copy_ops(context, place, extents, (view.pitch, 1), (out.pitch, 1))
        start = rows.start // target.grain * target.grain
        yield from target.store(out, range(start, rows.stop), context.index)


def same_pixels(source: Store, target: Store) -> bool:
    """Return whether a reshape changes nothing but the names of the pixels."""
    pixels = source.height * source.width == target.height * target.width
    return pixels and source.blocks == target.blocks


class ReshapeLowering(Lowering[Reshape, RowsPlan]):
    """Vectors move to where another shape has them, a range of pixels after the other."""

    def __init__(self, layer: Reshape, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        self._channels = [context.channels[name] for name in (layer.inputs[0], layer.output)]
        self._original = self._source
        self._source, self._target = self._source.flat(), self._target.flat()

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:
        """Yield the commands.

        Raises
        ------
        ValueError
            If elements of a vector would have to part: the channels must be multiples of N, unless
            they stay the same.
        """
        source, target, index = self._source, self._target, self._context.index
        size = self._config.array_size
        if len({*self._channels}) > 1 and any(count % size for count in self._channels):
            raise ValueError(
                f"Channels {self._channels} must be multiples of {size} to be reshaped"
            )
        read, written = reshape_units(source.blocks, target.blocks)
        pixels = range(rows.start // written * read, rows.stop // written * read)
        if source.resident:
            _, loads = self._original.read(range(self._original.height), index)
            view = source.open(pixels)
        else:
            view, loads = source.read(pixels, index)
        yield from loads
        out = target.open(rows)
        for vector in range(read * source.blocks):  # of a unit, in the order of its elements
            (a, part), (o, block) = divmod(vector, source.blocks), divmod(vector, target.blocks)
            places = view.at(pixels.start + a, 0, part), out.at(rows.start + o, 0, block)
            extents = 1, len(rows) // written
            yield from copy_ops(self._context, places, extents, (0, read), (0, written))
        yield from target.store(out, rows, index)
