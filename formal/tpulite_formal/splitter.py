"""Bursts of LOAD and STORE stay in their windows and pages, whatever the commands are."""

from functools import partial

from amaranth.hdl import Array, Cat, Mux, Signal, Value, signed

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES, WINDOWS
from tpulite.arch.registers import Permission
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.dma.burst_splitter import BurstSplitter
from tpulite_rtl.lib.interfaces import ROW_BITS

__all__ = ["PROOFS"]

_OFFSET_BITS = (BEAT_BYTES - 1).bit_length()
_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES
_PAGE_BITS = (_PAGE_BEATS - 1).bit_length()
_LONGEST = Config().burst_beats
_WIDE = signed(ADDRESS_BITS + 4)
"""Holds any sum of addresses."""


def _splitter(opcode: Opcode, size: int) -> Harness:
    """Return a harness with any legal commands and any windows, which stay as they are."""
    config = Config(array_size=size)
    dut = BurstSplitter(config, opcode)
    h = Harness(dut)
    command = dut.command.payload
    windows = Value.cast(dut.windows)
    h.assume(windows == h.constant(len(windows), "windows_told"))
    h.assume(~dut.retire | (dut.outstanding != 0))
    h.assume((command.rows != 0) & (command.lines != 0))  # else there is no such command

    number, rows = Signal.like(command.window), Signal.like(command.rows)
    with h.m.If(dut.command.valid & dut.command.ready):
        h.m.d.sync += [number.eq(command.window), rows.eq(command.rows)]
    window = Signal.like(dut.windows[0])
    h.m.d.comb += window.eq(Array(dut.windows[place] for place in range(WINDOWS))[number])

    permission = Permission.READ if opcode == Opcode.LOAD else Permission.WRITE
    permitted = (window.permission & permission) != 0
    begin, end = Signal(_WIDE, name="window_begin"), Signal(_WIDE, name="window_end")
    h.m.d.comb += [
        begin.eq(window.base >> _OFFSET_BITS),
        end.eq(begin + (window.size >> _OFFSET_BITS)),
    ]
    _state(h, Value.cast(window), permitted, begin, end, rows)
    _bursts(h, dut, permitted, begin, end, rows)
    return h


def _state(
    h: Harness, window: Value, permitted: Value, begin: Value, end: Value, rows: Value
) -> None:
    """Ask for what the registers mean, from which the properties of bursts follow."""
    waiting, active, first = h.register("waiting"), h.register("issuing"), h.register("first")
    copied, allowed = h.register("window"), h.register("allowed")
    address, room, beats = h.register("address"), h.register("room"), h.register("beats_left")
    line, line_room = h.register("line_address"), h.register("line_room")
    line_beats, limit = h.register("line_beats"), h.register("limit")
    row, last_row = h.register("row"), h.register("last_row")
    page_end = _PAGE_BEATS - address[:_PAGE_BITS]
    while_waiting = [
        copied == window,
        (last_row == rows) & (rows != 0),
        (line >> (32 - _OFFSET_BITS)) == 0,  # an offset in the window
        (row >> ROW_BITS) == 0,
    ]
    while_active = [
        ~waiting,
        allowed == permitted,
        (address >= begin) & (line >= begin),
        (room == end - address) & (line_room == end - line),
        (h.register("spare") == room - beats) & (h.register("spare") == line_room - line_beats),
        Mux(first, address == line, (room >= 0) & (line_room > 0)),
        (beats > 0) & (line_beats > 0),
        ~h.register("known") | (h.register("burst_fits") == (limit <= room)),
        (limit > 0) & (limit <= page_end) & (limit <= _LONGEST),
        (last_row == row + rows - 1) & ~row[-1],
    ]
    h.prove(
        "state",
        "registers mean what they are for, from which the rest follows",
        (~waiting | Cat(while_waiting).all()) & (~active | Cat(while_active).all()),
    )


def _bursts(h: Harness, dut: BurstSplitter, permitted: Value, begin, end, rows) -> None:
    """Ask for what is seen of bursts, in the cycle in which they are first offered."""
    config = dut.config
    burst, carried = dut.address.payload, dut.descriptor.payload.rows
    here, after = Signal(_WIDE, name="burst_begin"), Signal(_WIDE, name="burst_end")
    h.m.d.comb += [here.eq(burst.address >> _OFFSET_BITS), after.eq(here + burst.len + 1)]
    offered = dut.descriptor.valid

    def prove(name: str, text: str, condition: Value) -> None:
        h.prove(name, text, ~offered | condition)

    prove("begin", "a burst begins in the window of its command", here >= begin)
    prove("end", "and ends in it", after <= end)
    prove("wraps", "no address wraps", after <= 1 << (ADDRESS_BITS - _OFFSET_BITS))
    prove("permission", "the window permits it", permitted)
    prove(
        "page",
        f"no burst crosses {PAGE_BYTES} bytes",
        here[:_PAGE_BITS] + burst.len < _PAGE_BEATS,
    )
    prove("longest", "no burst is longer than burst_beats", burst.len < config.burst_beats)
    prove("rows", "all rows of its line are in the buffer", carried.row + rows <= config.ub_rows)
    h.prove("outstanding", "no more bursts than dma_bursts", dut.outstanding <= config.dma_bursts)
    h.prove("offered", "each burst is offered when its descriptor is", ~offered | dut.address.valid)
    h.prove_stable("stable", "an address that is refused stays", dut.address)
    h.cover("short", "a page cuts a burst", offered & (burst.len == 2) & ~carried.first)


def _rows(opcode: Opcode, size: int) -> Harness:
    """Return a harness that looks at rows alone, also between commands."""
    dut = BurstSplitter(Config(array_size=size), opcode)
    h = Harness(dut)
    command = dut.command.payload
    h.assume(command.rows != 0)
    rows = Signal.like(command.rows)
    with h.m.If(dut.command.valid & dut.command.ready):
        h.m.d.sync += rows.eq(command.rows)
    row, last_row = h.register("row"), h.register("last_row")
    h.prove(
        "last",
        "a line's last row follows from its first one",
        ~(dut.waiting & dut.issuing)
        & (~dut.waiting | ((last_row == rows) & (rows != 0) & ((row >> ROW_BITS) == 0)))
        & (~dut.issuing | ((last_row == row + rows - 1) & (rows != 0))),
    )
    h.prove("sum", "a row and a pitch need 15 bits", (row >> ROW_BITS + 1) == 0)
    h.cover("beyond", "a pitch leads beyond all rows", row[ROW_BITS])
    return h


_HOW = {"inductive": True, "mutants": 900}

PROOFS = [
    Proof("dma.burst_splitter", "loads, 4x4", partial(_splitter, Opcode.LOAD, 4), **_HOW),
    Proof("dma.burst_splitter", "stores, 16x16", partial(_splitter, Opcode.STORE, 16), **_HOW),
    Proof("dma.burst_splitter", "rows, 4x4", partial(_rows, Opcode.LOAD, 4), inductive=True),
]
