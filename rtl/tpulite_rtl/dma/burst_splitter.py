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


class _State:
    """Registers of the command at work, of its line and of its next burst; all in beats.

    Lines are never followed beyond the first one that is illegal, so these widths cannot wrap: a
    legal line leaves ``room`` positive before a stride is subtracted, and ``spare`` no less than
    zero. An address has a bit to spare.
    """

    def __init__(self, config: Config, command: data.View) -> None:
        # Of the command, copied as it is.
        wait, signal = Signal.like(command.wait), Signal.like(command.signal)
        self.wait, self.signal = wait, signal
        self.window = Signal(WINDOW_LAYOUT)
        self.allowed = Signal()  # by the permissions of the window
        self.flip = Signal()
        self.stride = Signal(32 - _OFFSET_BITS)
        self.pitch = Signal(len(command.pitch))
        self.tail = Signal(ceil_log2(rows_per_beat(config)))  # rows of a line's last beat, minus 1
        self.lines_left = Signal(len(command.lines))

        # Of the line.
        self.line_address = Signal(ADDRESS_BITS - _OFFSET_BITS + 1)
        self.line_room = Signal(signed(32 - _OFFSET_BITS + 2))  # from its begin to the window's end
        self.line_beats = Signal(16)
        self.spare = Signal.like(self.line_room)  # room beyond the line, negative if too little
        self.row = Signal(16)
        self.last_row = Signal(16)

        # Of the command while it waits for its tokens: in registers that its lines need later.
        self.offset = self.line_address
        self.rows = self.last_row

        # Of the next burst.
        self.address = Signal.like(self.line_address)
        self.room = Signal.like(self.line_room)  # from its begin to the window's end
        self.beats_left = Signal.like(self.line_beats)  # of its line
        self.first = Signal()  # of its line
        self.limit = Signal(range(_longest(config) + 1))  # its most beats: longest, or to the page
        self.burst_fits = Signal(init=1)  # a cycle late
        self.known = Signal(init=1)  # nothing was issued meanwhile: it is this one that fits or not

        # What follows from these.
        self.ends_line = Signal()
        self.ends_command = Signal()
        self.fits_buffer = Signal()
        self.permitted = Signal()


def _longest(config: Config) -> int:
    """Return the most beats of a burst."""
    return min(config.burst_beats, _PAGE_BEATS)


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
        state = _State(self.config, self.command.payload)
        self._accept(m, state)
        starts, start = self._start(m, state)
        self._judge(m, state)
        self._issue(m, state)
        self._follow(m, state, starts, start)
        self._fail(m, state)
        return m

    def _accept(self, m: Module, s: _State) -> None:
        """Copy a command and its window; addresses are worked out while it waits for its tokens."""
        command = self.command.payload
        m.d.comb += self.command.ready.eq(~self.issuing & ~self.waiting & ~self.stop)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.waiting.eq(1),
                s.wait.eq(command.wait),
                s.signal.eq(command.signal),
                s.offset.eq(command.offset >> _OFFSET_BITS),
                s.flip.eq(command.flip),
                self.index.eq(command.index),
                s.lines_left.eq(command.lines),
                s.stride.eq(command.stride >> _OFFSET_BITS),
                s.row.eq(command.row),
                s.rows.eq(command.rows),
                s.pitch.eq(command.pitch),
                s.tail.eq(command.rows - 1),
            ]
            with m.Switch(command.window):
                for place in range(WINDOWS):
                    with m.Case(place):
                        m.d.sync += s.window.eq(self.windows[place])

    def _start(self, m: Module, s: _State) -> tuple[Signal, Signal]:
        """Begin the first line when the tokens are there; return whether, and its address."""
        per_beat = rows_per_beat(self.config)
        per_row = max(self.config.row_bytes // BEAT_BYTES, 1)
        permission = Permission.READ if self.opcode == isa.Opcode.LOAD else Permission.WRITE
        starts = Signal()
        beats = Signal.like(s.beats_left)
        start = Signal.like(s.address)
        first_room = Signal.like(s.room)
        m.d.comb += [
            self.take.payload.eq(s.wait),
            self.take.valid.eq(self.waiting & ~self.stop),
            starts.eq(self.take.valid & self.take.ready),
            self.started.valid.eq(starts),
            self.started.payload.signal.eq(s.signal),
            self.started.payload.index.eq(self.index),
            beats.eq(((s.rows + (per_beat - 1)) >> ceil_log2(per_beat)) * per_row),
            start.eq((s.window.base >> _OFFSET_BITS) + s.offset),
            first_room.eq((s.window.size >> _OFFSET_BITS) - s.offset),
        ]
        with m.If(starts):
            m.d.sync += [
                self.waiting.eq(0),
                self.issuing.eq(1),
                s.allowed.eq((s.window.permission & permission) != 0),
                s.line_address.eq(start),
                s.line_room.eq(first_room),
                s.room.eq(first_room),
                s.spare.eq(first_room - beats),
                s.line_beats.eq(beats),
                s.beats_left.eq(beats),
                s.first.eq(1),
                s.last_row.eq(s.row + s.rows - 1),
            ]
        return starts, start

    def _judge(self, m: Module, s: _State) -> None:
        """Tell what the next burst ends, and whether its line is legal.

        A burst ends at its limit, which is known before; else with its line. It fits the window if
        its line does, which is known from the beginning of the line. Whether a burst of another
        line fits is known a cycle later. Bits beyond those of the limit are not compared: one that
        is set decides.
        """
        bits = len(s.limit)
        m.d.comb += [
            s.ends_line.eq(~s.beats_left[bits:].any() & (s.beats_left[:bits] <= s.limit)),
            s.ends_command.eq(s.ends_line & (s.lines_left == 1)),
            s.fits_buffer.eq(s.last_row < self.config.ub_rows),
            s.permitted.eq(s.allowed & ~s.address[-1]),
        ]

    def _issue(self, m: Module, s: _State) -> None:
        """Issue the next burst, and go on to the one behind it, or to the next line."""
        free = Signal()
        issue = self.rows.valid
        origin, rows = self.descriptor.payload.origin, self.rows.payload
        m.d.comb += [
            free.eq((self.outstanding != self.config.dma_bursts) | self.retire),
            issue.eq(
                self.issuing
                & s.fits_buffer
                & s.permitted
                & ((s.spare >= 0) | (s.known & s.burst_fits))
                & free
                & (~self.address.valid | self.address.ready)
                & ~self.stop
            ),
            origin.address.eq(self.address.payload.address),
            origin.index.eq(self.index),  # stays for that cycle, as does the next one
            rows.len.eq(Mux(s.ends_line, s.beats_left - 1, s.limit - 1)),
            rows.first.eq(s.first),
            rows.row.eq(s.row),
            rows.tail.eq(Mux(s.ends_line, s.tail, rows_per_beat(self.config) - 1)),
            rows.flip.eq(s.flip),
        ]
        m.d.sync += [
            self.outstanding.eq(self.outstanding + issue - self.retire),
            self.descriptor.valid.eq(issue),
            origin.last.eq(s.ends_command),
            self.descriptor.payload.rows.eq(rows),
        ]
        with m.If(self.address.ready):
            m.d.sync += self.address.valid.eq(0)
        with m.If(issue):
            m.d.sync += [
                self.address.valid.eq(1),
                self.address.payload.address.eq(_in_bytes(s.address)),
                self.address.payload.len.eq(rows.len),
                s.beats_left.eq(s.beats_left - s.limit),
                s.room.eq(s.room - s.limit),
                s.first.eq(0),
            ]
            with m.If(s.ends_line):
                m.d.sync += [
                    s.line_address.eq(s.line_address + s.stride),
                    s.line_room.eq(s.line_room - s.stride),
                    s.room.eq(s.line_room - s.stride),
                    s.spare.eq(s.spare - s.stride),
                    s.beats_left.eq(s.line_beats),
                    s.first.eq(1),
                    s.lines_left.eq(s.lines_left - 1),
                    s.row.eq(s.row + s.pitch),
                    s.last_row.eq(s.last_row + s.pitch),
                    self.issuing.eq(~s.ends_command),
                ]

    def _follow(self, m: Module, s: _State, starts: Signal, start: Signal) -> None:
        """Set where the next burst begins, and its limit.

        Each is worked out in all cases at once, as which one it is becomes known late.
        """
        issue, longest = self.rows.valid, _longest(self.config)

        def begin(following: Value) -> list:
            to_page_end = _PAGE_BEATS - following[: ceil_log2(_PAGE_BEATS)]
            shortened = Mux(to_page_end < longest, to_page_end, longest)
            return [s.address.eq(following), s.limit.eq(shortened)]

        with m.If(starts):
            m.d.sync += begin(start)
        with m.If(issue):
            m.d.sync += begin(s.address + s.limit)
            with m.If(s.ends_line):
                m.d.sync += begin(s.line_address + s.stride)

        high, low = s.room[len(s.limit) :], s.room[: len(s.limit)]
        m.d.sync += [
            s.burst_fits.eq((s.room >= 0) & (high.any() | (s.limit <= low))),
            s.known.eq(~starts & ~issue),
        ]

    def _fail(self, m: Module, s: _State) -> None:
        """Show a fault of the next burst; nothing is checked once it must not be issued."""
        leaves_window = Signal()
        fault = self.fault
        m.d.comb += [
            leaves_window.eq((s.spare < 0) & s.known & ~s.burst_fits),
            fault.valid.eq(
                self.issuing & ~(s.fits_buffer & s.permitted & ~leaves_window) & ~self.stop
            ),
            fault.code.eq(Mux(s.fits_buffer, Fault.WINDOW, Fault.BUFFER)),
            fault.index.eq(self.index),
            fault.address.eq(Mux(s.fits_buffer, _in_bytes(s.address), s.last_row)),
        ]


def _in_bytes(address: Signal) -> Value:
    """Return an address in bytes from one in beats, without its bit to spare."""
    return address[: ADDRESS_BITS - _OFFSET_BITS] << _OFFSET_BITS
