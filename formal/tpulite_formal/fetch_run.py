"""Command fetch under proof: a host that waits, a memory that answers, and what is counted."""

from dataclasses import dataclass

from amaranth.hdl import Mux, Signal, Value

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES
from tpulite.arch.registers import Fault
from tpulite_formal.harness import Harness
from tpulite_rtl.bus.registers import PROGRAM
from tpulite_rtl.cp.command_fetch import CommandFetch
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["COMMAND_BEATS", "FetchRun"]

COMMAND_BEATS = COMMAND_BYTES // BEAT_BYTES
"""Beats of a command."""

_COUNT_BITS = INDEX_BITS + 2
"""Of the beats of a program, and of one burst more."""

_PENDING_BITS = 10
"""Of the beats that any buffer has room for, and of one burst more."""


@dataclass(frozen=True)
class FetchRun:
    """What a harness knows of the run of a program, counted from its start.

    Attributes
    ----------
    going, live : Value
        From the cycle after the start to the one of stop or END; and before that one.
    told : Signal
        Address and length of the program as they were in the cycle before.
    base : Signal
        Where the program began.
    requested, received, delivered : Signal
        Beats, beats and commands.
    refused : Signal
        An address that was offered was not accepted.
    pending : Signal
        Beats that are outstanding, of programs before as well.
    overrun : Value
        There is a fault of this kind.
    """

    going: Signal
    live: Value
    told: Signal
    base: Signal
    requested: Signal
    received: Signal
    delivered: Signal
    refused: Signal
    pending: Signal
    overrun: Value

    @classmethod
    def of(cls, h: Harness, dut: CommandFetch) -> "FetchRun":
        """Return it; assume a memory that answers each beat once, at any time.

        The host gives a new program when nothing is left of the one before, and leaves it alone.
        """
        ar, r = dut.read.ar, dut.read.r
        going, refused = Signal(name="going"), Signal(name="ar_refused")
        base, told = Signal.like(dut.address, name="base"), Signal(PROGRAM, name="program_told")
        requested, received, delivered = (
            Signal(_COUNT_BITS, name=name) for name in ("requested", "received", "delivered_count")
        )
        pending = Signal(_PENDING_BITS, name="pending")
        live = going & ~dut.stop & ~dut.ended
        beats = Mux(ar.valid & ar.ready, ar.p.len + 1, 0)
        h.m.d.sync += [
            told.eq(dut.program),
            going.eq(dut.start | live),
            refused.eq(ar.valid & ~ar.ready),
            pending.eq(pending + beats - r.valid),
            requested.eq(Mux(dut.start, 0, requested + beats)),
            received.eq(Mux(dut.start, 0, received + r.valid)),
            delivered.eq(Mux(dut.start, 0, delivered + (dut.o.valid & dut.o.ready))),
            base.eq(Mux(dut.start, dut.program.address, base)),
        ]
        h.assume(~dut.start | (~(going | refused) & (pending == 0)))
        h.assume(~(dut.start | going) | (Value.cast(dut.program) == Value.cast(told)))
        h.assume(~r.valid | (pending != 0))
        overrun = dut.fault.valid & (dut.fault.code == Fault.OVERRUN)
        return cls(
            going, live, told, base, requested, received, delivered, refused, pending, overrun
        )
