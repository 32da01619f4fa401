"""What a command reads and writes: the ground on which tokens are placed."""

from dataclasses import dataclass
from functools import lru_cache

from tpulite.arch.config import BEAT_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES, RAW_ROWS, Command, Drain, Opcode, RecordForm, VectorOp

__all__ = ["Accesses", "accesses", "conv_shape", "vector_param_rows"]

Ranges = tuple[range, ...]


@dataclass(frozen=True)
class Accesses:
    """Read and write sets of one command.

    Parameters
    ----------
    reads, writes : tuple of range
        Rows of the unified buffer.
    early : tuple of range
        Rows that CONV may read before its wait if it has ``prefetch``; not in ``reads``.
    window : int
        DRAM window of a transfer.
    dram_reads, dram_writes : tuple of range
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


def _lines(command: Command, row: str, pitch: str) -> Ranges:
    starts = (command[row] + line * command[pitch] for line in range(command["lines"]))
    return _merge([range(start, start + command["rows"]) for start in starts])


def _transfer(command: Command, config: Config) -> tuple[Ranges, Ranges]:
    beats = -(-command["rows"] * config.row_bytes // BEAT_BYTES)
    starts = (
        (command["offset"] + line * command["stride"]) // BEAT_BYTES
        for line in range(command["lines"])
    )
    return _lines(command, "row", "pitch"), _merge([range(s, s + beats) for s in starts])


def conv_shape(command: Command) -> tuple[int, int]:
    """Return the k-tiles of a CONV, and the cycles in which one of them is streamed."""
    rows, columns = command["rows"], command["columns"]
    if command["depthwise"]:
        rows = (rows - 1) * command["stride_y"] + command["kernel_rows"]
        columns = (columns - 1) * command["stride_x"] + command["kernel_columns"]
        return 1, rows * columns
    k_tiles = command["blocks"] * command["kernel_rows"] * command["kernel_columns"]
    return k_tiles, rows * (columns + bool(command["byte_step"]))


def _conv(command: Command, config: Config) -> Accesses:
    weight, k_tiles = command["weight_row"], conv_shape(command)[0]
    early = [range(weight, weight + k_tiles * config.array_size)]
    writes: Ranges = ()
    if command["drain"] == Drain.REQUANTIZE:
        short = command["record_form"] == RecordForm.SHORT
        rows = config.short_record_rows if short else config.record_rows
        early.append(range(command["record_row"], command["record_row"] + rows))
    if command["drain"] != Drain.KEEP:
        size = RAW_ROWS if command["drain"] == Drain.RAW else 1
        writes = _image(command, "out", size)
    return Accesses(_activations(command, config), writes, tuple(early))


def _activations(command: Command, config: Config) -> Ranges:
    """Return the rows that a CONV may read: of each image row, the span between its ends."""
    row = command["act_row"]
    geometry = tuple(command[name] for name in _GEOMETRY)
    pieces = _relative_activations(geometry, config.array_size)
    return tuple(range(row + first, row + stop) for first, stop in pieces)


_GEOMETRY = (
    *("depthwise", "byte_step", "rows", "columns", "stride_y", "stride_x", "act_pitch"),
    *("act_block_pitch", "height", "width", "pad_top", "pad_left", "blocks", "kernel_rows"),
    *("kernel_columns", "dilation_y", "dilation_x"),
)
"""Fields of a CONV that say what it reads, relative to its first row."""


@lru_cache(maxsize=4096)
def _relative_activations(geometry: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...]:
    """Return the rows read as pairs of first and end; the commands of a layer share them."""
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
    merged = _merge([range(start, start + last + 1) for start in starts if last >= 0])
    return tuple((piece.start, piece.stop) for piece in merged)


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
    return Accesses(_merge(reads), _image(command, "out", 1))


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


def _image(command: Command, name: str, size: int, offset: int = 0) -> Ranges:
    """Return the rows of a region, ``size`` adjacent ones for each position."""
    row, pitch, step = (command[f"{name}_{part}"] for part in ("row", "pitch", "step"))
    rows, columns = command["rows"], command["columns"]
    if step == size or columns == 1:
        lines = [
            range(start, start + size * columns)
            for start in (row + offset + y * pitch for y in range(rows))
        ]
    else:
        lines = [
            range(start, start + size)
            for start in (
                row + offset + y * pitch + x * step for y in range(rows) for x in range(columns)
            )
        ]
    return _merge(lines)


def _merge(ranges: list[range]) -> Ranges:
    """Sort ranges and join those that touch."""
    ordered = sorted(ranges, key=lambda piece: piece.start)
    merged = ordered[:1]
    for piece in ordered[1:]:
        if piece.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, piece.stop))
        else:
            merged.append(piece)
    return tuple(merged)
