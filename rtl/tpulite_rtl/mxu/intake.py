"""Starts CONVs: takes tokens, checks ranges, and hands each part of the machine its share."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.preparation import PREPARED
from tpulite_rtl.mxu.slots import VECTOR_COMMAND
from tpulite_rtl.mxu.weight_sequencer import WEIGHT_COMMAND
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND

__all__ = ["Intake"]


class Intake(wiring.Component):
    """Hand out each CONV's shares: weights, records, vectors and drain.

    Weights and records go out when the tokens are taken, or before if the command says
    ``prefetch``; vectors and drain go out after the tokens. One command that has started may wait
    here for the vector sequencer, so that the operands of the next are fetched meanwhile. A
    command whose token is there passes in the cycle in which it comes.

    Parameters
    ----------
    config : Config
        Geometry.

    Members
    -------
    command : In(stream.Signature(PREPARED))
        Commands.
    take : Out(stream.Signature(unsigned(4)))
        Tokens to take.
    weights, records, vectors, drains : Out(stream.Signature(...))
        The shares.
    room : In(1)
        Another command may start.
    stop : In(1)
        Start nothing more.
    started : Out(1)
        A command starts in this cycle.
    waiting : Out(1)
        The next command waits for tokens.
    empty : Out(1)
        No command here.
    fault : Out(FAULT)
        BUFFER fault of the first region that leaves its memory.
    """

    command: stream.Interface
    take: stream.Interface
    weights: stream.Interface
    records: stream.Interface
    vectors: stream.Interface
    drains: stream.Interface
    room: Signal
    stop: Signal
    started: Signal
    waiting: Signal
    empty: Signal
    fault: data.View

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(PREPARED)),
                "take": Out(stream.Signature(unsigned(len(Engine)))),
                "weights": Out(stream.Signature(WEIGHT_COMMAND)),
                "records": Out(stream.Signature(RECORD_COMMAND)),
                "vectors": Out(stream.Signature(VECTOR_COMMAND)),
                "drains": Out(stream.Signature(DRAIN_COMMAND)),
                "room": In(1),
                "stop": In(1),
                "started": Out(1),
                "waiting": Out(1),
                "empty": Out(1),
                "fault": Out(FAULT),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        command = self.command.payload
        requantizes = command.requantizes

        # What of the command at the head has been done already.
        taken, weights_sent, records_sent = Signal(), Signal(), Signal()
        begun = Signal()  # its tokens are taken, at the latest in this cycle
        m.d.comb += [
            self.take.payload.eq(command.wait),
            self.take.valid.eq(self.command.valid & ~taken & self.room & ~self.stop),
            begun.eq(taken | (self.take.valid & self.take.ready)),
            self.started.eq(self.take.valid & self.take.ready),
            self.waiting.eq(self.take.valid & ~self.take.ready),
        ]
        outside = self._check_regions(m, command, begun)

        vector_waits = Signal()  # a started command that the vector sequencer has not taken
        operands = self.command.valid & (begun | command.prefetch) & ~self.stop & ~outside
        weights_done, records_done, vectors_done = Signal(), Signal(), Signal()
        m.d.comb += [
            self.weights.valid.eq(operands & ~weights_sent),
            self.weights.payload.eq(command.weights),
            weights_done.eq(weights_sent | (self.weights.valid & self.weights.ready)),
            self.records.valid.eq(operands & requantizes & ~records_sent),
            self.records.payload.eq(command.records),
            records_done.eq(
                records_sent | ~requantizes | (self.records.valid & self.records.ready)
            ),
            # The drain must know of a command before its first vector can come out of the array.
            vectors_done.eq(begun & ~vector_waits & self.drains.ready & ~self.stop & ~outside),
            self.command.ready.eq(weights_done & records_done & vectors_done),
        ]
        accepted = self.command.valid & self.command.ready
        parked = Signal(VECTOR_COMMAND, reset_less=True)
        m.d.comb += [
            self.drains.valid.eq(accepted),
            self.drains.payload.eq(command.drains),
            self.vectors.valid.eq(vector_waits | accepted),
            self.vectors.payload.eq(Mux(vector_waits, parked, command.vectors)),
            self.empty.eq(~self.command.valid & ~vector_waits),
        ]
        with m.If(accepted):
            m.d.sync += [
                taken.eq(0),
                weights_sent.eq(0),
                records_sent.eq(0),
                parked.eq(command.vectors),
            ]
        with m.Elif(self.command.valid):
            m.d.sync += [
                taken.eq(begun),
                weights_sent.eq(weights_done),
                records_sent.eq(self.records.valid & self.records.ready | records_sent),
            ]
        with m.If(self.vectors.ready):
            m.d.sync += vector_waits.eq(0)
        with m.Elif(accepted):
            m.d.sync += vector_waits.eq(1)
        return m

    def _check_regions(self, m: Module, command: data.View, begun: Signal) -> Signal:
        """Raise the fault once the command has begun; return whether it will have one."""
        checks = (
            ("accumulators", 1, self.config.acc_rows),
            ("weights", 1, self.config.ub_rows),
            ("records", command.requantizes, self.config.ub_rows),
            ("output", command.drained, self.config.ub_rows),
            ("image", 1, self.config.ub_rows),
        )
        outside, address = Signal(), Signal(command.last_rows.image.shape())
        # The first check that fails gives the address, so it is assigned last.
        for region, applies, limit in reversed(checks):
            last = command.last_rows[region]
            with m.If(applies & (last >= limit)):
                m.d.comb += [outside.eq(1), address.eq(last)]
        # All fields in one place: Verilog simulators never execute a process that sets only the
        # constant part of a signal whose other parts depend on conditions.
        m.d.comb += [
            self.fault.valid.eq(self.command.valid & begun & outside),
            self.fault.code.eq(Fault.BUFFER),
            self.fault.index.eq(command.index),
            self.fault.address.eq(address),
        ]
        return outside
