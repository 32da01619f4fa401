"""Command fetch: the program as it comes from DRAM."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES
from tpulite.arch.registers import Fault
from tpulite.arch.timing import fetch_buffer
from tpulite_rtl.bus.axi import ReadSignature
from tpulite_rtl.bus.registers import PROGRAM
from tpulite_rtl.cp.command_check import VERDICT, judge
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["FETCHED", "CommandFetch"]

FETCHED = data.StructLayout({"word": 8 * COMMAND_BYTES, "verdict": VERDICT, "index": INDEX_BITS})
"""A command as it lies in DRAM, what is wrong with it, and its index in the program."""

_BEATS = COMMAND_BYTES // BEAT_BYTES
_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES


class CommandFetch(wiring.Component):
    """Read the program in bursts, ahead of the dispatcher, and deliver its commands in order.

    A burst is requested in the second cycle after the one before it was accepted and the buffer had
    room for all of it, the first one in the cycle after ``start``. A command is delivered in the
    second cycle after its second beat was accepted: it is checked in between. Throughput is a beat
    per cycle, with bursts of two beats as long as no address is refused. Read data never is.

    A command that was answered by an AXI error is not delivered but is a FETCH fault; a command
    beyond the program's end is an OVERRUN. Both are found when it is the command's turn.

    Parameters
    ----------
    config : Config
        Length of bursts, and what decides which fields are legal together. The buffer holds 16
        commands, or two of the longest bursts.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Address and length of the program; stable from the cycle before ``start`` until it
                # is fetched.
                "program": In(PROGRAM),
                # Begin with the first command; legal when ``quiet`` and no other program is under
                # way.
                "start": In(1),
                # Forget the program. No new burst is requested, and what is outstanding is dropped.
                "stop": In(1),
                # END was delivered: the same, and whatever follows it is no fault.
                "ended": In(1),
                # Read channels.
                "read": Out(ReadSignature()),
                # Commands. An offer is withdrawn by ``stop``. ``index`` always names the next
                # command.
                "o": Out(stream.Signature(FETCHED)),
                # Where the next command lies.
                "address": Out(ADDRESS_BITS),
                # Nothing is outstanding.
                "quiet": Out(1),
                # FETCH or OVERRUN, until ``stop``.
                "fault": Out(FAULT),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = fetch_buffer(self.config)
        # The bits that say where a command goes are apart: too few for a RAM, they come earlier.
        buffer = StreamFifo(unsigned(8 * COMMAND_BYTES), depth)
        verdicts = StreamFifo(data.StructLayout({"verdict": VERDICT, "error": 1}), depth)
        m.submodules.buffer = ResetInserter(self.start)(buffer)
        m.submodules.verdicts = ResetInserter(self.start)(verdicts)

        active = Signal()
        running = Signal()
        m.d.comb += running.eq(active & ~self.stop & ~self.ended)
        m.d.sync += active.eq(self.start | running)

        # Requests: a burst and what comes beyond it, so that the one after it is worked out before
        # it is needed. A burst ends with the program, or at its limit: the longest, or the page.
        # `room` counts the beats that the buffer can take beyond those outstanding.
        longest = min(self.config.burst_beats, _PAGE_BEATS)
        beats = depth * _BEATS
        beat_address = Signal(ADDRESS_BITS - exact_log2(BEAT_BYTES))
        burst = Signal(range(longest + 1))
        beyond = Signal(INDEX_BITS + exact_log2(_BEATS))
        beyond_offset = Signal(exact_log2(_PAGE_BEATS))  # beats from the page to its first one
        limit = Signal.like(burst)  # of the next burst
        room = Signal(range(beats + 1))
        outstanding = Signal(range(beats + 1))
        fits = Signal()  # the burst is not empty, and there is room for it
        raised = Signal()
        requested = Signal()
        delivered = Signal()
        ar, r = self.read.ar, self.read.r
        m.d.comb += [
            ar.valid.eq(raised | (running & fits)),
            ar.p.address.eq(beat_address * BEAT_BYTES),
            ar.p.len.eq(burst - 1),
            r.ready.eq(1),
            self.quiet.eq(~raised & (outstanding == 0)),
            requested.eq(ar.valid & ar.ready),
        ]
        m.d.sync += [
            raised.eq(ar.valid & ~ar.ready),
            room.eq(_grown(room, (requested, -burst), (delivered, _BEATS))),
            outstanding.eq(_grown(outstanding, (requested, burst), (r.valid, -1))),
        ]
        with m.If(requested):
            m.d.sync += beat_address.eq(beat_address + burst)

        # The next burst: the first one is at the beginning of the program, which the host has
        # written long before.
        first = self.program.address >> exact_log2(BEAT_BYTES)
        first_limit = Signal.like(limit)
        m.d.sync += first_limit.eq(_limit(first[: len(beyond_offset)], longest))

        def choose(unrequested: Value, offset: Value, most: Signal) -> list:
            ends = unrequested <= most
            next_offset = (offset + most)[: len(beyond_offset)]
            return [
                burst.eq(Mux(ends, unrequested, most)),
                beyond.eq(Mux(ends, 0, unrequested - most)),
                beyond_offset.eq(next_offset),
                limit.eq(_limit(next_offset, longest)),
            ]

        # A cycle late, as there is only ever more room until the burst is requested.
        m.d.sync += fits.eq((burst > 0) & (burst <= room) & ~requested)
        with m.If(self.start):
            m.d.sync += [beat_address.eq(first), room.eq(beats), fits.eq(self.program.length > 0)]
            m.d.sync += choose(self.program.length * _BEATS, first, first_limit)
        with m.Elif(requested):
            m.d.sync += choose(beyond, beyond_offset, limit)

        # Two beats make a command. It is checked on its way into the buffer, where there is time.
        half = Signal()
        whole = Signal()
        word = Signal(8 * COMMAND_BYTES)
        errors = Signal(_BEATS)
        m.d.comb += [
            buffer.i.p.eq(word),
            buffer.i.valid.eq(running & whole),
            verdicts.i.p.verdict.eq(judge(m, self.config, word)),
            verdicts.i.p.error.eq(errors.any()),
            verdicts.i.valid.eq(buffer.i.valid),
        ]
        m.d.sync += whole.eq(r.valid & half)
        with m.If(r.valid):
            m.d.sync += [
                half.eq(~half),
                word.eq(Cat(word[8 * BEAT_BYTES :], r.p.data)),
                errors.eq(Cat(errors[1:], r.p.error)),
            ]

        index = Signal(INDEX_BITS)
        overrun = Signal()  # a cycle late: nothing comes after the program's last command
        m.d.sync += overrun.eq(index == self.program.length)
        m.d.comb += [
            self.o.p.word.eq(buffer.o.p),
            self.o.p.verdict.eq(verdicts.o.p.verdict),
            self.o.p.index.eq(index),
            self.o.valid.eq(running & verdicts.o.valid & ~verdicts.o.p.error),
            delivered.eq(self.o.valid & self.o.ready),
            buffer.o.ready.eq(delivered),
            verdicts.o.ready.eq(delivered),
            self.fault.valid.eq(running & (overrun | (verdicts.o.valid & verdicts.o.p.error))),
            self.fault.code.eq(Mux(overrun, Fault.OVERRUN, Fault.FETCH)),
            self.fault.index.eq(index),
            self.fault.address.eq(self.address),
        ]
        with m.If(delivered):
            m.d.sync += [index.eq(index + 1), self.address.eq(self.address + COMMAND_BYTES)]
        with m.If(self.start):
            m.d.sync += [
                half.eq(0),
                index.eq(0),
                overrun.eq(0),
                self.address.eq(self.program.address),
            ]
        return m


def _grown(count: Value, first: tuple[Value, Value], second: tuple[Value, int]) -> Value:
    """Return a count and each summand whose condition is high, which comes late: sums first."""
    (one, summand), (other, constant) = first, second
    both = Mux(other, count + (summand + constant), count + summand)
    return Mux(one, both, Mux(other, count + constant, count))


def _limit(offset: Value, longest: int) -> Value:
    """Return how many beats a burst may have that begins at this beat of its page."""
    return Mux(offset > _PAGE_BEATS - longest, _PAGE_BEATS - offset, longest)
