"""Starts CONVs: takes tokens, checks ranges, and hands each part of the machine its share."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import with_int16
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.preparation import REGION_BITS, prepared_layout
from tpulite_rtl.mxu.slots import vector_command
from tpulite_rtl.mxu.weight_sequencer import weight_command
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND

__all__ = ["Intake"]


class Intake(wiring.Component):
    """Hand out each CONV's shares: weights, records, vectors and drain.

    Weights and records go out when the tokens are taken, or before if the command says
    ``prefetch``; vectors, with transposed weights, and drain go out after the tokens. One command
    that has started may wait here for the vector sequencer, so that the operands of the next are
    fetched meanwhile. A command starts in the cycle in which its tokens are there; a cycle later at
    the earliest it is accepted, and its vectors and drain go out.

    Parameters
    ----------
    config : Config
        Which shares there are.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands.
                "command": In(stream.Signature(prepared_layout(config))),
                # Last row of the first region that leaves its memory, a cycle after its command
                # comes.
                "address": In(REGION_BITS),
                # Tokens to take.
                "take": Out(stream.Signature(unsigned(len(Engine)))),
                # The shares.
                "weights": Out(stream.Signature(weight_command(config))),
                "records": Out(stream.Signature(RECORD_COMMAND)),
                "vectors": Out(stream.Signature(vector_command(config))),
                "drains": Out(stream.Signature(with_int16(config, DRAIN_COMMAND))),
                # Another command may start.
                "room": In(1),
                # Start nothing more.
                "stop": In(1),
                # A command starts in this cycle.
                "started": Out(1),
                # The next command waits for tokens.
                "waiting": Out(1),
                # No command here.
                "empty": Out(1),
                # BUFFER fault of the first region that leaves its memory, the cycle after the
                # start.
                "fault": Out(FAULT),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        command = self.command.payload
        requantizes = command.requantizes

        # What of the command has been done already. In the cycle in which it leaves it is no more.
        taken, weights_sent, records_sent = Signal(), Signal(), Signal()
        leaves, here = Signal(), Signal()
        begun = Signal()  # its tokens are taken, at the latest in this cycle
        m.d.comb += [
            here.eq(self.command.valid & ~leaves),
            self.take.payload.eq(command.wait),
            self.take.valid.eq(here & ~taken & self.room & ~self.stop),
            self.started.eq(self.take.valid & self.take.ready),
            self.waiting.eq(self.take.valid & ~self.take.ready),
            begun.eq(taken | self.started),
        ]

        operands, vectors_sent = Signal(), Signal()
        unsent, sent = operands & ~weights_sent, weights_sent
        if self.config.has_transposed_tiles:  # transposed weights come with the vectors
            transposed = command.vectors.transposed
            unsent, sent = unsent & ~transposed, sent | transposed
        weights_done, records_done = Signal(), Signal()
        vector_waits = Signal()  # a started command that the vector sequencer has not taken
        m.d.comb += [
            operands.eq(here & (begun | command.prefetch) & ~self.stop & ~command.outside),
            self.weights.valid.eq(unsent),
            self.weights.payload.eq(command.weights),
            weights_done.eq(sent | self.weights.ready),
            self.records.valid.eq(operands & requantizes & ~records_sent),
            self.records.payload.eq(command.records),
            records_done.eq(records_sent | ~requantizes | self.records.ready),
            vectors_sent.eq(operands & begun & weights_done & records_done & ~vector_waits),
        ]
        # The drain takes a command before its first vector can come out of the array: its queue is
        # only full while the vectors of others are in there.
        with m.If(~leaves | self.drains.ready):
            m.d.sync += leaves.eq(vectors_sent)
        with m.If(leaves):
            m.d.sync += [taken.eq(0), weights_sent.eq(0), records_sent.eq(0)]
        with m.Elif(here):
            m.d.sync += [
                taken.eq(begun),
                weights_sent.eq(weights_sent | (self.weights.valid & self.weights.ready)),
                records_sent.eq(records_sent | (self.records.valid & self.records.ready)),
            ]

        # What has room for the next command takes it, valid or not: the decision comes a cycle
        # later.
        parked = Signal(self.vectors.payload.shape(), reset_less=True)
        with m.If(~vector_waits):
            m.d.sync += [parked.eq(command.vectors), vector_waits.eq(vectors_sent)]
        with m.Elif(self.vectors.ready):
            m.d.sync += vector_waits.eq(0)
        m.d.sync += self.fault.valid.eq(here & begun & command.outside)
        m.d.comb += [
            self.command.ready.eq(leaves & self.drains.ready),
            self.drains.valid.eq(leaves),
            self.drains.payload.eq(command.drains),
            self.vectors.valid.eq(vector_waits),
            self.vectors.payload.eq(parked),
            self.empty.eq(~self.command.valid & ~vector_waits),
            self.fault.code.eq(Fault.BUFFER),
            self.fault.index.eq(command.index),
            self.fault.address.eq(self.address),
        ]
        return m
