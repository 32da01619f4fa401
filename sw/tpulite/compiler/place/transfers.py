"""LOADs and STOREs of rows of an image that is in DRAM."""

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import LOAD, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.progressions import Progression
from tpulite.compiler.ops import Op
from tpulite.compiler.place.kept import Kept
from tpulite.compiler.place.views import View
from tpulite.program import TensorSpec

_LINES = LOAD.limit("lines")
"""Most channel blocks that one command moves; a STORE's field is as wide."""


def rows_moved(
    kept: Kept, opcode: Opcode, view: View, rows: range, layer: int, spec: TensorSpec
) -> list[Op]:
    """Return the LOADs or STOREs of rows.

    Whole rows take a command for up to 4,095 blocks of channels, parts of rows one for each block.
    """
    vector_bytes = kept.vector_rows * kept.config.row_bytes
    row_bytes = kept.line * vector_bytes
    whole = kept.full * row_bytes
    block_bytes = -(-whole // BEAT_BYTES) * BEAT_BYTES
    fields = {
        "window": spec.window,
        "flip": int(spec.dtype == "uint8"),
        "offset": spec.offset
        + (kept.top + rows.start) * row_bytes
        + (kept.left + kept.column) * vector_bytes,
    }
    shapes = []
    if kept.width == kept.line and view.pitch == row_bytes // kept.config.row_bytes:
        count = len(rows) * view.pitch
        complete = len(rows) == kept.full and whole % BEAT_BYTES == 0
        if kept.blocks == 1:
            shapes = [(0, {"lines": 1, "rows": count, "stride": 0, "pitch": 0})]
        elif complete and view.block_pitch == count:
            shapes = [(0, {"lines": 1, "rows": kept.rows, "stride": 0, "pitch": 0})]
        else:
            stride = {"stride": block_bytes, "pitch": view.block_pitch}
            shapes = [
                (start, {"lines": min(_LINES, kept.blocks - start), "rows": count} | stride)
                for start in range(0, kept.blocks, _LINES)
            ]
    else:
        count = kept.width * kept.vector_rows
        stride = {"stride": row_bytes, "pitch": view.pitch}
        if len(rows) == 1:
            stride = {"stride": 0, "pitch": 0}
        shape = {"lines": len(rows), "rows": count} | stride
        shapes = [(block, shape) for block in range(kept.blocks)]
    barrier = opcode == Opcode.LOAD and spec.window == Window.SCRATCH
    ops = []
    for block, shape in shapes:
        place = view.at(rows.start, 0, block)
        offset = {"offset": fields["offset"] + block * block_bytes}
        ops.append(Op(opcode, layer, fields | offset | shape, {"row": place}, barrier=barrier))
    return ops


def lines_apart(kept: Kept, view: View, rows: Progression, layer: int) -> list[Op]:
    """Return the STOREs of rows that lie apart in DRAM, of one channel block of an image.

    ``rows`` says which of them are which rows of the view. Rows must begin at beats.
    """
    row_bytes = kept.line * kept.config.row_bytes
    apart = rows.length > 1
    place = kept.left + kept.column + (kept.top + rows.start) * kept.line
    shape = {
        "lines": rows.length,
        "rows": kept.width,
        "stride": rows.step * row_bytes if apart else 0,
        "pitch": rows.stride * view.pitch if apart else 0,
    }
    return [
        Op(
            Opcode.STORE,
            layer,
            {
                "window": spec.window,
                "flip": int(spec.dtype == "uint8"),
                "offset": spec.offset + place * kept.config.row_bytes,
                **shape,
            },
            {"row": view.at(rows.first)},
        )
        for spec in kept.specs
    ]
