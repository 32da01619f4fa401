"""Starts MATMULs: takes tokens, checks ranges, and hands each part of the machine its share."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Drain, Engine, Opcode, RecordForm
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT, ROW_BITS
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.vector_sequencer import VECTOR_COMMAND
from tpulite_rtl.mxu.weight_sequencer import WEIGHT_COMMAND
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND

__all__ = ["Intake"]


class Intake(wiring.Component):
    """Split each MATMUL into its weights, records, vectors and drain.

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
    command : In(stream.Signature(command_layout(Opcode.MATMUL)))
        Commands of the queue.
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
        BUFFER fault of a range that is known at the start.
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
                "command": In(stream.Signature(command_layout(Opcode.MATMUL))),
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
        requantizes = command.drain == Drain.REQUANTIZE

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
        outside = self._check_ranges(m, command, requantizes, begun)

        vector = Signal(VECTOR_COMMAND)
        vector_waits = Signal()  # a started command that the vector sequencer has not taken
        operands = self.command.valid & (begun | command.prefetch) & ~self.stop & ~outside
        weights_done, records_done, vectors_done = Signal(), Signal(), Signal()
        m.d.comb += [
            self.weights.valid.eq(operands & ~weights_sent),
            self.weights.payload.weight_row.eq(command.weight_row),
            self.weights.payload.k_tiles.eq(command.k_tiles),
            weights_done.eq(weights_sent | (self.weights.valid & self.weights.ready)),
            self.records.valid.eq(operands & requantizes & ~records_sent),
            self.records.payload.record_row.eq(command.record_row),
            self.records.payload.record_form.eq(command.record_form),
            self.records.payload.index.eq(command.index),
            records_done.eq(
                records_sent | ~requantizes | (self.records.valid & self.records.ready)
            ),
            # The drain must know of a command before its first vector can come out of the array.
            vectors_done.eq(begun & ~vector_waits & self.drains.ready & ~self.stop & ~outside),
            self.command.ready.eq(weights_done & records_done & vectors_done),
        ]
        accepted = self.command.valid & self.command.ready
        m.d.comb += self.drains.valid.eq(accepted)
        for name in DRAIN_COMMAND.members:
            m.d.comb += self.drains.payload[name].eq(command[name])
        for name in VECTOR_COMMAND.members:
            m.d.comb += vector[name].eq(command[name])

        parked = Signal(VECTOR_COMMAND, reset_less=True)
        m.d.comb += [
            self.vectors.valid.eq(vector_waits | accepted),
            self.vectors.payload.eq(Mux(vector_waits, parked, vector)),
            self.empty.eq(~self.command.valid & ~vector_waits),
        ]
        with m.If(accepted):
            m.d.sync += [taken.eq(0), weights_sent.eq(0), records_sent.eq(0), parked.eq(vector)]
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

    def _check_ranges(self, m: Module, command, requantizes, begun) -> Signal:
        """Raise the fault once the command has begun; return whether it will have one."""
        config = self.config
        n_bits = exact_log2(config.array_size)
        record_rows = Mux(
            command.record_form == RecordForm.SHORT, config.short_record_rows, config.record_rows
        )
        raw = command.drain == Drain.RAW
        out_rows = Mux(raw, command.m * RAW_ROWS, command.m)
        checks = (
            (1, command.acc_row + command.m, config.acc_rows),
            (1, command.weight_row + (command.k_tiles << n_bits), config.ub_rows),
            (requantizes, command.record_row + record_rows, config.ub_rows),
            (command.drain != Drain.KEEP, command.out_row + out_rows, config.ub_rows),
        )
        outside, address = Signal(), Signal(ROW_BITS + 4)
        # The first check that fails gives the address, so it is assigned last.
        for applies, end, limit in reversed(checks):
            last = Signal(ROW_BITS + 4)
            m.d.comb += last.eq(end - 1)
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
