"""Front half of a DMA engine: commands to checked bursts."""

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES, WINDOWS
from tpulite.arch.registers import Fault, Permission
from tpulite_rtl.bus.axi import BURST
from tpulite_rtl.dma.geometry import rows_per_beat
from tpulite_rtl.dma.window import WINDOW_LAYOUT
from tpulite_rtl.lib.interfaces import FAULT, ROW_BITS
from tpulite_rtl.lib.layout import INDEX_BITS, command_layout

__all__ = ["STARTED", "BurstSplitter", "descriptor_layout", "rows_layout"]

STARTED = data.StructLayout({"signal": len(isa.Engine), "index": INDEX_BITS})
"""A command that has started: whom it signals at its end, and its index."""

_OFFSET_BITS = ceil_log2(BEAT_BYTES)  # addresses are counted in beats here
_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES


_ORIGIN = data.StructLayout({"address": ADDRESS_BITS, "index": INDEX_BITS, "last": 1})
"""Where a burst comes from: its address, its command, and whether it is the last of the command."""


def rows_layout(config: Config) -> data.StructLayout:
    """Return the layout of what a burst carries: rows of the unified buffer."""
    return data.StructLayout(
        {
            "len": 8,  # beats minus one
            "first": 1,  # begins a line, whose rows start at `row`; else it continues one
            "row": ROW_BITS,
            "tail": ceil_log2(rows_per_beat(config)),  # rows in the last beat, minus one
            "flip": 1,
        }
    )


def descriptor_layout(config: Config) -> data.StructLayout:
    """Return the layout of a burst's descriptor, for the half of the engine that moves its data."""
    return data.StructLayout({"origin": _ORIGIN, "rows": rows_layout(config)})


class BurstSplitter(wiring.Component):
    """Start commands, cut their lines into bursts, check these, and issue their addresses.

    Each line is checked against the unified buffer, then each of its bursts against the window; at
    the first that fails the splitter shows a fault and goes no further. A burst is never longer
    than ``burst_beats`` and never crosses a page.

    A command leaves its queue as soon as the one before has issued its last burst, and waits in
    registers for its tokens, which it can take in the next cycle; the address of its first burst is
    valid two cycles later. One burst a cycle, and one in two cycles of a line that leaves its
    window; after each command two cycles are lost.

    Parameters
    ----------
    config : Config
        The machine.
    opcode : Opcode
        ``LOAD`` or ``STORE``: which permission it takes.
    """

    def __init__(self, config: Config, opcode: isa.Opcode) -> None:
        if opcode not in (isa.Opcode.LOAD, isa.Opcode.STORE):
            raise ValueError(f"Opcode of a DMA engine must be LOAD or STORE, not {opcode!r}")
        self.config = config
        self.opcode = opcode
        super().__init__(
            {
                # Commands in order; ``ready`` is a register.
                "command": In(stream.Signature(command_layout(opcode))),
                # Wait mask of the command that wants to start: a register.
                "take": Out(stream.Signature(unsigned(len(isa.Engine)))),
                # The DRAM windows.
                "windows": In(data.ArrayLayout(WINDOW_LAYOUT, WINDOWS)),
                # Issue nothing more. An address that is valid already stays so until it is
                # accepted.
                "stop": In(1),
                # A burst has ended in this cycle.
                "retire": In(1),
                # A command waits for its tokens.
                "waiting": Out(1),
                # A command has started, and bursts of it are left to issue.
                "issuing": Out(1),
                # The command that waits, or whose bursts are issued.
                "index": Out(INDEX_BITS),
                # Commands as they start.
                "started": Out(stream.Signature(STARTED, always_ready=True)),
                # Channel AR or AW.
                "address": Out(stream.Signature(BURST)),
                # What belongs to an address, in the cycle from which on the address is valid. At
                # most ``dma_bursts`` are outstanding.
                "descriptor": Out(stream.Signature(descriptor_layout(config), always_ready=True)),
                # What a burst carries, in the cycle in which it is issued: the one before its
                # address is valid.
                "rows": Out(stream.Signature(rows_layout(config), always_ready=True)),
                # Bursts issued and not retired, counted from the cycle when their address is valid.
                "outstanding": Out(range(config.dma_bursts + 1)),
                # The burst or line that comes next is illegal; stays until reset.
                "fault": Out(FAULT),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        command = self.command.payload
        permission = Permission.READ if self.opcode == isa.Opcode.LOAD else Permission.WRITE
        per_beat = rows_per_beat(self.config)
        per_row = max(self.config.row_bytes // BEAT_BYTES, 1)

        # The command at work, in beats. Lines are never followed beyond the first one that is
        # illegal, so these widths cannot wrap: `room` is what the window still holds, and a legal
        # line leaves it positive before a stride is subtracted, and `spare` no less than zero. The
        # address has a bit to spare.
        active = self.issuing
        allowed = Signal()
        flip = Signal()
        index = self.index
        address = Signal(ADDRESS_BITS - _OFFSET_BITS + 1)
        room = Signal(signed(32 - _OFFSET_BITS + 2))
        beats_left = Signal(16)
        first = Signal()
        line_address = Signal.like(address)  # while the command waits: its offset in the window
        line_room = Signal.like(room)
        spare = Signal.like(room)  # what the window holds beyond this line, negative if too little
        line_beats = Signal.like(beats_left)
        lines_left = Signal(len(command.lines))
        stride = Signal(32 - _OFFSET_BITS)
        row = Signal(16)
        last_row = Signal(16)  # while the command waits: its rows
        pitch = Signal(len(command.pitch))
        tail = Signal(ceil_log2(per_beat))

        # A command is copied as it is, and its window; addresses are worked out while it waits for
        # its tokens.
        window = Signal(WINDOW_LAYOUT)
        wait, signal = Signal.like(command.wait), Signal.like(command.signal)
        m.d.comb += self.command.ready.eq(~active & ~self.waiting & ~self.stop)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.waiting.eq(1),
                wait.eq(command.wait),
                signal.eq(command.signal),
                line_address.eq(command.offset >> _OFFSET_BITS),
                flip.eq(command.flip),
                index.eq(command.index),
                lines_left.eq(command.lines),
                stride.eq(command.stride >> _OFFSET_BITS),
                row.eq(command.row),
                last_row.eq(command.rows),
                pitch.eq(command.pitch),
                tail.eq(command.rows - 1),
            ]
            with m.Switch(command.window):
                for place in range(WINDOWS):
                    with m.Case(place):
                        m.d.sync += window.eq(self.windows[place])

        # Start.
        starts = Signal()
        beats = Signal.like(beats_left)
        start = Signal.like(address)
        first_room = Signal.like(room)
        m.d.comb += [
            self.take.payload.eq(wait),
            self.take.valid.eq(self.waiting & ~self.stop),
            starts.eq(self.take.valid & self.take.ready),
            self.started.valid.eq(starts),
            self.started.payload.signal.eq(signal),
            self.started.payload.index.eq(index),
            beats.eq(((last_row + (per_beat - 1)) >> ceil_log2(per_beat)) * per_row),
            start.eq((window.base >> _OFFSET_BITS) + line_address),
            first_room.eq((window.size >> _OFFSET_BITS) - line_address),
        ]
        with m.If(starts):
            m.d.sync += [
                self.waiting.eq(0),
                active.eq(1),
                allowed.eq((window.permission & permission) != 0),
                line_address.eq(start),
                line_room.eq(first_room),
                room.eq(first_room),
                spare.eq(first_room - beats),
                line_beats.eq(beats),
                beats_left.eq(beats),
                first.eq(1),
                last_row.eq(row + last_row - 1),
            ]

        # The next burst ends at its limit, which is known before: the longest burst or the page.
        # Else it ends with its line. It fits the window if its line does, which is known from the
        # beginning of the line. Whether a burst of another line fits is known a cycle later. Bits
        # beyond those of the limit are not compared: one that is set decides.
        longest = min(self.config.burst_beats, _PAGE_BEATS)
        limit = Signal(range(longest + 1))
        ends_line = Signal()
        ends_command = Signal()
        fits_buffer = Signal()
        burst_fits = Signal(init=1)  # a cycle late
        known = Signal(init=1)  # nothing was issued meanwhile: it is this burst that fits, or not
        permitted = Signal()
        m.d.comb += [
            ends_line.eq(~beats_left[len(limit) :].any() & (beats_left[: len(limit)] <= limit)),
            ends_command.eq(ends_line & (lines_left == 1)),
            fits_buffer.eq(last_row < self.config.ub_rows),
            permitted.eq(allowed & ~address[-1]),
        ]

        # Issue.
        free = Signal()
        issue = self.rows.valid
        here = address[: ADDRESS_BITS - _OFFSET_BITS] << _OFFSET_BITS
        origin, rows = self.descriptor.payload.origin, self.rows.payload
        m.d.comb += [
            free.eq((self.outstanding != self.config.dma_bursts) | self.retire),
            issue.eq(
                active
                & fits_buffer
                & permitted
                & ((spare >= 0) | (known & burst_fits))
                & free
                & (~self.address.valid | self.address.ready)
                & ~self.stop
            ),
            origin.address.eq(self.address.payload.address),
            origin.index.eq(index),  # stays for that cycle, as does the next one
            rows.len.eq(Mux(ends_line, beats_left - 1, limit - 1)),
            rows.first.eq(first),
            rows.row.eq(row),
            rows.tail.eq(Mux(ends_line, tail, per_beat - 1)),
            rows.flip.eq(flip),
        ]
        m.d.sync += [
            self.outstanding.eq(self.outstanding + issue - self.retire),
            self.descriptor.valid.eq(issue),
            origin.last.eq(ends_command),
            self.descriptor.payload.rows.eq(rows),
        ]
        with m.If(self.address.ready):
            m.d.sync += self.address.valid.eq(0)
        with m.If(issue):
            m.d.sync += [
                self.address.valid.eq(1),
                self.address.payload.address.eq(here),
                self.address.payload.len.eq(rows.len),
                beats_left.eq(beats_left - limit),
                room.eq(room - limit),
                first.eq(0),
            ]
            with m.If(ends_line):
                m.d.sync += [
                    line_address.eq(line_address + stride),
                    line_room.eq(line_room - stride),
                    room.eq(line_room - stride),
                    spare.eq(spare - stride),
                    beats_left.eq(line_beats),
                    first.eq(1),
                    lines_left.eq(lines_left - 1),
                    row.eq(row + pitch),
                    last_row.eq(last_row + pitch),
                    active.eq(~ends_command),
                ]

        # Where the next burst begins, and its limit: each in all cases at once, as which one it is
        # becomes known late.
        page_bits = ceil_log2(_PAGE_BEATS)

        def begin(following: Value) -> list:
            to_page_end = _PAGE_BEATS - following[:page_bits]
            shortened = Mux(to_page_end < longest, to_page_end, longest)
            return [address.eq(following), limit.eq(shortened)]

        with m.If(starts):
            m.d.sync += begin(start)
        with m.If(issue):
            m.d.sync += begin(address + limit)
            with m.If(ends_line):
                m.d.sync += begin(line_address + stride)

        m.d.sync += [
            burst_fits.eq((room >= 0) & (room[len(limit) :].any() | (limit <= room[: len(limit)]))),
            known.eq(~starts & ~issue),
        ]

        # Faults; nothing is checked once it must not be issued.
        leaves_window = Signal()
        m.d.comb += [
            leaves_window.eq((spare < 0) & known & ~burst_fits),
            self.fault.valid.eq(active & ~(fits_buffer & permitted & ~leaves_window) & ~self.stop),
            self.fault.code.eq(Mux(fits_buffer, Fault.WINDOW, Fault.BUFFER)),
            self.fault.index.eq(index),
            self.fault.address.eq(Mux(fits_buffer, here, last_row)),
        ]
        return m
