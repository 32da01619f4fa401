"""The matrix unit: an engine that executes CONV."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine, Opcode
from tpulite.arch.registers import EngineState
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import (
    EngineSignature,
    ReadPortSignature,
    WritePortSignature,
)
from tpulite_rtl.lib.layout import INDEX_BITS, command_layout
from tpulite_rtl.mxu.accumulator import Accumulator
from tpulite_rtl.mxu.intake import Intake
from tpulite_rtl.mxu.preparation import Preparation
from tpulite_rtl.mxu.systolic_array import SystolicArray
from tpulite_rtl.mxu.vector_sequencer import VectorSequencer
from tpulite_rtl.mxu.weight_sequencer import WeightSequencer
from tpulite_rtl.ub.unified_buffer import steady_ports
from tpulite_rtl.vpu.record_loader import RecordLoader
from tpulite_rtl.vpu.requantizer import Requantizer
from tpulite_rtl.vpu.shared_lane import LanesSignature

__all__ = ["MatrixUnit"]

_STARTED = 16
"""Commands that may be between their start and their completion."""


class MatrixUnit(wiring.Component):
    """Array, accumulators and the VPU's drain path, with the sequencers that feed them.

    The road of a command: preparation → intake → weights, records and vectors → array →
    accumulator → requantizer → unified buffer → tokens. A k-tile of S slots takes max(S, N)
    cycles, of int4 max(S, N / 2), without a gap between tiles or commands whose operands and tokens
    are there. There is a slot for each output vector, in dense mode one more for each row of the
    region, and in depthwise mode one for each input vector of the stream.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands, tokens, state.
                "engine": Out(EngineSignature(command_layout(Opcode.CONV, config))),
                # Read ports of the unified buffer.
                "read_activation": Out(ReadPortSignature(config)),
                "read_weight": Out(ReadPortSignature(config)),
                "read_record": Out(ReadPortSignature(config)),
                # The request of ``read_activation`` must not be refused; in a machine with delay
                # lines, the second bit says so of ``read_weight``.
                "steady": Out(steady_ports(config)),
                # A vector whose sum counts enters the array in this cycle.
                "entered": Out(1),
                # Drained rows. The buffer must accept them at once.
                "write": Out(WritePortSignature(config)),
                # The vector path, which uses the requantizer, too.
                "vector": In(LanesSignature(config)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, engine = self.config, self.engine
        m.submodules.preparation = preparation = Preparation(config)
        m.submodules.intake = intake = Intake(config)
        m.submodules.weights = weights = WeightSequencer(config)
        m.submodules.records = records = RecordLoader(config)
        m.submodules.vectors = vectors = VectorSequencer(config)
        m.submodules.array = array = SystolicArray(config)
        m.submodules.accumulator = accumulator = Accumulator(config)
        m.submodules.requantizer = requantizer = Requantizer(config)

        # The road.
        connect(m, flipped(engine.command), preparation.i)
        connect(m, preparation.o, intake.command)
        connect(m, intake.take, flipped(engine.take))
        connect(m, intake.weights, weights.command)
        connect(m, intake.records, records.command)
        connect(m, intake.vectors, vectors.command)
        connect(m, intake.drains, accumulator.command)
        if config.has_delay_lines:
            self._share(m, vectors, weights)
        else:
            connect(m, weights.read, flipped(self.read_weight))
        connect(m, records.read, flipped(self.read_record))
        connect(m, vectors.read, flipped(self.read_activation))
        connect(m, vectors.o, array.i)
        connect(m, weights.o, array.weight)
        connect(m, array.o, accumulator.i)
        connect(m, accumulator.o, requantizer.i)
        connect(m, records.o, requantizer.record)
        connect(m, requantizer.write, flipped(self.write))
        connect(m, flipped(self.vector), requantizer.vector)
        m.d.comb += [
            self.steady[0].eq(vectors.steady),
            self.entered.eq(vectors.o.valid),
            array.early.eq(vectors.early),
            vectors.tile_ready.eq(weights.tile_ready),
            weights.start.eq(vectors.start),
            weights.zero_point.eq(vectors.zero_point),
            vectors.block_ready.eq(records.block_ready),
            records.claim.eq(vectors.claim),
            records.next.eq(accumulator.o.valid & accumulator.o.payload.first),
            intake.address.eq(preparation.address),
            intake.stop.eq(engine.stop),
            vectors.stop.eq(engine.stop),
            weights.stop.eq(engine.stop),
            records.stop.eq(engine.stop),
        ]

        if config.int4:
            m.d.comb += [
                vectors.int4_ready.eq(weights.int4_ready),
                weights.int4.eq(vectors.int4),
            ]

        # Completions wait here if a token counter is full, and indices until the completion.
        m.submodules.oldest = oldest = StreamFifo(unsigned(INDEX_BITS), _STARTED)
        m.submodules.completed = completed = StreamFifo(unsigned(len(Engine)), _STARTED)
        gives = engine.give.valid & engine.give.ready
        m.d.comb += [
            completed.i.payload.eq(requantizer.done.payload),
            completed.i.valid.eq(requantizer.done.valid),
            engine.give.payload.eq(completed.o.payload),
            engine.give.valid.eq(completed.o.valid & ~engine.stop),
            completed.o.ready.eq(engine.give.ready & ~engine.stop),
            intake.room.eq(oldest.i.ready),
            # The stream of a depthwise command may outlast its sums.
            engine.idle.eq(intake.empty & ~oldest.o.valid & ~vectors.busy),
            engine.quiet.eq(1),
            oldest.i.payload.eq(preparation.o.payload.index),
            oldest.i.valid.eq(intake.started),
            oldest.o.ready.eq(gives),
        ]

        # The oldest command's fault counts.
        with m.If(records.fault.valid):
            m.d.comb += engine.fault.eq(records.fault)
        with m.Else():
            m.d.comb += engine.fault.eq(intake.fault)

        # A vector issued is work; so are the last cycles of what is in the array, if nothing holds
        # back the next command. They count for the command that is issued, else for the next one,
        # else for the oldest one inside.
        with m.If(engine.give.valid & ~engine.give.ready):
            m.d.comb += engine.index.eq(oldest.o.payload)
        with m.Elif(vectors.busy):
            m.d.comb += engine.index.eq(vectors.index)
        with m.Elif(engine.command.valid):
            m.d.comb += engine.index.eq(engine.command.payload.index)
        with m.Else():
            m.d.comb += engine.index.eq(oldest.o.payload)
        m.d.comb += engine.state.eq(EngineState.BUSY)
        with m.If(vectors.busy):
            with m.If(vectors.refused | vectors.starved):
                m.d.comb += engine.state.eq(EngineState.BUFFER)
        with m.Elif(intake.waiting):
            m.d.comb += engine.state.eq(EngineState.TOKEN)
        with m.Elif(engine.idle & ~engine.command.valid):
            m.d.comb += engine.state.eq(EngineState.IDLE)
        return m

    def _share(self, m: Module, vectors: VectorSequencer, weights: WeightSequencer) -> None:
        """Read odd vectors through the port of the weights, which wait for them."""
        port, odd = self.read_weight, vectors.odd
        accepted = Signal(row_read(self.config))  # requests for odd vectors of the last cycles
        m.d.sync += accepted.eq(Cat(odd & port.request.valid, accepted))
        m.d.comb += [
            port.request.payload.eq(
                Mux(odd, vectors.read_odd.request.payload, weights.read.request.payload)
            ),
            port.request.valid.eq(
                Mux(odd, vectors.read_odd.request.valid, weights.read.request.valid)
            ),
            self.steady[1].eq(odd),
            weights.read.request.ready.eq(port.request.ready & ~odd),
            weights.read.response.payload.eq(port.response.payload),
            weights.read.response.valid.eq(port.response.valid & ~accepted[-1]),
            vectors.read_odd.request.ready.eq(port.request.ready),
            vectors.read_odd.response.payload.eq(port.response.payload),
            vectors.read_odd.response.valid.eq(port.response.valid & accepted[-1]),
        ]
