"""Elementwise layers on the vector path."""

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.isa import Opcode, VectorOp
from tpulite.arch.numerics import INT8
from tpulite.compiler.constants import Constant, channel_records, common_record, pad_to_rows
from tpulite.compiler.context import Context
from tpulite.compiler.cut import cut_parts, cut_strips
from tpulite.compiler.images import Store, View
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.plan import split
from tpulite.graph.layers import Affine, Elementwise, Lut

__all__ = ["MOST_VECTORS", "affine_ops", "elementwise_ops", "lut_ops", "strips_of", "vector_op"]

MOST_VECTORS = isa.VECTOR.limit("columns")
"""Most rows, and most columns, of a command."""

ALL = {"low": INT8[0], "high": INT8[-1], "window_rows": 1, "window_columns": 1}
"""Fields of a command without a window that clamps nothing."""


def vector_op(
    context: Context, operation: VectorOp, fields: dict[str, int], places: dict[str, Region]
) -> Op:
    """Return a VECTOR; fields that are not named have no effect."""
    return Op(Opcode.VECTOR, context.index, {**ALL, "operation": operation, **fields}, places)


def elementwise_ops(layer: Elementwise, context: Context) -> list[Op]:
    """Return the commands of an addition, subtraction or multiplication of two images."""
    config = context.config
    (a_zero, b_zero), (a_multiplier, b_multiplier) = layer.zero_points, layer.multipliers
    operands = isa.OPERANDS.pack(
        a_zero_point=a_zero,
        b_zero_point=b_zero,
        a_multiplier=a_multiplier,
        a_shift=layer.shifts[0],
        b_multiplier=b_multiplier,
        b_shift=layer.shifts[1],
        scaling=layer.scaling,
    )
    rows = (
        pad_to_rows(operands.to_bytes(RECORD_BYTES, "little"), config),
        common_record(layer.requantization, config),
    )
    parameters = context.constant("parameters", np.concatenate(rows))
    operation = VectorOp[layer.op.upper()]
    a, b = (context.stores[name] for name in layer.inputs)
    return _pointwise(context, operation, a, b, context.stores[layer.output], parameters)


def lut_ops(layer: Lut, context: Context) -> list[Op]:
    """Return the commands of a function of one number."""
    table = context.constant("table", layer.table)
    source, target = context.stores[layer.inputs[0]], context.stores[layer.output]
    return _pointwise(context, VectorOp.LUT, source, None, target, table)


def affine_ops(layer: Affine, context: Context) -> list[Op]:
    """Return the commands of a factor and a bias for each channel: one for each block."""
    gain = layer.gain
    bias = np.broadcast_to(layer.requantization.bias, len(gain)).astype(np.int64)
    _, blocks = channel_records(layer.requantization, bias, context.config, gain=gain)
    records = [context.constant("records", rows) for rows in blocks]
    source, target = context.stores[layer.inputs[0]], context.stores[layer.output]
    ops: list[Op] = []
    for strip in strips_of((source,), target, context):
        view, loads = source.read(strip, context.index)
        out = target.open(strip)
        ops += loads
        for n, constant in enumerate(records):
            place, loads = constant.use()
            ops += loads
            for pixels in _pixels(strip, source.width):
                a, o = _pixel(view, source, pixels, n), _pixel(out, target, pixels, n)
                fields = {"rows": 1, "columns": len(pixels), "a_step": 1, "out_step": 1}
                places = {"a_row": a, "out_row": o, "param_row": place}
                ops.append(vector_op(context, VectorOp.AFFINE, fields, places))
        ops += target.store(out, strip, context.index)
    return ops


def strips_of(sources: tuple[Store, ...], target: Store, context: Context) -> tuple[range, ...]:
    """Cut an image of which each row needs only the same row of others."""
    config = context.config
    outside = [store for store in (*sources, target) if not store.resident]
    grain = max(store.grain for store in (*sources, target))
    strips: tuple[range, ...] = (range(target.height),)
    if outside:
        per_row = sum(store.blocks * store.width for store in outside)
        strips = cut_strips(target.height, per_row, context.strip_rows, grain)
    return tuple(
        part for strip in strips for part in cut_parts(strip, target.width, config, grain=grain)
    )


def _pointwise(
    context: Context,
    operation: VectorOp,
    a: Store,
    b: Store | None,
    target: Store,
    parameters: Constant,
) -> list[Op]:
    """Return the commands of an operation on every vector: the rows of a command are blocks."""
    place, ops = parameters.use()
    broadcast = b is not None and (b.height, b.width) != (target.height, target.width)
    sources = (a,) if b is None or broadcast else (a, b)
    for strip in strips_of(sources, target, context):
        a_view, loads = a.read(strip, context.index)
        ops += loads
        out = target.open(strip)
        b_view = None
        if b is not None:
            b_view, loads = b.read(range(1) if broadcast else strip, context.index)
            ops += loads
        for pixels in _pixels(strip, target.width):
            fields = {
                "rows": target.blocks,
                "columns": len(pixels),
                "a_pitch": a_view.block_pitch,
                "a_step": 1,
                "out_pitch": out.block_pitch,
                "out_step": 1,
            }
            places = {
                "a_row": _pixel(a_view, a, pixels, 0),
                "out_row": _pixel(out, target, pixels, 0),
                "param_row": place,
            }
            if b is not None and b_view is not None:
                fields |= {"b_pitch": b_view.block_pitch, "b_step": int(not broadcast)}
                first = range(0, 1) if broadcast else pixels
                places["b_row"] = _pixel(b_view, b, first, 0)
            ops.append(vector_op(context, operation, fields, places))
        ops += target.store(out, strip, context.index)
    return ops


def _pixels(strip: range, width: int) -> list[range]:
    """Return the pixels of a strip, row by row, cut into what a command can do."""
    start, count = strip.start * width, len(strip) * width
    pieces = split(count, -(-count // MOST_VECTORS), 1)
    return [range(start + piece.start, start + piece.stop) for piece in pieces]


def _pixel(view: View, store: Store, pixels: range, block: int) -> Region:
    y, x = divmod(pixels.start, store.width)
    return view.at(y, x, block)
