"""Layers that move pixels: padding and reshaping."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tpulite.arch.isa import VectorOp
from tpulite.compiler.context import Context
from tpulite.compiler.images import Store
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.plan import split
from tpulite.compiler.vector import MOST_VECTORS, strips_of, vector_op
from tpulite.graph.layers import Pad, Reshape

__all__ = ["copy_ops", "must_stay", "pad_ops", "reshape_ops", "same_pixels"]


def pad_ops(layer: Pad, context: Context) -> list[Op]:
    """Return the commands that put an image into a frame: lines of the frame, then the image."""
    source, target = context.stores[layer.inputs[0]], context.stores[layer.output]
    top, left, _, _ = layer.padding
    right = left + source.width
    ops: list[Op] = []
    for strip in strips_of((source,), target, context):
        inside = range(max(strip.start - top, 0), min(strip.stop - top, source.height))
        view, loads = source.read(inside or range(1), context.index)
        ops += loads
        out = target.open(strip)
        first, last = top + inside.start, top + inside.stop
        if not inside:
            frame = [(strip.start, 0, len(strip), target.width)]
        else:
            frame = [
                (strip.start, 0, first - strip.start, target.width),
                (last, 0, strip.stop - last, target.width),
                (first, 0, len(inside), left),
                (first, right, len(inside), target.width - right),
            ]
        for block in range(target.blocks):
            for y, x, rows, columns in frame:
                if rows and columns:
                    # Any vector becomes the value when it is clamped to it.
                    place = (view.at(view.rows.start), out.at(y, x, block))
                    copies = copy_ops(context, place, (rows, columns), (0, 0), (out.pitch, 1))
                    clamp = {"low": layer.value, "high": layer.value}
                    ops += [replace(op, fields=op.fields | clamp) for op in copies]
            if inside:
                place = (view.at(inside.start, 0, block), out.at(first, left, block))
                extents = (len(inside), source.width)
                ops += copy_ops(context, place, extents, (view.pitch, 1), (out.pitch, 1))
        ops += target.store(out, strip, context.index)
    return ops


def same_pixels(source: Store, target: Store) -> bool:
    """Return whether a reshape changes nothing but the names of the pixels."""
    pixels = source.height * source.width == target.height * target.width
    return pixels and source.blocks == target.blocks


def reshape_ops(layer: Reshape, context: Context) -> list[Op]:
    """Return the commands that move vectors to where another shape has them.

    Raises
    ------
    ValueError
        If elements of a vector would have to part: the channels must be multiples of N, unless
        the pixels stay the same.
    """
    source, target = context.stores[layer.inputs[0]], context.stores[layer.output]
    must_stay(source, target)
    size = context.config.array_size
    channels = (context.channels[layer.inputs[0]], context.channels[layer.output])
    view, ops = source.read(range(source.height), context.index)
    out = target.open(range(target.height))
    if channels[0] != channels[1] and (channels[0] % size or channels[1] % size):
        raise ValueError(f"Channels {channels} must be multiples of {size} to be reshaped")
    pixels = (source.height * source.width, target.height * target.width)
    for block in range(target.blocks):
        # Vector (pixel, block) of the target is number pixel * blocks + block of both images.
        for pixel in range(pixels[1]) if channels[0] != channels[1] else ():
            place, part = divmod(pixel * target.blocks + block, source.blocks)
            a = Region(view.buffer, view.row + part * pixels[0] + place)
            o = Region(out.buffer, out.row + block * pixels[1] + pixel)
            ops += copy_ops(context, (a, o), (1, 1), (0, 1), (0, 1))
        if channels[0] == channels[1]:
            a = Region(view.buffer, view.row + block * pixels[0])
            o = Region(out.buffer, out.row + block * pixels[1])
            ops += copy_ops(context, (a, o), (1, pixels[1]), (0, 1), (0, 1))
    return ops + target.store(out, range(target.height), context.index)


def must_stay(*stores: Store) -> None:
    """Refuse images that are not on chip: their pixels go anywhere."""
    for store in stores:
        if not store.resident:
            raise ValueError(
                f"Image {store.name!r} with {store.rows} rows must fit the unified "
                f"buffer, but it does not"
            )


def copy_ops(
    context: Context,
    places: tuple[Region, Region],
    extents: tuple[int, int],
    read: tuple[int, int],
    write: tuple[int, int],
) -> Iterator[Op]:
    """Return COPYs of rows and columns, as many as necessary; pairs are pitch and step."""
    pieces = (split(extent, -(-extent // MOST_VECTORS), 1) for extent in extents)
    for rows, columns in product(*pieces):
        fields = {
            "rows": len(rows),
            "columns": len(columns),
            "a_pitch": read[0],
            "a_step": read[1],
            "out_pitch": write[0],
            "out_step": write[1],
        }
        a, out = (
            Region(place.buffer, place.row + rows.start * pitch + columns.start * step)
            for place, (pitch, step) in zip(places, (read, write), strict=True)
        )
        yield vector_op(context, VectorOp.COPY, fields, {"a_row": a, "out_row": out})
