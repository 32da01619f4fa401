"""STORE: unified buffer to DRAM."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import ADDRESS_BITS, WINDOWS
from tpulite.arch.registers import Fault
from tpulite_rtl.bus.axi import WriteSignature
from tpulite_rtl.dma.burst_splitter import BurstSplitter, rows_layout
from tpulite_rtl.dma.command_tracker import CommandTracker
from tpulite_rtl.dma.packer import Packer
from tpulite_rtl.dma.row_reader import RowReader
from tpulite_rtl.dma.status import keep_fault, show_status
from tpulite_rtl.dma.window import WINDOW_LAYOUT
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import FAULT, EngineSignature, ReadPortSignature
from tpulite_rtl.lib.layout import command_layout

__all__ = ["StoreEngine"]

_OFFSET_BITS = exact_log2(BEAT_BYTES)

_UNANSWERED = data.StructLayout({"beat": ADDRESS_BITS - _OFFSET_BITS, "last": 1})
"""What is kept of a burst until its response: its address, in beats, and whether it is the last."""


class StoreEngine(wiring.Component):
    """Copy lines of rows from the unified buffer to DRAM.

    Commands overlap as far as ``dma_bursts`` allows. One row a cycle and one beat a cycle at most.
    AW is valid three cycles and the first row is requested four after a command is accepted, W
    follows three cycles after the row that completes it was requested, and a command's tokens are
    given from the cycle after its last B.

    Once stopped, by ``engine.stop`` or by a fault of its own, the engine raises no AW, reads no
    row, sends the beats that it still owes without strobes, and gives no tokens, until it is reset.

    Parameters
    ----------
    config : Config
        The machine.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands, tokens and status.
                "engine": Out(EngineSignature(command_layout(Opcode.STORE))),
                # Write channels to DRAM.
                "axi": Out(WriteSignature()),
                # Read port of the unified buffer.
                "read": Out(ReadPortSignature(config)),
                # The DRAM windows.
                "windows": In(data.ArrayLayout(WINDOW_LAYOUT, WINDOWS)),
                # The buffer refused a request in this cycle.
                "conflict": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        engine, response = self.engine, self.axi.b
        bursts = self.config.dma_bursts

        m.submodules.splitter = splitter = BurstSplitter(self.config, Opcode.STORE)
        m.submodules.tracker = tracker = CommandTracker(bursts + 1)
        # A retired burst leaves in the cycle when the next one may enter.
        m.submodules.unread = unread = StreamFifo(rows_layout(self.config), bursts + 1)
        m.submodules.unanswered = unanswered = StreamFifo(_UNANSWERED, bursts + 1)
        m.submodules.reader = reader = RowReader(self.config)
        m.submodules.packer = packer = Packer(self.config)

        # Front: commands to bursts.
        write_fault = Signal(FAULT)
        stop = keep_fault(m, engine, write_fault, splitter.fault)
        descriptor = splitter.descriptor
        wiring.connect(m, wiring.flipped(engine.command), splitter.command)
        wiring.connect(m, splitter.take, wiring.flipped(engine.take))
        wiring.connect(m, splitter.started, tracker.started)
        wiring.connect(m, splitter.address, wiring.flipped(self.axi.aw))
        m.d.comb += [
            splitter.windows.eq(self.windows),
            splitter.stop.eq(stop),
            unread.i.valid.eq(splitter.rows.valid),
            unread.i.payload.eq(splitter.rows.payload),
            unanswered.i.valid.eq(descriptor.valid),
            unanswered.i.payload.beat.eq(descriptor.payload.origin.address[_OFFSET_BITS:]),
            unanswered.i.payload.last.eq(descriptor.payload.origin.last),
        ]

        # Back: rows to beats.
        wiring.connect(m, unread.o, reader.i)
        wiring.connect(m, reader.o, packer.i)
        wiring.connect(m, packer.o, wiring.flipped(self.axi.w))
        wiring.connect(m, reader.read, wiring.flipped(self.read))
        m.d.comb += [
            reader.stop.eq(stop),
            self.conflict.eq(self.read.request.valid & ~self.read.request.ready),
        ]

        # The last response of a command waits until its tokens can be taken note of.
        origin = unanswered.o.payload
        answered = Signal()
        m.d.comb += [
            response.ready.eq(~origin.last | tracker.complete.ready | stop),
            answered.eq(response.valid & response.ready),
            splitter.retire.eq(answered),
            unanswered.o.ready.eq(answered),
            write_fault.valid.eq(answered & response.payload),
            write_fault.code.eq(Fault.WRITE),
            write_fault.index.eq(tracker.next_index),
            write_fault.address.eq(origin.beat << _OFFSET_BITS),
            tracker.complete.valid.eq(response.valid & origin.last & ~response.payload & ~stop),
            tracker.stop.eq(stop),
        ]
        wiring.connect(m, tracker.give, wiring.flipped(engine.give))

        moving = [reader.busy, self.axi.w.valid & self.axi.w.ready, answered]
        show_status(m, engine, splitter, tracker, moving=moving, refused=self.conflict)
        return m
