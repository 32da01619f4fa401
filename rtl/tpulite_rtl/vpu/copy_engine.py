"""Copy engine: moves rows within the unified buffer and clamps them."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.registers import EngineState, Fault
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import (
    READ_LATENCY,
    ROW_BITS,
    EngineSignature,
    ReadPortSignature,
    WritePortSignature,
    write_layout,
)
from tpulite_rtl.lib.layout import command_layout

__all__ = ["CopyEngine"]

_DEPTH = 8  # 4 keep one row a cycle going; the others are for what the write port refuses
_POSITION_BITS = ROW_BITS + 2  # the last row of a line that starts one pitch beyond the last row


class CopyEngine(wiring.Component):
    """Execute COPY commands, one at a time.

    Throughput is one row per cycle, across lines too; from the acceptance of the first read to
    that of the first write it takes three cycles. Tokens are given after the last row was
    accepted by the write port.

    Parameters
    ----------
    config : Config
        Geometry.

    Members
    -------
    engine : Out(EngineSignature(command_layout(Opcode.COPY)))
        Commands, tokens, state and faults. After ``stop`` no new row is read.
    read : Out(ReadPortSignature(config))
        Rows of the source.
    write : Out(WritePortSignature(config))
        Rows of the destination.
    conflict : Out(1)
        A request was refused in this cycle.
    """

    engine: wiring.PureInterface
    read: wiring.PureInterface
    write: wiring.PureInterface
    conflict: Signal

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "engine": Out(EngineSignature(command_layout(Opcode.COPY))),
                "read": Out(ReadPortSignature(config)),
                "write": Out(WritePortSignature(config)),
                "conflict": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        engine, request, write = self.engine, self.read.request, self.write.request
        command = Signal(command_layout(Opcode.COPY))
        active = Signal()
        start = Signal()
        done = Signal()
        m.d.comb += [
            engine.take.p.eq(engine.command.p.wait),
            engine.take.valid.eq(engine.command.valid & ~active & ~engine.stop),
            start.eq(engine.take.valid & engine.take.ready),
            engine.command.ready.eq(start),
            engine.give.p.eq(command.signal),
            done.eq(engine.give.valid & engine.give.ready),
        ]

        # Position of the line and of the row in it.
        line = Signal.like(command.lines)
        row = Signal.like(command.rows)
        source = Signal(_POSITION_BITS)
        destination = Signal(_POSITION_BITS)
        source_end = Signal(_POSITION_BITS)
        destination_end = Signal(_POSITION_BITS)
        bad_source = Signal()
        bad_destination = Signal()
        reading = Signal()
        raised = Signal()
        room = Signal(range(_DEPTH + 1), init=_DEPTH)  # of the FIFO, less the rows on their way
        accepted = Signal()
        m.d.comb += [
            source_end.eq(source + command.rows - 1),
            destination_end.eq(destination + command.rows - 1),
            bad_source.eq(source_end >= self.config.ub_rows),
            bad_destination.eq(destination_end >= self.config.ub_rows),
            engine.fault.valid.eq(reading & (bad_source | bad_destination)),
            engine.fault.code.eq(Fault.BUFFER),
            engine.fault.index.eq(command.index),
            engine.fault.address.eq(Mux(bad_source, source_end, destination_end)),
            request.p.eq(source + row),
            request.valid.eq(raised | (reading & (room > 0) & ~engine.fault.valid & ~engine.stop)),
            accepted.eq(request.valid & request.ready),
        ]
        m.d.sync += raised.eq(request.valid & ~request.ready)
        with m.If(accepted):
            m.d.sync += row.eq(row + 1)
            with m.If(row == command.rows - 1):
                m.d.sync += [
                    row.eq(0),
                    line.eq(line + 1),
                    source.eq(source + command.src_pitch),
                    destination.eq(destination + command.dst_pitch),
                ]
                with m.If(line == command.lines - 1):
                    m.d.sync += reading.eq(0)

        # The destination waits beside the buffer's pipeline for the row.
        flight = Signal(data.ArrayLayout(unsigned(ROW_BITS), READ_LATENCY))
        m.d.sync += [
            flight[0].eq(destination + row),
            *(flight[i].eq(flight[i - 1]) for i in range(1, READ_LATENCY)),
        ]
        in_flight = Signal(READ_LATENCY)
        m.d.sync += in_flight.eq(Cat(accepted, in_flight))

        m.submodules.fifo = fifo = StreamFifo(write_layout(self.config), _DEPTH)
        lanes = data.ArrayLayout(signed(8), self.config.row_bytes)
        incoming = data.View(lanes, self.read.response.p)
        outgoing = data.View(lanes, fifo.i.p.data)
        m.d.comb += [
            fifo.i.valid.eq(in_flight[-1]),
            fifo.i.p.row.eq(flight[-1]),
        ]
        for i in range(self.config.row_bytes):
            m.d.comb += outgoing[i].eq(_clamp(incoming[i], command.low, command.high))

        written = Signal()
        wiring.connect(m, fifo.o, wiring.flipped(write))
        m.d.comb += [
            written.eq(write.valid & write.ready),
            engine.give.valid.eq(active & ~reading & (room == _DEPTH)),
        ]
        m.d.sync += room.eq(room - accepted + written)

        with m.If(start):
            m.d.sync += [
                command.eq(engine.command.p),
                active.eq(1),
                reading.eq(1),
                source.eq(engine.command.p.src_row),
                destination.eq(engine.command.p.dst_row),
                line.eq(0),
                row.eq(0),
            ]
        with m.If(done):
            m.d.sync += active.eq(0)

        m.d.comb += [
            self.conflict.eq((request.valid & ~request.ready) | (write.valid & ~write.ready)),
            engine.idle.eq(~active),
            engine.quiet.eq(1),
            engine.index.eq(Mux(active, command.index, engine.command.p.index)),
        ]
        with m.If(start | accepted | written | in_flight.any() | done):
            m.d.comb += engine.state.eq(EngineState.BUSY)
        with m.Elif(self.conflict):
            m.d.comb += engine.state.eq(EngineState.BUFFER)
        with m.Elif(active):
            m.d.comb += engine.state.eq(EngineState.BUSY)
        with m.Elif(engine.command.valid):
            m.d.comb += engine.state.eq(EngineState.TOKEN)
        with m.Else():
            m.d.comb += engine.state.eq(EngineState.IDLE)
        return m


def _clamp(value, low, high):
    # As min(max(value, low), high): the upper bound has the last word.
    return Mux((value > high) | (low > high), high, Mux(value < low, low, value))
