"""What a command touches: rows of the unified buffer, accumulators, bytes of DRAM."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Drain, Opcode, RecordForm
from tpulite.arch.memory import PAGE_BYTES, WindowBinding
from tpulite.arch.registers import Fault

__all__ = ["FaultSite", "Footprint", "Span", "bursts", "decode_commands", "footprint"]

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class FaultSite:
    """Why a command stops the machine, and where (see :class:`~tpulite.arch.registers.Fault`)."""

    code: Fault
    address: int


@dataclass(frozen=True)
class Span:
    """A line of a transfer: DRAM bytes ``[start, stop)`` and the rows that hold them.

    Only a STORE that faults within a line has bytes that end within a row.
    """

    start: int
    stop: int
    rows: range

    @property
    def beats(self) -> range:
        """Indices of the 16-byte beats that the bytes touch; a line starts at a beat."""
        return range(self.start // BEAT_BYTES, -(-self.stop // BEAT_BYTES))


@dataclass(frozen=True)
class Footprint:
    """Everything that a command touches before it ends, or before its fault.

    Parameters
    ----------
    early_reads : array of int
        Rows of weights and records, read before anything is written. With ``prefetch`` they may be
        read as soon as the MXU's previous command has started.
    reads, writes : array of int
        All other rows read, and the rows written, each in order.
    reads_before : array of int
        How many of ``reads`` have surely happened when each of ``writes`` does.
    spans : tuple of Span
        Lines in DRAM, read by LOAD, written by STORE, in order.
    accumulators : range
        Accumulator rows of a MATMUL.
    fault : FaultSite, optional
        What stops the command.
    """

    early_reads: NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)
    reads: NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)
    writes: NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)
    reads_before: NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)
    spans: tuple[Span, ...] = ()
    accumulators: range = range(0)
    fault: FaultSite | None = None


def footprint(command: Command, config: Config, windows: Sequence[WindowBinding]) -> Footprint:
    """Return what a command touches, in the order in which the hardware checks and does it.

    Parameters
    ----------
    command : Command
        A command whose fields are legal.
    config : Config
        The machine.
    windows : sequence of WindowBinding
        The DRAM windows; spans and fault addresses are absolute.
    """
    match command.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return _transfer(command, config, windows[command["window"]])
        case Opcode.MATMUL:
            return _matmul(command, config)
        case Opcode.COPY:
            return _copy(command, config)
        case _:
            return Footprint()


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


def _transfer(command: Command, config: Config, window: WindowBinding) -> Footprint:
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
    touched = np.concatenate([_NO_ROWS, *(np.asarray(span.rows) for span in spans)])
    if store:
        return Footprint(reads=touched, spans=tuple(spans), fault=fault)
    return Footprint(
        writes=touched,
        reads_before=np.zeros(len(touched), dtype=np.int64),
        spans=tuple(spans),
        fault=fault,
    )


def _matmul(command: Command, config: Config) -> Footprint:
    m, k_tiles = command["m"], command["k_tiles"]
    drain = Drain(command["drain"])
    record_rows = 0
    if drain == Drain.REQUANTIZE:
        short = command["record_form"] == RecordForm.SHORT
        record_rows = config.short_record_rows if short else config.record_rows
    rows_per_vector = {Drain.KEEP: 0, Drain.REQUANTIZE: 1, Drain.RAW: 4}[drain]

    def region(name: str, rows: int) -> range:
        return range(command[name], command[name] + rows)

    accumulators = region("acc_row", m)
    weights = region("weight_row", k_tiles * config.array_size)
    records = region("record_row", record_rows)
    outputs = region("out_row", rows_per_vector * m)
    for rows, limit in (
        (accumulators, config.acc_rows),
        (weights, config.ub_rows),
        (records, config.ub_rows),
        (outputs, config.ub_rows),
    ):
        if rows and rows[-1] >= limit:
            return Footprint(fault=FaultSite(Fault.BUFFER, rows[-1]))

    early_reads = np.concatenate([weights, records]).astype(np.int64)
    starts = command["act_row"] + np.arange(k_tiles) * command["act_pitch"]
    legal = int(np.count_nonzero(starts + m <= config.ub_rows))
    reads = (starts[:legal, None] + np.arange(m)).ravel()
    if legal < k_tiles:
        return Footprint(
            early_reads=early_reads,
            reads=reads,
            accumulators=accumulators,
            fault=FaultSite(Fault.BUFFER, int(starts[legal]) + m - 1),
        )
    # Output vector i leaves after vector i of the last k-tile has entered; later ones may not have.
    return Footprint(
        early_reads=early_reads,
        reads=reads,
        writes=np.asarray(outputs, dtype=np.int64),
        reads_before=(k_tiles - 1) * m + 1 + np.arange(m).repeat(rows_per_vector),
        accumulators=accumulators,
    )


def _copy(command: Command, config: Config) -> Footprint:
    rows, lines = command["rows"], command["lines"]
    sources = command["src_row"] + np.arange(lines) * command["src_pitch"]
    targets = command["dst_row"] + np.arange(lines) * command["dst_pitch"]
    wrong = np.flatnonzero(np.maximum(sources, targets) + rows > config.ub_rows)
    fault = None
    if wrong.size:
        lines = int(wrong[0])
        source_last, target_last = int(sources[lines]) + rows - 1, int(targets[lines]) + rows - 1
        last = source_last if source_last >= config.ub_rows else target_last
        fault = FaultSite(Fault.BUFFER, last)
    reads = (sources[:lines, None] + np.arange(rows)).ravel()
    writes = (targets[:lines, None] + np.arange(rows)).ravel()
    return Footprint(
        reads=reads, writes=writes, reads_before=1 + np.arange(len(writes)), fault=fault
    )
