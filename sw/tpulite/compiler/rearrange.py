"""Layers that move pixels: padding, concatenation, reshaping."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from tpulite.arch.isa import Drain, Opcode, VectorOp, dense
from tpulite.arch.numerics import Rounding
from tpulite.compiler.constants import Constant, channel_records
from tpulite.compiler.context import Context
from tpulite.compiler.images import Store, View
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.plan import split
from tpulite.compiler.vector import MOST_VECTORS, vector_op
from tpulite.graph.layers import Concat, Pad, Requantization, Reshape

__all__ = ["concat_ops", "pad_ops", "reshape_ops", "same_pixels"]

_IDENTITY = Requantization(
    multiplier=np.array([1 << 30]), shift=np.array([1]), rounding=Rounding.AWAY
)


def pad_ops(layer: Pad, context: Context) -> list[Op]:
    """Return the commands that put an image into a frame: lines of the frame, then the image."""
    source, target = context.stores[layer.inputs[0]], context.stores[layer.output]
    _must_stay(layer.name, source, target)
    view, ops = source.read(range(source.height), context.index)
    out = target.open(range(target.height))
    top, left, _, _ = layer.padding
    bottom, right = top + source.height, left + source.width
    for block in range(target.blocks):
        for y, x, rows, columns in (
            (0, 0, top, target.width),
            (bottom, 0, target.height - bottom, target.width),
            (top, 0, source.height, left),
            (top, right, source.height, target.width - right),
        ):
            if rows and columns:
                # Any vector becomes the value when it is clamped to it.
                place = (view.at(0), out.at(y, x, block))
                copies = _copies(context, place, (rows, columns), (0, 0), (out.pitch, 1))
                clamp = {"low": layer.value, "high": layer.value}
                ops += [replace(op, fields=op.fields | clamp) for op in copies]
        ops += _copy_image(context, source, view, block, out, (top, left, block))
    return ops + target.store(out, range(target.height), context.index)


def concat_ops(layer: Concat, context: Context) -> list[Op]:
    """Return the commands that join images.

    Along channels that are no multiples of N it is a convolution with an identity matrix.
    """
    target = context.stores[layer.output]
    sources = [context.stores[name] for name in layer.inputs]
    _must_stay(layer.name, *sources, target)
    out = target.open(range(target.height))
    ops: list[Op] = []
    position = 0
    views = []
    for source in sources:
        view, loads = source.read(range(source.height), context.index)
        ops += loads
        views.append(view)
    size = context.config.array_size
    channels = [context.channels[name] for name in layer.inputs]
    if layer.axis == 2 and any(count % size for count in channels[:-1]):
        ops += _join_channels(context, target, channels, views, out)
    else:
        for source, view in zip(sources, views, strict=True):
            offset = [0, 0, 0]
            offset[layer.axis] = position
            for block in range(source.blocks):
                place = (offset[0], offset[1], offset[2] + block)
                ops += _copy_image(context, source, view, block, out, place)
            position += (source.height, source.width, source.blocks)[layer.axis]
    return ops + target.store(out, range(target.height), context.index)


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
    _must_stay(layer.name, source, target)
    size = context.config.array_size
    channels = (context.channels[layer.inputs[0]], context.channels[layer.output])
    view, ops = source.read(range(source.height), context.index)
    out = target.open(range(target.height))
    if channels[0] != channels[1] and (channels[0] % size or channels[1] % size):
        raise ValueError(
            f"Layer {layer.name!r}: channels {channels} must be multiples of {size} to be reshaped"
        )
    pixels = (source.height * source.width, target.height * target.width)
    for block in range(target.blocks):
        # Vector (pixel, block) of the target is number pixel * blocks + block of both images.
        for pixel in range(pixels[1]) if channels[0] != channels[1] else ():
            place, part = divmod(pixel * target.blocks + block, source.blocks)
            a = Region(view.buffer, view.row + part * pixels[0] + place)
            o = Region(out.buffer, out.row + block * pixels[1] + pixel)
            ops += _copies(context, (a, o), (1, 1), (0, 1), (0, 1))
        if channels[0] == channels[1]:
            a = Region(view.buffer, view.row + block * pixels[0])
            o = Region(out.buffer, out.row + block * pixels[1])
            ops += _copies(context, (a, o), (1, pixels[1]), (0, 1), (0, 1))
    return ops + target.store(out, range(target.height), context.index)


def _must_stay(name: str, *stores: Store) -> None:
    for store in stores:
        if not store.resident:
            raise ValueError(
                f"Layer {name!r}: image {store.name!r} with {store.rows} rows must fit the unified "
                f"buffer, but it does not"
            )


def _copy_image(
    context: Context,
    source: Store,
    view: View,
    block: int,
    out: View,
    place: tuple[int, int, int],
) -> Iterator[Op]:
    y, x, out_block = place
    places = (view.at(0, 0, block), out.at(y, x, out_block))
    extents = (source.height, source.width)
    return _copies(context, places, extents, (view.pitch, 1), (out.pitch, 1))


def _copies(
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


def _join_channels(
    context: Context, target: Store, counts: list[int], views: list[View], out: View
) -> Iterator[Op]:
    """Sum shifted blocks: each input block multiplies the part of the identity that it goes to."""
    config = context.config
    size, pixels = config.array_size, target.height * target.width
    total = sum(counts)
    form, records = channel_records(_IDENTITY, np.zeros(total, np.int64), config)
    tiles: dict[bytes, Constant] = {}
    for n in range(target.blocks):
        parts = []
        first = 0
        for view, channels in zip(views, counts, strict=True):
            for block in range(-(-channels // size)):
                tile = np.zeros((size, size), np.int8)
                for k in range(min(size, channels - block * size)):
                    column = first + block * size + k - n * size
                    if 0 <= column < size:
                        tile[k, column] = 1
                if tile.any():
                    parts.append((view.at(0, 0, block), tile))
            first += channels
        record, record_loads = context.constant("records", records[n]).use()
        for piece in split(pixels, -(-pixels // config.acc_rows), 1):
            for number, (place, tile) in enumerate(parts):
                key = tile.tobytes()
                if key not in tiles:
                    tiles[key] = context.constant("identity", tile)
                weights, loads = tiles[key].use()
                yield from loads
                last = number == len(parts) - 1
                fields = dense(
                    m=len(piece),
                    k_tiles=1,
                    accumulate=int(number > 0),
                    drain=Drain.REQUANTIZE if last else Drain.KEEP,
                    record_form=form,
                )
                del fields["act_row"]
                rows = {
                    "act_row": Region(place.buffer, place.row + piece.start),
                    "weight_row": weights,
                }
                if last:
                    yield from record_loads
                    record_loads = []
                    rows["record_row"] = record
                    place = out.at(0, 0, n)
                    rows["out_row"] = Region(place.buffer, place.row + piece.start)
                yield Op(Opcode.CONV, context.index, fields, rows)
