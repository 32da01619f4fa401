"""LOAD: DRAM to unified buffer."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import WINDOWS
from tpulite.arch.registers import Fault
from tpulite_rtl.bus.axi import ReadSignature
from tpulite_rtl.dma.burst_splitter import BurstSplitter, descriptor_layout
from tpulite_rtl.dma.command_tracker import CommandTracker
from tpulite_rtl.dma.geometry import flip_top_bits, rows_per_beat
from tpulite_rtl.dma.status import keep_fault, show_status
from tpulite_rtl.dma.unpacker import Unpacker, row_layout
from tpulite_rtl.dma.window import WINDOW_LAYOUT
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import FAULT, EngineSignature, WritePortSignature
from tpulite_rtl.lib.layout import command_layout

__all__ = ["LoadEngine"]

_FIFO_ROWS = 4


class LoadEngine(wiring.Component):
    """Copy lines of rows from DRAM into the unified buffer.

    Addresses of later commands go out while data of earlier ones is on its way, as far as
    ``dma_bursts`` allows. One beat a cycle, and one row a cycle at most. AR is valid three cycles
    after a command is accepted; a row is offered to the buffer in the cycle after its beat (with
    N = 4 and 8 one later), and a command's tokens are given from the cycle after its last row was
    accepted.

    Once stopped, by ``engine.stop`` or by a fault of its own, the engine raises no AR, drops what
    comes, writes nothing and gives no tokens, until it is reset.

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
                "engine": Out(EngineSignature(command_layout(Opcode.LOAD))),
                # Read channels to DRAM.
                "axi": Out(ReadSignature()),
                # Write port of the unified buffer.
                "write": Out(WritePortSignature(config)),
                # The DRAM windows.
                "windows": In(data.ArrayLayout(WINDOW_LAYOUT, WINDOWS)),
                # The buffer refused a row in this cycle.
                "conflict": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        engine, beat, request = self.engine, self.axi.r, self.write.request

        m.submodules.splitter = splitter = BurstSplitter(self.config, Opcode.LOAD)
        # A retired burst leaves in the cycle when the next one may enter.
        m.submodules.bursts = bursts = StreamFifo(
            descriptor_layout(self.config), self.config.dma_bursts + 1
        )
        m.submodules.unpacker = unpacker = Unpacker(self.config)
        m.submodules.rows = rows = StreamFifo(row_layout(self.config), _FIFO_ROWS)
        # Every command in flight is in the splitter, has a burst outstanding, or has its last row
        # in the unpacker or in the FIFO behind it.
        m.submodules.tracker = tracker = CommandTracker(self.config.dma_bursts + _FIFO_ROWS + 2)

        # Front: commands to bursts.
        read_fault = Signal(FAULT)
        stop = keep_fault(m, engine, read_fault, splitter.fault)
        wiring.connect(m, splitter.started, tracker.started)
        wiring.connect(m, wiring.flipped(engine.command), splitter.command)
        wiring.connect(m, splitter.take, wiring.flipped(engine.take))
        wiring.connect(m, splitter.address, wiring.flipped(self.axi.ar))
        m.d.comb += [
            splitter.windows.eq(self.windows),
            splitter.stop.eq(stop),
            bursts.i.payload.eq(splitter.descriptor.payload),
            bursts.i.valid.eq(splitter.descriptor.valid),
        ]

        # Back: beats to rows.
        origin, burst = bursts.o.payload.origin, bursts.o.payload.rows
        at_start = Signal(init=1)  # the next beat is the first of its burst
        accepted = Signal()
        m.d.comb += [
            beat.ready.eq(unpacker.i.ready | stop),
            accepted.eq(beat.valid & beat.ready),
            splitter.retire.eq(accepted & beat.payload.last),
            bursts.o.ready.eq(splitter.retire),
            unpacker.i.valid.eq(beat.valid),
            unpacker.i.payload.data.eq(flip_top_bits(beat.payload.data, burst.flip)),
            unpacker.i.payload.first.eq(burst.first & at_start),
            unpacker.i.payload.row.eq(burst.row),
            unpacker.i.payload.tail.eq(
                Mux(beat.payload.last, burst.tail, rows_per_beat(self.config) - 1)
            ),
            unpacker.i.payload.last.eq(origin.last & beat.payload.last),
            read_fault.valid.eq(accepted & beat.payload.error),
            read_fault.code.eq(Fault.READ),
            read_fault.index.eq(origin.index),
            read_fault.address.eq(origin.address),
        ]
        with m.If(accepted):
            m.d.sync += at_start.eq(beat.payload.last)
        wiring.connect(m, unpacker.o, rows.i)

        # A command's last row waits until its tokens can be taken note of.
        row = rows.o.payload
        written = Signal()
        m.d.comb += [
            request.payload.row.eq(row.row),
            request.payload.data.eq(row.data),
            request.valid.eq(rows.o.valid & (~row.last | tracker.complete.ready) & ~stop),
            written.eq(request.valid & request.ready),
            rows.o.ready.eq(written),
            tracker.complete.valid.eq(written & row.last),
            tracker.stop.eq(stop),
            self.conflict.eq(request.valid & ~request.ready),
        ]
        wiring.connect(m, tracker.give, wiring.flipped(engine.give))

        moving = [accepted, unpacker.o.valid & unpacker.o.ready, written]
        show_status(m, engine, splitter, tracker, moving=moving, refused=self.conflict)
        return m
