"""Command fetch: the program as it comes from DRAM."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES
from tpulite.arch.registers import Fault
from tpulite.arch.timing import fetch_buffer
from tpulite_rtl.bus.axi import ReadSignature
from tpulite_rtl.bus.registers import PROGRAM
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["FETCHED", "CommandFetch"]

FETCHED = data.StructLayout({"word": 8 * COMMAND_BYTES, "index": INDEX_BITS})
"""A command as it lies in DRAM, and its index in the program."""

_BEATS = COMMAND_BYTES // BEAT_BYTES
_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES


class CommandFetch(wiring.Component):
    """Read the program in bursts, ahead of the dispatcher, and deliver its commands in order.

    A burst is requested as soon as the buffer has room for all of it, the first one in the cycle
    after ``start``. A command is delivered in the cycle after its second beat was accepted;
    throughput is a beat per cycle. Read data is never refused.

    A command that was answered by an AXI error is not delivered but is a FETCH fault; a command
    beyond the program's end is an OVERRUN. Both are found when it is the command's turn.

    Parameters
    ----------
    config : Config
        Length of bursts. The buffer holds 16 commands, or two of the longest bursts.

    Members
    -------
    program : In(PROGRAM)
        Address and length of the program; stable while it is being fetched.
    start : In(1)
        Begin with the first command; legal when ``quiet``.
    stop : In(1)
        Forget the program. No new burst is requested, and what is outstanding is dropped.
    ended : In(1)
        END was delivered: the same, and whatever follows it is no fault.
    read : Out(ReadSignature())
        Read channels.
    o : Out(stream.Signature(FETCHED))
        Commands. An offer is withdrawn by ``stop``. ``index`` always names the next command.
    quiet : Out(1)
        Nothing is outstanding.
    fault : Out(FAULT)
        FETCH or OVERRUN, until ``stop``.
    """

    program: data.View
    start: Signal
    stop: Signal
    ended: Signal
    read: wiring.PureInterface
    o: stream.Interface
    quiet: Signal
    fault: data.View

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "program": In(PROGRAM),
                "start": In(1),
                "stop": In(1),
                "ended": In(1),
                "read": Out(ReadSignature()),
                "o": Out(stream.Signature(FETCHED)),
                "quiet": Out(1),
                "fault": Out(FAULT),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = fetch_buffer(self.config)
        buffered = data.StructLayout({"word": 8 * COMMAND_BYTES, "error": 1})
        buffer = StreamFifo(buffered, depth)
        m.submodules.buffer = ResetInserter(self.start)(buffer)

        active = Signal()
        running = Signal()
        m.d.comb += running.eq(active & ~self.stop & ~self.ended)
        m.d.sync += active.eq(self.start | running)

        # Requests. `room` counts the beats that the buffer can take beyond those outstanding.
        beats = depth * _BEATS
        unrequested = Signal(INDEX_BITS + exact_log2(_BEATS))
        beat_address = Signal(ADDRESS_BITS - exact_log2(BEAT_BYTES))
        room = Signal(range(beats + 1))
        outstanding = Signal(range(beats + 1))
        to_page_end = Signal(range(_PAGE_BEATS + 1))
        longest = Signal(range(self.config.burst_beats + 1))
        burst = Signal.like(longest)
        raised = Signal()
        ar, r = self.read.ar, self.read.r
        m.d.comb += [
            to_page_end.eq(_PAGE_BEATS - (beat_address % _PAGE_BEATS)),
            longest.eq(_minimum(to_page_end, self.config.burst_beats)),
            burst.eq(_minimum(unrequested, longest)),
            ar.valid.eq(raised | (running & (burst > 0) & (burst <= room))),
            ar.p.address.eq(beat_address * BEAT_BYTES),
            ar.p.len.eq(burst - 1),
            r.ready.eq(1),
            self.quiet.eq(~raised & (outstanding == 0)),
        ]
        requested = Signal.like(burst)
        delivered = Signal()
        m.d.comb += requested.eq(Mux(ar.valid & ar.ready, burst, 0))
        m.d.sync += [
            raised.eq(ar.valid & ~ar.ready),
            unrequested.eq(unrequested - requested),
            beat_address.eq(beat_address + requested),
            room.eq(room - requested + Mux(delivered, _BEATS, 0)),
            outstanding.eq(outstanding + requested - r.valid),
        ]

        # Two beats make a command.
        half = Signal()
        low = Signal(8 * BEAT_BYTES)
        low_error = Signal()
        m.d.comb += [
            buffer.i.p.word.eq(Cat(low, r.p.data)),
            buffer.i.p.error.eq(low_error | r.p.error),
            buffer.i.valid.eq(running & r.valid & half),
        ]
        with m.If(r.valid):
            m.d.sync += [half.eq(~half), low.eq(r.p.data), low_error.eq(r.p.error)]

        index = Signal(INDEX_BITS)
        overrun = Signal()
        m.d.comb += [
            overrun.eq(index == self.program.length),
            self.o.p.word.eq(buffer.o.p.word),
            self.o.p.index.eq(index),
            self.o.valid.eq(running & buffer.o.valid & ~buffer.o.p.error),
            delivered.eq(self.o.valid & self.o.ready),
            buffer.o.ready.eq(delivered),
            self.fault.valid.eq(running & (overrun | (buffer.o.valid & buffer.o.p.error))),
            self.fault.code.eq(Mux(overrun, Fault.OVERRUN, Fault.FETCH)),
            self.fault.index.eq(index),
            self.fault.address.eq(self.program.address + index * COMMAND_BYTES),
        ]
        m.d.sync += index.eq(index + delivered)

        with m.If(self.start):
            m.d.sync += [
                beat_address.eq(self.program.address >> exact_log2(BEAT_BYTES)),
                unrequested.eq(self.program.length * _BEATS),
                room.eq(beats),
                half.eq(0),
                index.eq(0),
            ]
        return m


def _minimum(a, b):
    return Mux(a < b, a, b)
