"""Where a convolution reads: part of an image, as the fields of a CONV."""

from dataclasses import replace
from math import gcd

from tpulite.arch.isa import CONV
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, Axis1D
from tpulite.compiler.ops import Region
from tpulite.compiler.place.views import View

_FAR = CONV.limit("act_pitch")
"""No rows of the buffer lie further apart; an image row by itself needs no pitch."""


def read_window(
    view: View, y: Axis1D, x: Axis1D, outputs: tuple[range, range], block: int
) -> tuple[dict[str, int], Region]:
    """Return the fields that say where a region reads, and the place of the first real vector.

    Parameters
    ----------
    view : View
        Rows of the image, among them all that are needed.
    y, x : Axis1D
        Geometry.
    outputs : tuple of range
        Output rows and columns.
    block : int
        First channel block.

    Raises
    ------
    ValueError
        If the machine cannot express the geometry.
    """
    top, height, row = y.seen(outputs[0].start, len(outputs[0]))
    pitch = view.pitch
    if max(y.stride, y.dilation) > CONV.limit("stride_y") or top > CONV.limit("pad_top"):
        y, step, first = _read_positions(y)
        top, height, row = y.seen(outputs[0].start, len(outputs[0]))
        row, pitch = first + row * step, pitch * step
    row = min(max(row, view.rows.start), view.rows.stop - 1)  # of padding alone
    left, width, column = x.seen(outputs[1].start, len(outputs[1]))
    y, x = _without_idle_steps(y, outputs[0]), _without_idle_steps(x, outputs[1])
    for what, value, limit in (
        ("Padding", max(top, left), CONV.limit("pad_top")),
        ("Stride", max(y.stride, x.stride), CONV.limit("stride_y")),
        ("Dilation", max(y.dilation, x.dilation), CONV.limit("dilation_y")),
        ("Extent of an image", max(height, width), LARGEST_EXTENT),
    ):
        if value > limit:
            raise ValueError(f"{what} must be at most {limit}, not {value}")
    fields = {
        "stride_y": y.stride,
        "stride_x": x.stride,
        "dilation_y": y.dilation,
        "dilation_x": x.dilation,
        "kernel_rows": y.kernel,
        "kernel_columns": x.kernel,
        "pad_top": top,
        "pad_left": left,
        "height": height,
        "width": width,
        "act_pitch": min(pitch, _FAR),
        "act_block_pitch": view.block_pitch,
    }
    return fields, view.at(row, column, block)


def read_row(
    view: View, y: Axis1D, x: Axis1D, outputs: range, row: int, block: int
) -> tuple[dict[str, int], Region]:
    """Return the same for outputs of one row that are far from each other, and one kernel row.

    The outputs are rows of the command: a pitch may be larger than a stride. Their windows must
    not reach into the padding on the left and on the right.
    """
    position = y.origin(row)
    fields = dict.fromkeys(("stride_y", "stride_x", "dilation_y", "kernel_rows"), 1) | {
        "rows": len(outputs),
        "columns": 1,
        "dilation_x": x.dilation if x.kernel > 1 else 1,
        "kernel_columns": x.kernel,
        "pad_top": 0,
        "pad_left": 0,
        "height": len(outputs),
        "width": (x.kernel - 1) * x.dilation + 1,
        "act_pitch": x.stride,
        "act_block_pitch": view.block_pitch,
    }
    if 0 <= position < y.size:
        return fields, view.at(position, x.origin(outputs.start), block)
    padding = {"dilation_x": 1, "pad_left": x.kernel, "width": 1}  # all taps lie before column 0
    return fields | padding, view.at(view.rows.start, 0, block)


def _without_idle_steps(axis: Axis1D, outputs: range) -> Axis1D:
    """Return the axis without a large stride or dilation that nothing takes."""
    if axis.stride > CONV.limit("stride_y") and len(outputs) == 1:
        axis = replace(axis, stride=1)
    if axis.dilation > CONV.limit("dilation_y") and axis.kernel == 1:
        axis = replace(axis, dilation=1)
    return axis


def _read_positions(axis: Axis1D) -> tuple[Axis1D, int, int]:
    """Return the axis of positions that are read alone, how far apart they are, and the first."""
    step = gcd(axis.stride, axis.dilation)
    if axis.kernel == 1 and axis.stride // step > CONV.limit("stride_y"):
        step = axis.stride
    first = axis.origin(0) % step
    return (
        Axis1D(
            axis.kernel,
            axis.stride // step,
            max(axis.dilation // step, 1),
            before=(first - axis.origin(0)) // step,
            size=max(-(-(axis.size - first) // step), 0),
        ),
        step,
        first,
    )
