"""Layers that move pixels: padding and reshaping."""

from collections.abc import Iterator
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.lower.lowering import Lowering
from tpulite.compiler.lower.vector_commands import copy_ops
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import Pad, Reshape

__all__ = ["PadLowering", "ReshapeLowering", "must_stay", "same_pixels"]


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
                    yield from (replace(op, fields=op.fields | clamp) for op in copies)
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


def same_ratio(source: Store, target: Store) -> bool:
    """Return whether pixels of one image are as many whole pixels of the other."""
    few, many = sorted((source.blocks, target.blocks))
    return many % few == 0


class ReshapeLowering(Lowering[Reshape, RowsPlan]):
    """Vectors move to where another shape has them."""

    def __init__(self, layer: Reshape, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        self._channels = [context.channels[name] for name in (layer.inputs[0], layer.output)]
        self._flat = len({*self._channels}) == 1
        self._original = self._source
        if self._flat:  # pixel after pixel, whatever the extents are called
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
        if not self._flat:
            must_stay(self._config, source, target)
        if self._flat and source.resident:
            _, loads = self._original.read(range(self._original.height), index)
            view = source.open(rows)
        else:
            view, loads = source.read(rows if self._flat else range(source.height), index)
        yield from loads
        out = target.open(rows)
        yield from self._pixels(view, out, rows) if self._flat else self._vectors(view, out)
        yield from target.store(out, rows, index)

    def _pixels(self, view: View, out: View, rows: range) -> Iterator[Op]:
        for block in range(self._target.blocks):
            places = (view.at(rows.start, 0, block), out.at(rows.start, 0, block))
            yield from copy_ops(self._context, places, (1, len(rows)), (0, 1), (0, 1))

    def _vectors(self, view: View, out: View) -> Iterator[Op]:
        source, target, size = self._source, self._target, self._config.array_size
        if any(count % size for count in self._channels):
            raise ValueError(
                f"Channels {self._channels} must be multiples of {size} to be reshaped"
            )
        if same_ratio(source, target) and view.pitch == source.width and out.pitch == target.width:
            yield from self._blocks(view, out)
            return
        for block in range(target.blocks):
            # Vector (pixel, block) of the target is number pixel * blocks + block of both images.
            for pixel in range(target.height * target.width):
                place, part = divmod(pixel * target.blocks + block, source.blocks)
                a = _pixel(view, source, place, part)
                o = _pixel(out, target, pixel, block)
                yield from copy_ops(self._context, (a, o), (1, 1), (0, 1), (0, 1))

    def _blocks(self, view: View, out: View) -> Iterator[Op]:
        """Move each block of what has more of them at once: to every n-th pixel, or from there."""
        source, target = self._source, self._target
        few, many = sorted((source.blocks, target.blocks))
        pixels = source.height * source.width * source.blocks // many
        for block in range(many):
            apart, whole = divmod(block, few)[::-1], (block, 0)
            reads, writes = (whole, apart) if source.blocks == many else (apart, whole)
            steps = (1, many // few) if source.blocks == many else (many // few, 1)
            places = (
                view.at(0, 0, reads[0]).behind(reads[1]),
                out.at(0, 0, writes[0]).behind(writes[1]),
            )
            yield from copy_ops(self._context, places, (1, pixels), (0, steps[0]), (0, steps[1]))


def _pixel(view: View, store: Store, pixel: int, block: int) -> Region:
    y, x = divmod(pixel, store.width)
    return view.at(y, x, block)


def must_stay(config: Config, *stores: Store) -> None:
    """Refuse images that are not on chip: their pixels go anywhere."""
    for store in stores:
        if not store.resident:
            raise ValueError(
                f"Activation {store.name!r} takes {store.rows} rows "
                f"({store.rows * config.row_bytes} bytes), and must stay in the unified buffer, "
                f"which has {config.ub_rows} rows ({config.ub_rows * config.row_bytes} bytes), "
                f"beside what else is needed"
            )
