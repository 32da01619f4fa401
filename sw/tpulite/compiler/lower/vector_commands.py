"""Commands of the vector path, and the plainest of them: copies."""

from collections.abc import Iterator
from itertools import product

from tpulite.arch.isa import Opcode, VectorOp
from tpulite.arch.numerics import INT8
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.plan.pool_windows import MOST_VECTORS

_PLAIN = {"low": INT8[0], "high": INT8[-1], "window_rows": 1, "window_columns": 1}
"""Fields of a command without a window that clamps nothing."""


def vector_op(
    context: LayerContext, operation: VectorOp, fields: dict[str, int], places: dict[str, Region]
) -> Op:
    """Return a VECTOR; fields that are not named have no effect."""
    return Op(Opcode.VECTOR, context.index, {**_PLAIN, "operation": operation, **fields}, places)


def copy_ops(
    context: LayerContext,
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
