"""The executable specification of what each command reads and writes, simple and slow.

Benches, program generators and this documentation use it, and the faster implementations of
:mod:`tpulite.golden` are tested against it. It applies to commands that do not fault.

A command is a sequence of steps. Each step reads some rows of the unified buffer and may then
write others, immediately or later, but in order. In addition, the command reads *early* rows
(weights, channel records, parameters) before it writes anything. Transposed weights are not early:
they enter the array as vectors do, each tile before the vectors that it is multiplied by.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.interleave import interleave_of
from tpulite.arch.isa import Command
from tpulite.arch.layouts import LUT_BYTES, RAW_ROWS, WORDS_BYTES
from tpulite.arch.opcodes import Axis, Drain, Opcode, RecordForm, VectorOp
from tpulite.arch.streams import column_start

WINDOWED = (VectorOp.MAX, VectorOp.SUM, VectorOp.NORM)
"""Operations over a window of A; of all others the window is one vector."""

ELEMENTWISE = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL)
"""Operations on A and B alike, whose parameters begin with OPERANDS."""

BINARY = (*ELEMENTWISE, VectorOp.NORM, VectorOp.SHARE)
"""Operations with an operand B."""


class Step(NamedTuple):
    """Rows of the unified buffer that are read, and those that may be written from then on."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True)
class Effects:
    """All that a command touches."""

    early: tuple[int, ...]  #: Rows of weights, records and parameters.
    #: Other rows read, and rows written, each in order.
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    #: How many of ``reads`` have surely happened when each of ``writes`` does.
    reads_before: tuple[int, ...]
    #: Bytes of the DRAM window, line by line, which LOAD reads and STORE writes.
    lines: tuple[range, ...]
    #: Accumulator rows of a CONV, which it reads if it has ``accumulate``, and leaves defined only
    #: if it keeps its sums.
    accumulators: range


def effects(command: Command, config: Config) -> Effects:
    """Return all that a command touches that does not fault.

    Examples
    --------
    >>> load = Command.make(Opcode.LOAD, lines=2, rows=2, row=8, pitch=16, stride=64)
    >>> effects(load, Config()).writes, effects(load, Config()).lines
    ((8, 9, 24, 25), (range(0, 32), range(64, 96)))
    """
    reads: list[int] = []
    writes: list[int] = []
    reads_before: list[int] = []
    for step in steps_of(command, config):
        reads += step.reads
        writes += step.writes
        reads_before += [len(reads)] * len(step.writes)
    return Effects(
        early=tuple(early_rows(command, config)),
        reads=tuple(reads),
        writes=tuple(writes),
        reads_before=tuple(reads_before),
        lines=tuple(lines_of(command, config)),
        accumulators=accumulator_rows(command),
    )


def steps_of(command: Command, config: Config) -> Iterator[Step]:
    """Yield the steps of a command."""
    match command.opcode:
        case Opcode.LOAD | Opcode.STORE:
            yield from _transfer_steps(command)
        case Opcode.CONV if command["depthwise"]:
            yield from _depthwise_steps(command, config)
        case Opcode.CONV:
            yield from _conv_steps(command, config)
        case Opcode.VECTOR:
            yield from _vector_steps(command)


def early_rows(command: Command, config: Config) -> Iterator[int]:
    """Yield the rows that a command reads before it writes anything.

    Those of a CONV with ``prefetch`` are read as soon as the MXU's previous command has started.
    """
    if command.opcode == Opcode.CONV:
        first = command["weight_row"]
        yield from range(first, first + early_weights(command, config))
        if command["drain"] == Drain.REQUANTIZE:
            first = command["record_row"]
            yield from range(first, first + record_rows(command["record_form"], config))
    elif command.opcode == Opcode.VECTOR:
        first = command["param_row"]
        yield from range(first, first + parameter_rows(command["operation"], config))


def early_weights(command: Command, config: Config) -> int:
    """Return how many of the early rows of a CONV are weights: all, or none if transposed."""
    return 0 if command["transposed"] else tile_count(command) * tile_rows(command["int4"], config)


def lines_of(command: Command, config: Config) -> Iterator[range]:
    """Yield the bytes of each line of a LOAD or STORE in its DRAM window."""
    if command.opcode in (Opcode.LOAD, Opcode.STORE):
        for line in range(command["lines"]):
            start = command["offset"] + line * command["stride"]
            yield range(start, start + command["rows"] * config.row_bytes)


def accumulator_rows(command: Command) -> range:
    """Return the accumulator rows of a command: one for each output vector of a CONV."""
    if command.opcode != Opcode.CONV:
        return range(0)
    first = command["acc_row"]
    return range(first, first + command["rows"] * command["columns"])


def tile_count(command: Command) -> int:
    """Return the weight tiles of a CONV."""
    if command["depthwise"]:
        return 1
    return command["blocks"] * command["kernel_rows"] * command["kernel_columns"]


def tile_rows(int4: int, config: Config) -> int:
    """Return the rows of the buffer that a weight tile takes: N, or half of them for int4."""
    return config.array_size // 2 if int4 else config.array_size


def record_rows(form: int, config: Config) -> int:
    """Return the rows of the channel records of an n-block."""
    return config.short_record_rows if form == RecordForm.SHORT else config.record_rows


def parameter_rows(operation: int, config: Config) -> int:
    """Return the rows of the parameters of a VECTOR; each part begins with a row.

    Examples
    --------
    >>> [parameter_rows(operation, Config()) for operation in VectorOp]
    [0, 0, 1, 2, 2, 2, 16, 16, 64, 65]
    """
    part = -(-RECORD_BYTES // config.row_bytes)
    match operation:
        case VectorOp.COPY | VectorOp.MAX:
            return 0
        case VectorOp.SUM:
            return part
        case VectorOp.AFFINE:
            return config.record_rows
        case VectorOp.LUT:
            return LUT_BYTES // config.row_bytes
        case VectorOp.NORM:
            return WORDS_BYTES // config.row_bytes
        case VectorOp.SHARE:
            return WORDS_BYTES // config.row_bytes + part
    return 2 * part


def output_rows(command: Command, y: int, x: int) -> tuple[int, ...]:
    """Return the rows of an output vector of a CONV or VECTOR."""
    first = command["out_row"] + y * command["out_pitch"] + x * command["out_step"]
    if command.opcode == Opcode.CONV and command["drain"] != Drain.REQUANTIZE:
        return tuple(range(first, first + RAW_ROWS)) if command["drain"] == Drain.RAW else ()
    return (first,)


def _transfer_steps(command: Command) -> Iterator[Step]:
    """Yield a step for each row, line by line."""
    for line in range(command["lines"]):
        for i in range(command["rows"]):
            row = command["row"] + line * command["pitch"] + i
            yield Step((), (row,)) if command.opcode == Opcode.LOAD else Step((row,), ())


def _conv_steps(command: Command, config: Config) -> Iterator[Step]:
    """Yield a step for each vector of each k-tile; the last k-tile completes an output in each.

    The k-tiles run over channel blocks, then kernel rows, then kernel columns. In dense mode a
    vector lies in two. A transposed weight tile is a step of its own.
    """
    c = command.fields
    for tile in range(tile_count(command)):
        block, tap = divmod(tile, c["kernel_rows"] * c["kernel_columns"])
        ky, kx = divmod(tap, c["kernel_columns"])
        last = tile == tile_count(command) - 1
        if c["transposed"]:
            first = c["weight_row"] + tile * config.array_size
            yield Step(tuple(range(first, first + config.array_size)), ())
        for oy, ox in _region(command):
            y = oy * c["stride_y"] + ky * c["dilation_y"]
            x = kx * c["dilation_x"]
            if c["byte_step"]:
                x += ox * c["byte_step"] // config.array_size
                reads = *_input_rows(command, block, y, x), *_input_rows(command, block, y, x + 1)
            else:
                reads = _input_rows(command, block, y, x + column_start(c, ox))
            yield Step(reads, output_rows(command, oy, ox) if last else ())


def _depthwise_steps(command: Command, config: Config) -> Iterator[Step]:
    """Yield a step for each input vector; some complete the window of an output.

    :mod:`tpulite.arch.interleave` says which row of the weight tile a tap of the kernel has, if the
    tile has so many. The window of an output is complete with its last tap.
    """
    c, size = command.fields, config.array_size
    columns = (c["columns"] - 1) * c["stride_x"] + c["kernel_columns"]
    rows = (c["rows"] - 1) * c["stride_y"] + c["kernel_rows"]
    across = c["inner"] == Axis.X
    inner, outer = (columns, rows) if across else (rows, columns)
    kernel = c["kernel_rows"], c["kernel_columns"]
    way = interleave_of(c, config)
    last_tap = max(
        o * inner + i
        for o, i in product(*map(range, kernel if across else reversed(kernel)))
        if way.row(o, i) < size
    )
    complete = {}
    for oy, ox in _region(command):
        y, x = oy * c["stride_y"], ox * c["stride_x"]
        complete[(y * inner + x if across else x * inner + y) + last_tap] = oy, ox
    for position in range(inner * outer):
        o, i = divmod(position, inner)
        y, x = (o, i) if across else (i, o)
        reads = _input_rows(command, 0, y * c["dilation_y"], x * c["dilation_x"])
        done = complete.get(position)
        yield Step(reads, () if done is None else output_rows(command, *done))


def _vector_steps(command: Command) -> Iterator[Step]:
    """Yield a step for each output vector: its window of A; B comes beside the first of it."""
    c = command.fields
    window = [
        y * c["window_pitch"] + x
        for y in range(c["window_rows"])
        for x in range(c["window_columns"])
    ]
    for y in range(c["rows"]):
        for x in range(c["columns"]):
            a = c["a_row"] + y * c["a_pitch"] + x * c["a_step"]
            reads = [a + row for row in window] if c["operation"] in WINDOWED else [a]
            if c["operation"] in BINARY:
                reads.insert(1, c["b_row"] + y * c["b_pitch"] + x * c["b_step"])
            yield Step(tuple(reads), output_rows(command, y, x))


def _region(command: Command) -> Iterator[tuple[int, int]]:
    """Yield the outputs (y, x) of a CONV in the order of issue."""
    rows, columns = range(command["rows"]), range(command["columns"])
    if command["inner"] == Axis.X:
        yield from ((y, x) for y in rows for x in columns)
    else:
        yield from ((y, x) for x in columns for y in rows)


def _input_rows(command: Command, block: int, y: int, x: int) -> tuple[int, ...]:
    """Return the row of an input vector of a CONV, counted with the padding; none is in that."""
    c = command.fields
    y, x = y - c["pad_top"], x - c["pad_left"]
    if not (0 <= y < c["height"] and 0 <= x < c["width"]):
        return ()
    return (c["act_row"] + block * c["act_block_pitch"] + y * c["act_pitch"] + x,)
