"""What a command touches: rows of the unified buffer, accumulators, bytes of DRAM."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, RECORD_BYTES, Config
from tpulite.arch.effects import BINARY, ELEMENTWISE, WINDOWED, parameter_rows
from tpulite.arch.isa import WORDS_BYTES, Command, Opcode, VectorOp
from tpulite.arch.memory import PAGE_BYTES, WindowBinding
from tpulite.arch.registers import Fault
from tpulite.golden.effects.access import NO_ROWS, FaultSite, Footprint, Span
from tpulite.golden.effects.convolution import conv_footprint

__all__ = ["FaultSite", "Footprint", "Span", "decode_commands", "footprint"]


def footprint(command: Command, config: Config, windows: Sequence[WindowBinding]) -> Footprint:
    """Return what a command touches, in the order in which the hardware checks and does it.

    Parameters
    ----------
    command : Command
        A command whose fields are legal.
    windows : sequence of WindowBinding
        The DRAM windows; spans and fault addresses are absolute.
    """
    match command.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return transfer_footprint(command, config, windows[command["window"]])
        case Opcode.CONV:
            return conv_footprint(command, config)
        case Opcode.VECTOR:
            return vector_footprint(command, config)
        case _:
            return Footprint()


def decode_commands(data: bytes) -> tuple[Command | Fault, ...]:
    """Decode a command stream; what does not decode becomes the fault that its dispatch raises."""
    commands: list[Command | Fault] = []
    for start in range(0, len(data), COMMAND_BYTES):
        word = data[start : start + COMMAND_BYTES]
        try:
            commands.append(isa.decode(word))
        except ValueError:
            known = word[0] & 0xF in list(Opcode)
            commands.append(Fault.FIELD if known else Fault.OPCODE)
    return tuple(commands)


def bursts(address: int, beats: int, burst_beats: int) -> Iterator[tuple[int, int]]:
    """Split a line into AXI bursts: their addresses and beats.

    Examples
    --------
    >>> list(bursts(4096 - 32, 20, 16))
    [(4064, 2), (4096, 16), (4352, 2)]
    """
    while beats:
        to_page = (PAGE_BYTES - address % PAGE_BYTES) // BEAT_BYTES
        length = min(beats, burst_beats, to_page)
        yield address, length
        address += length * BEAT_BYTES
        beats -= length


def transfer_footprint(command: Command, config: Config, window: WindowBinding) -> Footprint:
    """Return what a LOAD or STORE touches, line by line until one of them faults."""
    store = command.opcode == Opcode.STORE
    permitted = window.write if store else window.read
    size = window.size if permitted else 0
    line_bytes = command["rows"] * config.row_bytes
    beats = -(-line_bytes // BEAT_BYTES)
    spans: list[Span] = []
    fault = None
    for line in range(command["lines"]):
        row = command["row"] + line * command["pitch"]
        last = row + command["rows"] - 1
        if last >= config.ub_rows:
            fault = FaultSite(Fault.BUFFER, last)
            break
        offset = command["offset"] + line * command["stride"]
        start = window.base + offset
        if offset + beats * BEAT_BYTES > size:
            address = next(
                address
                for address, length in bursts(start, beats, config.burst_beats)
                if address + length * BEAT_BYTES > window.base + size
            )
            fault = FaultSite(Fault.WINDOW, address)
            if store and address > start:
                part = -(-(address - start) // config.row_bytes)
                spans.append(Span(start, address, range(row, row + part)))
            break
        spans.append(Span(start, start + line_bytes, range(row, last + 1)))
    touched = np.concatenate([NO_ROWS, *(np.asarray(span.rows) for span in spans)])
    if store:
        return Footprint(reads=touched, spans=tuple(spans), fault=fault)
    return Footprint(
        writes=touched,
        reads_before=np.zeros(len(touched), dtype=np.int64),
        spans=tuple(spans),
        fault=fault,
    )


def vector_footprint(command: Command, config: Config) -> Footprint:
    """Return what a VECTOR touches: its parameters, then output vectors until one faults."""
    limit = config.ub_rows
    operation = VectorOp(command["operation"])
    parameters = command["param_row"] + np.arange(parameter_rows(operation, config))
    if parameters.size and parameters[-1] >= limit:
        return Footprint(fault=FaultSite(Fault.BUFFER, int(parameters[-1])))
    a, b, out = (operand_rows(command, name) for name in ("a", "b", "out"))
    window = window_rows(command)
    if operation not in BINARY:
        b = np.full_like(a, -1)
    wrong = np.flatnonzero(np.maximum(np.maximum(a + window.max(), b), out) >= limit)
    fault = None
    if wrong.size:
        first = int(wrong[0])
        rows = np.insert(np.append(out[first], a[first] + window), 2, b[first])
        fault = FaultSite(Fault.BUFFER, int(rows[rows >= limit][0]))
        a, b, out = a[:first], b[:first], out[:first]
    reads = a[:, None] + window
    if operation in BINARY:
        reads = np.insert(reads, 1, b, axis=1)
    return Footprint(
        early_reads=parameters,
        reads=reads.ravel(),
        writes=out,
        # An output vector is computed when everything that it needs has been read.
        reads_before=(1 + np.arange(len(out))) * reads.shape[1],
        fault=fault,
    )


def record_offset(operation: VectorOp, config: Config) -> int:
    """Return the rows of parameters before the channel record."""
    if operation == VectorOp.SHARE:
        return WORDS_BYTES // config.row_bytes
    return -(-RECORD_BYTES // config.row_bytes) if operation in ELEMENTWISE else 0


def operand_rows(command: Command, name: str) -> NDArray[np.int64]:
    """Return the row of an operand, or of the result, for each output vector."""
    lines = command[f"{name}_row"] + np.arange(command["rows"]) * command[f"{name}_pitch"]
    return (lines[:, None] + np.arange(command["columns"]) * command[f"{name}_step"]).ravel()


def window_rows(command: Command) -> NDArray[np.int64]:
    """Return the rows of the window, from its first one, in the order of reading."""
    if command["operation"] not in WINDOWED:
        return np.zeros(1, dtype=np.int64)
    lines = np.arange(command["window_rows"]) * command["window_pitch"]
    return (lines[:, None] + np.arange(command["window_columns"])).ravel()
