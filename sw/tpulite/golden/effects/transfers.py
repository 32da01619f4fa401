"""What LOAD and STORE touch."""

from collections.abc import Iterator

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import PAGE_BYTES, WindowBinding
from tpulite.arch.registers import Fault
from tpulite.golden.effects.access import NO_ROWS, FaultSite, Footprint, Span


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
