"""Commands in flight in a DMA engine."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import isa
from tpulite_rtl.dma.burst_splitter import STARTED
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["CommandTracker"]


class CommandTracker(wiring.Component):
    """Remember started commands in order and give the tokens of each as it completes.

    Tokens are given from the cycle after the completion on; a command that signals nobody completes
    silently. At most one completion every two cycles.

    Parameters
    ----------
    depth : int
        Commands in flight; the engine must not start more.
    """

    def __init__(self, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"Depth of a command tracker must be at least 1, not {depth!r}")
        self.depth = depth
        super().__init__(
            {
                # Commands as they start.
                "started": In(stream.Signature(STARTED, always_ready=True)),
                # The oldest command completes; refused while the tokens of the one before wait.
                "complete": In(stream.Signature(unsigned(0))),
                # Signal masks of completed commands.
                "give": Out(stream.Signature(unsigned(len(isa.Engine)))),
                # Give no more tokens.
                "stop": In(1),
                # A command is in flight or its tokens are not given.
                "holding": Out(1),
                # The oldest such command.
                "index": Out(INDEX_BITS),
                # The command that completes next.
                "next_index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.flying = flying = StreamFifo(STARTED, self.depth)
        given = Signal(STARTED)
        giving = Signal()
        m.d.comb += [
            flying.i.payload.eq(self.started.payload),
            flying.i.valid.eq(self.started.valid),
            self.complete.ready.eq(~giving),
            flying.o.ready.eq(self.complete.valid & self.complete.ready),
            self.give.payload.eq(given.signal),
            self.give.valid.eq(giving & ~self.stop),
            self.holding.eq(giving | flying.o.valid),
            self.next_index.eq(flying.o.payload.index),
            self.index.eq(self.next_index),
        ]
        with m.If(giving):
            m.d.comb += self.index.eq(given.index)
        with m.If(self.give.valid & self.give.ready):
            m.d.sync += giving.eq(0)
        with m.If(flying.o.ready):
            m.d.sync += [given.eq(flying.o.payload), giving.eq(flying.o.payload.signal != 0)]
        return m
