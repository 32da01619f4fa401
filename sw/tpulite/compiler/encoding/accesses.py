"""What a command reads and writes: the ground on which tokens are placed."""

from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES, RAW_ROWS, Command, Drain, Opcode, RecordForm, VectorOp
from tpulite.compiler.encoding.ranges import Ranges, line_ranges, merge_ranges, shift_ranges

__all__ = ["Accesses", "accesses", "conv_shape", "vector_param_rows"]


class Accesses(NamedTuple):
    """Read and write sets of one command.

    Parameters
    ----------
    reads, writes : sequence of range
        Rows of the unified buffer.
    early : sequence of range
        Rows that CONV may read before its wait if it has ``prefetch``; not in ``reads``.
    window : int
        DRAM window of a transfer.
    dram_reads, dram_writes : sequence of range
        Beats of that window.
    """

    reads: Ranges = ()
    writes: Ranges = ()
    early: Ranges = ()
    window: int = 0
    dram_reads: Ranges = ()
    dram_writes: Ranges = ()


def accesses(command: Command, config: Config) -> Accesses:
    """Return the read and write sets of a command.

    Accumulators are left out: one in-order pipeline reads and writes them.

    Examples
    --------
    >>> accesses(Command.make(Opcode.LOAD, lines=2, rows=4, row=8, pitch=16), Config()).writes
    (range(8, 12), range(24, 28))
    """
    match command.opcode:
        case Opcode.LOAD:
            rows, beats = _transfer(command, config)
            return Accesses(writes=rows, window=command["window"], dram_reads=beats)
        case Opcode.STORE:
            rows, beats = _transfer(command, config)
            return Accesses(reads=rows, window=command["window"], dram_writes=beats)
        case Opcode.CONV:
            return _conv(command, config)
        case Opcode.VECTOR:
            return _vector(command, config)
    return Accesses()


_get_transfer = itemgetter("row", "pitch", "rows", "lines", "offset", "stride")


def _transfer(command: Command, config: Config) -> tuple[Ranges, Ranges]:
    row, pitch, rows, lines, offset, stride = _get_transfer(command.fields)
    beats = -(-rows * config.row_bytes // BEAT_BYTES)
    return (
        line_ranges(row, rows, pitch, lines),
        line_ranges(offset // BEAT_BYTES, beats, stride // BEAT_BYTES, lines),
    )


def conv_shape(command: Command) -> tuple[int, int]:
    """Return the k-tiles of a CONV, and the cycles in which one of them is streamed."""
    rows, columns = command["rows"], command["columns"]
    if command["depthwise"]:
        rows = (rows - 1) * command["stride_y"] + command["kernel_rows"]
        columns = (columns - 1) * command["stride_x"] + command["kernel_columns"]
        return 1, rows * columns
    k_tiles = command["blocks"] * command["kernel_rows"] * command["kernel_columns"]
    return k_tiles, rows * (columns + bool(command["byte_step"]))


_get_operands = itemgetter(
    *("act_row", "weight_row", "drain", "record_form", "record_row"),
    *("depthwise", "blocks", "kernel_rows", "kernel_columns"),
)


def _conv(command: Command, config: Config) -> Accesses:
    row, weight, drain, form, record, depthwise, *taps = _get_operands(command.fields)
    k_tiles = 1 if depthwise else taps[0] * taps[1] * taps[2]
    early = [range(weight, weight + k_tiles * config.array_size)]
    writes: Ranges = ()
    if drain == _REQUANTIZE:
        rows = config.short_record_rows if form == RecordForm.SHORT else config.record_rows
        early.append(range(record, record + rows))
    if drain != _KEEP:
        writes = _image(command, "out", RAW_ROWS if drain == _RAW else 1)
    # Of each image row, the span between the ends of what is read.
    relative = _relative_activations(_get_geometry(command.fields), config.array_size)
    return Accesses(shift_ranges(relative, row), writes, tuple(early))


_KEEP, _RAW, _REQUANTIZE = map(int, (Drain.KEEP, Drain.RAW, Drain.REQUANTIZE))

_GEOMETRY = (
    *("depthwise", "byte_step", "rows", "columns", "stride_y", "stride_x", "act_pitch"),
    *("act_block_pitch", "height", "width", "pad_top", "pad_left", "blocks", "kernel_rows"),
    *("kernel_columns", "dilation_y", "dilation_x"),
)
"""Fields of a CONV that say what it reads, relative to its first row."""

_get_geometry = itemgetter(*_GEOMETRY)


@lru_cache(maxsize=4096)
def _relative_activations(geometry: tuple[int, ...], size: int) -> Ranges:
    """Return the rows read, counted from the first one; the commands of a layer share them."""
    command = dict(zip(_GEOMETRY, geometry, strict=True))

    def taps(axis: str, outputs: int, kernel: int) -> tuple[int, int, int]:
        stride, dilation = command[f"stride_{axis}"], command[f"dilation_{axis}"]
        if command["depthwise"]:  # the stream does not leave out what lies between the windows
            outputs, stride = (outputs - 1) * stride + 1, dilation
        return outputs, stride, (kernel - 1) * dilation

    outputs, stride, reach = taps("y", command["rows"], command["kernel_rows"])
    lines = sorted(
        {
            oy * stride + ky
            for oy in range(outputs)
            for ky in range(0, reach + 1, command["dilation_y"])
        }
    )
    outputs, stride, reach = taps("x", command["columns"], command["kernel_columns"])
    last = (outputs - 1) * stride + reach
    if command["byte_step"]:
        last = (outputs - 1) * command["byte_step"] // size + 1 + reach
    last = min(last - command["pad_left"], command["width"] - 1)
    starts = (
        block * command["act_block_pitch"] + (line - command["pad_top"]) * command["act_pitch"]
        for block in range(command["blocks"])
        for line in lines
        if 0 <= line - command["pad_top"] < command["height"]
    )
    return merge_ranges([range(start, start + last + 1) for start in starts if last >= 0])


def _vector(command: Command, config: Config) -> Accesses:
    operation = VectorOp(command["operation"])
    window = operation in (VectorOp.MAX, VectorOp.SUM)
    reads: list[range] = []
    for line in range(command["window_rows"] if window else 1):
        size = command["window_columns"] if window else 1
        reads += _image(command, "a", size, line * command["window_pitch"])
    if operation in (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL):
        reads += _image(command, "b", 1)
    if rows := vector_param_rows(operation, config):
        reads.append(range(command["param_row"], command["param_row"] + rows))
    return Accesses(merge_ranges(reads), _image(command, "out", 1))


def vector_param_rows(operation: VectorOp, config: Config) -> int:
    """Return the rows of the parameters of a VECTOR."""
    part = -(-RECORD_BYTES // config.row_bytes)
    match operation:
        case VectorOp.SUM:
            return part
        case VectorOp.ADD | VectorOp.SUB | VectorOp.MUL:
            return 2 * part
        case VectorOp.AFFINE:
            return config.record_rows
        case VectorOp.LUT:
            return LUT_BYTES // config.row_bytes
    return 0


_get_image = {
    name: itemgetter(*(f"{name}_{part}" for part in ("row", "pitch", "step")), "rows", "columns")
    for name in ("a", "b", "out")
}


def _image(command: Command, name: str, size: int, offset: int = 0) -> Ranges:
    """Return the rows of a region, ``size`` adjacent ones for each position."""
    row, pitch, step, rows, columns = _get_image[name](command.fields)
    row += offset
    if step <= size or columns == 1:
        return line_ranges(row, (columns - 1) * step + size, pitch, rows)
    starts = (row + y * pitch + x * step for y in range(rows) for x in range(columns))
    return merge_ranges([range(start, start + size) for start in starts])
