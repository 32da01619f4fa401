"""Run control: start, stop, faults and the watchdog."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.registers import Fault, RunState
from tpulite_rtl.bus.registers import CONTROL, INTERRUPT, RUN_STATE_BITS
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["RunControl"]


class RunControl(wiring.Component):
    """The state of the chip, from START to the interrupt.

    The first fault is kept; of several in one cycle that of the source with the lowest number. It
    is taken note of in the next cycle, when it wins over END, END over STOP, and STOP over the
    watchdog; ``stop`` is high from the cycle after that. Requests that are illegal in the present
    state are ignored.

    Parameters
    ----------
    sources : int
        Number of components that report faults.
    """

    def __init__(self, *, sources: int) -> None:
        if sources < 1:
            raise ValueError(f"Number of fault sources must be at least 1, not {sources!r}")
        self.sources = sources
        super().__init__(
            {
                # Requests of the host.
                "control": In(CONTROL),
                # Cycles without progress that are a fault while RUNNING, and that mean HUNG while
                # STOPPING; 0 never. A new value counts from the next progress on.
                "watchdog": In(32),
                # Faults of the components.
                "faults": In(FAULT).array(sources),
                # END was reached and everything is finished.
                "done": In(1),
                # Nothing is outstanding on AXI, an address that was offered included.
                "quiet": In(1),
                # Something moved, at most a few cycles ago.
                "progress": In(1),
                # Command to blame if nothing moves, or if the host says STOP.
                "oldest": In(INDEX_BITS),
                # State of the chip.
                "state": Out(RUN_STATE_BITS),
                # Why the chip stopped, until the next START.
                "error": Out(FAULT),
                # Causes of the interrupt, high for one cycle.
                "interrupt": Out(INTERRUPT),
                # START was accepted in this cycle: the program is fetched from the next cycle on.
                "start": Out(1),
                # Queues and tokens must be reset at the end of this cycle, and engines of the next:
                # START or soft reset.
                "clear": Out(1),
                # Start nothing, finish what was issued: a register.
                "stop": Out(1),
                # The same for engines, and in the cycle after ``clear``: a register.
                "halt": Out(1),
                # RUNNING or STOPPING: what CYCLES counts.
                "running": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # Engines that are halted, perhaps to be reset, have nothing to report.
        reported = Signal(FAULT)
        m.d.sync += reported.valid.eq(Cat(fault.valid for fault in self.faults).any() & ~self.halt)
        for fault in reversed(self.faults):
            with m.If(fault.valid):
                m.d.sync += [
                    reported.code.eq(fault.code),
                    reported.index.eq(fault.index),
                    reported.address.eq(fault.address),
                ]

        # Counts down to one, so that zero never expires; a new state has all the patience again. In
        # the last cycle of a program it may have it, too: whether it ends is known late.
        patience = Signal(32)
        expired = Signal()
        renewed = Signal()
        m.d.comb += expired.eq((patience == 1) & ~self.progress)
        with m.If(self.progress | ~self.running | renewed):
            m.d.sync += patience.eq(self.watchdog)
        with m.Elif(patience > 0):
            m.d.sync += patience.eq(patience - 1)

        host_fault = Signal(FAULT)
        m.d.comb += [
            host_fault.valid.eq(1),
            host_fault.index.eq(self.oldest),
            host_fault.code.eq(Mux(self.control.stop, Fault.STOPPED, Fault.WATCHDOG)),
        ]

        idle = self.state == RunState.IDLE
        running = self.state == RunState.RUNNING
        stopping = self.state == RunState.STOPPING
        quiesced = self.state == RunState.QUIESCED
        m.d.comb += [
            self.start.eq(idle & self.control.start),
            self.clear.eq(self.start | ((idle | quiesced) & self.control.reset)),
            self.running.eq(running | stopping),
        ]
        m.d.comb += renewed.eq(running & (reported.valid | self.control.stop | expired))
        stop_next = Signal()
        m.d.comb += stop_next.eq(self.stop)
        m.d.sync += [self.stop.eq(stop_next), self.halt.eq(stop_next | self.clear)]
        with m.Switch(self.state):
            with m.Case(RunState.IDLE):
                with m.If(self.control.start):
                    m.d.sync += [self.state.eq(RunState.RUNNING), self.error.eq(0)]
            with m.Case(RunState.RUNNING):
                with m.If(reported.valid):
                    m.d.comb += stop_next.eq(1)
                    m.d.sync += [self.state.eq(RunState.STOPPING), self.error.eq(reported)]
                with m.Elif(self.done):
                    m.d.comb += self.interrupt.done.eq(1)
                    m.d.sync += self.state.eq(RunState.IDLE)
                with m.Elif(self.control.stop | expired):
                    m.d.comb += stop_next.eq(1)
                    m.d.sync += [self.state.eq(RunState.STOPPING), self.error.eq(host_fault)]
            with m.Case(RunState.STOPPING):
                with m.If(self.quiet):
                    m.d.comb += self.interrupt.fault.eq(1)
                    m.d.sync += self.state.eq(RunState.QUIESCED)
                with m.Elif(expired):
                    m.d.comb += self.interrupt.fault.eq(1)
                    m.d.sync += self.state.eq(RunState.HUNG)
            with m.Case(RunState.QUIESCED):
                with m.If(self.control.reset):
                    m.d.comb += stop_next.eq(0)
                    m.d.sync += self.state.eq(RunState.IDLE)
        return m
