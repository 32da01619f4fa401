"""The vector path of the VPU: executes VECTOR commands."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode, VectorOp
from tpulite.arch.registers import EngineState, Fault
from tpulite_rtl.lib.credits import credit
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import (
    EngineSignature,
    ReadPortSignature,
    WritePortSignature,
)
from tpulite_rtl.lib.layout import command_layout, operation_of
from tpulite_rtl.vpu.operand_port import OperandPort, capacity
from tpulite_rtl.vpu.output_rows import OutputRows
from tpulite_rtl.vpu.shared_lane import LanesSignature
from tpulite_rtl.vpu.vector_addresses import VectorAddresses
from tpulite_rtl.vpu.vector_lanes import VectorLanes
from tpulite_rtl.vpu.vector_parameters import VectorParameters
from tpulite_rtl.vpu.window_reducer import WindowReducer

__all__ = ["VectorEngine"]

_RESULTS = 16  # as many vectors as the lanes and the way to the write port hold
_PLACE = data.StructLayout(dict.fromkeys(("parameter", "paired", "first", "last"), 1))


class VectorEngine(wiring.Component):
    """Execute VECTOR commands, one at a time.

    A vector of A, and one of B, is read every cycle, and one output vector written for each
    window; with fewer lanes than channels, one every N / lanes cycles (COPY and MAX use no lanes).
    A command's first row is requested two cycles after its tokens were taken. From the acceptance
    of a vector's last read to the first offer of its result it takes 5 (COPY, MAX), 7 (LUT) or 17
    cycles, plus N / lanes - 1 in the lanes, and those in which others requantize. Tokens are given
    in the cycle after the last row was accepted by the write port.

    Parameters
    ----------
    config : Config
        Geometry, lanes and roundings.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands, tokens, state and faults. After ``stop`` only rows are read whose
                # addresses wait at a port.
                "engine": Out(EngineSignature(command_layout(Opcode.VECTOR))),
                # Parameters and operand A.
                "read_a": Out(ReadPortSignature(config)),
                # Operand B.
                "read_b": Out(ReadPortSignature(config)),
                # Lanes of the requantizer, which others use first.
                "requantizer": Out(LanesSignature(config)),
                # Output vectors.
                "write": Out(WritePortSignature(config)),
                # A request was refused in this cycle.
                "conflict": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, engine, write = self.config, self.engine, self.write.request
        m.submodules.addresses = addresses = VectorAddresses(config)
        m.submodules.port_a = port_a = OperandPort(config)
        m.submodules.port_b = port_b = OperandPort(config)
        m.submodules.parameters = parameters = VectorParameters(config)
        m.submodules.reducer = reducer = WindowReducer(config)
        m.submodules.lanes = lanes = VectorLanes(config)
        wiring.connect(m, port_a.read, wiring.flipped(self.read_a))
        wiring.connect(m, port_b.read, wiring.flipped(self.read_b))
        wiring.connect(m, lanes.requantizer, wiring.flipped(self.requantizer))
        wiring.connect(m, parameters.o_table, lanes.i_table)

        # Tokens: a command begins when it has taken its own, and ends when it has given them.
        command = Signal(command_layout(Opcode.VECTOR))
        operation = operation_of(command, config)
        active, halted = Signal(), Signal()
        start, written, written_all, done = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            halted.eq(engine.stop | engine.fault.valid),
            engine.take.payload.eq(engine.command.payload.wait),
            engine.take.valid.eq(engine.command.valid & ~active & ~halted),
            start.eq(engine.take.valid & engine.take.ready),
            engine.command.ready.eq(start),
            engine.give.payload.eq(command.signal),
            engine.give.valid.eq(active & written_all & ~engine.fault.valid),
            done.eq(engine.give.valid & engine.give.ready),
            addresses.i.payload.eq(engine.command.payload),
            addresses.i.valid.eq(start),
        ]
        with m.If(~active):  # a command or not, which becomes known late
            m.d.sync += command.eq(engine.command.payload)
        with m.If(start):
            m.d.sync += active.eq(1)
        with m.If(done):
            m.d.sync += active.eq(0)

        # Addresses go to the ports; what they are for waits beside them.
        step = addresses.o
        m.submodules.places = places = StreamFifo(_PLACE, capacity(config))
        m.submodules.out_rows = out_rows = OutputRows()
        forks = [
            (port_a.i, step.payload.a, 1),
            (port_b.i, step.payload.b, step.payload.paired),
            (places.i, Cat(step.payload[name] for name in _PLACE.members), 1),
        ]
        m.d.comb += step.ready.eq(Cat(i.ready | ~needed for i, _, needed in forks).all() & ~halted)
        for i, value, needed in forks:
            m.d.comb += [
                Value.cast(i.payload).eq(value),
                i.valid.eq(step.valid & step.ready & needed),
            ]
        m.d.comb += [
            out_rows.command.eq(command),
            out_rows.start.eq(start),
            out_rows.issued.eq(step.valid & step.ready & step.payload.first),
            out_rows.written.eq(written),
        ]

        # Rows are parameters, or meet in pairs; the result of a window must have its place.
        place, reduces = places.o.payload, Signal()
        room = credit(m, _RESULTS, taken=reduces & place.last, returned=written, name="room")
        spoiled, complete = Signal(), Signal()
        m.d.comb += [
            complete.eq(port_a.o.valid & ~place.parameter & (port_b.o.valid | ~place.paired)),
            reducer.i.valid.eq(complete & (room | ~place.last) & ~spoiled),
            reduces.eq(reducer.i.valid & reducer.i.ready),
            reducer.i.payload.a.eq(port_a.o.payload),
            reducer.i.payload.b.eq(port_b.o.payload),
            reducer.i.payload.first.eq(place.first),
            reducer.i.payload.last.eq(place.last),
            parameters.i.payload.eq(port_a.o.payload),
            parameters.i.valid.eq(port_a.o.valid & place.parameter),
            port_a.o.ready.eq(place.parameter | reduces),
            port_b.o.ready.eq(reduces & place.paired),
            places.o.ready.eq(port_a.o.valid & port_a.o.ready),
        ]

        # Arithmetic, or none.
        direct, tail = Signal(), command.tail if config.has_softmax else 0
        m.d.sync += direct.eq(operation.matches(VectorOp.COPY, VectorOp.MAX))
        reduced = Cat(reducer.o.payload.a[i][:8] for i in range(config.array_size))
        m.submodules.results = results = StreamFifo(lanes.o.payload.shape(), _RESULTS)
        m.d.comb += [
            parameters.start.eq(start),
            parameters.operation.eq(operation),
            addresses.loaded.eq(parameters.loaded),
            reducer.operation.eq(operation),
            reducer.tail.eq(tail),
            lanes.tail.eq(tail),
            lanes.operation.eq(operation),
            lanes.operands.eq(parameters.operands),
            lanes.records.eq(parameters.records),
            lanes.i.payload.eq(reducer.o.payload),
            lanes.i.valid.eq(reducer.o.valid & ~direct),
            reducer.o.ready.eq(direct | lanes.i.ready),
            results.i.payload.eq(self._clamped(m, Mux(direct, reduced, lanes.o.payload), command)),
            results.i.valid.eq(Mux(direct, reducer.o.valid, lanes.o.valid)),
            write.payload.row.eq(out_rows.row),
            write.payload.data.eq(results.o.payload),
            write.valid.eq(results.o.valid),
            written.eq(write.valid & write.ready),
            results.o.ready.eq(written),
            written_all.eq(addresses.i.ready & ~out_rows.waiting),
        ]

        # Reports.
        with m.If(~engine.fault.valid & parameters.foreign):
            m.d.sync += [
                engine.fault.valid.eq(1),
                spoiled.eq(1),
                engine.fault.code.eq(Fault.RECORD),
                engine.fault.address.eq(command.param_row + parameters.index),
            ]
        with m.Elif(~engine.fault.valid & addresses.fault):
            m.d.sync += [
                engine.fault.valid.eq(1),
                engine.fault.code.eq(Fault.BUFFER),
                engine.fault.address.eq(addresses.address),
            ]
        requests = (self.read_a.request, self.read_b.request, write)
        working = Cat(
            start,
            done,
            written,
            port_a.moving,
            port_b.moving,
            places.o.ready,
            reducer.o.valid,
            lanes.busy,
        )
        m.d.comb += [
            self.conflict.eq(Cat(request.valid & ~request.ready for request in requests).any()),
            engine.fault.index.eq(command.index),
            engine.idle.eq(~active),
            engine.quiet.eq(1),
            engine.index.eq(Mux(active, command.index, engine.command.payload.index)),
        ]
        with m.If(working.any()):
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

    def _clamped(self, m: Module, row: Value, command: data.View) -> Value:
        """Limit every byte of a row; ``high`` has the last word."""
        lanes = data.ArrayLayout(signed(8), self.config.row_bytes)
        before, after = Signal(lanes), Signal(lanes)
        low, high, only_high = command.low, command.high, Signal()
        m.d.sync += only_high.eq(low > high)
        m.d.comb += before.as_value().eq(row)
        for i in range(self.config.row_bytes):
            raised = Mux(before[i] < low, low, before[i])
            m.d.comb += after[i].eq(Mux(only_high | (before[i] > high), high, raised))
        return after.as_value()
