"""Fetches the channel records of coming n-blocks and hands them to the requantizer in time."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import RecordForm
from tpulite.arch.registers import Fault
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.credits import credit
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import FAULT, ROW_BITS, ReadPortSignature
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_rtl.lib.pipeline import parked
from tpulite_rtl.vpu.record_fields import holds_foreign_rounding, record_row

__all__ = ["BLOCKS", "RECORD_COMMAND", "RecordLoader"]

BLOCKS = 4
"""Blocks of full records for which the loader has room."""

RECORD_COMMAND = data.StructLayout(
    {"record_row": ROW_BITS, "record_form": len(RecordForm) - 1, "index": INDEX_BITS}
)
"""Where the records of a requantizing command lie."""


class RecordLoader(wiring.Component):
    """Prefetch channel records into a FIFO and deliver them to the shadow registers.

    Rows are fetched one a cycle, as long as there is room, without a gap between commands. The
    rows of a block go out one a cycle, as soon as they are here and the block before it is in use,
    which ``next`` says; a row is offered in the cycle after its response, or later;
    with ``ram_registers`` a cycle after that.

    Parameters
    ----------
    config : Config
        Geometry and roundings.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # One transfer for each requantizing command, in order. One may wait behind the one
                # whose rows are requested; the first request is in the next cycle.
                "command": In(stream.Signature(RECORD_COMMAND)),
                # Read port of the unified buffer.
                "read": Out(ReadPortSignature(config)),
                # A complete block that nobody claimed is here, on its way, or in the shadow
                # registers.
                "block_ready": Out(1),
                # A command that needs the next unclaimed block has become certain to use it.
                "claim": In(1),
                # The shadow registers are copied in this cycle, by a vector that entered the
                # requantizer. In this very cycle the next block's rows may go out.
                "next": In(1),
                # Rows of the next block.
                "o": Out(stream.Signature(record_row(config), always_ready=True)),
                # Request nothing more.
                "stop": In(1),
                # RECORD fault, for a cycle: a record has a rounding that this machine lacks, or
                # none at all. The address is the row with the rounding field.
                "fault": Out(FAULT),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        depth = BLOCKS * config.record_rows

        next_comes = Signal()
        offered, following = parked(m, self.command, next_comes)

        # Requests. A row has its place in the FIFO from its request until it is delivered.
        request, command = self.read.request, Signal(RECORD_COMMAND, reset_less=True)
        row, offset = Signal(ROW_BITS, reset_less=True), Signal(range(config.record_rows))
        active, accepted, last = Signal(), Signal(), Signal()
        room = credit(m, depth, taken=accepted, returned=self.o.valid, name="room")
        rows = Mux(
            command.record_form == RecordForm.SHORT, config.short_record_rows, config.record_rows
        )
        m.d.comb += [
            request.payload.eq(row),
            request.valid.eq(active & room & ~self.stop),
            accepted.eq(request.valid & request.ready),
            last.eq(offset == rows - 1),
            next_comes.eq(~active | (accepted & last)),
        ]
        with m.If(~active | accepted):
            m.d.sync += [row.eq(row + 1), offset.eq(offset + 1)]
            with m.If(~active | last):  # then the next command, or none, which becomes known late
                m.d.sync += [
                    active.eq(offered),
                    command.eq(following),
                    row.eq(following.record_row),
                    offset.eq(0),
                ]

        # What a response belongs to: known when it is asked for, needed when it comes.
        origin_layout = data.StructLayout(
            {"row": ROW_BITS, "offset": offset.shape(), "last": 1, "command": RECORD_COMMAND}
        )
        coming = [Signal(origin_layout, name=f"coming_{i}") for i in range(row_read(config))]
        origin = coming[-1]
        m.d.sync += [
            coming[0].row.eq(request.payload),
            coming[0].offset.eq(offset),
            coming[0].last.eq(last),
            coming[0].command.eq(command),
            *(later.eq(earlier) for earlier, later in pairwise(coming)),
        ]
        response = self.read.response

        # Rows wait here.
        entry = data.StructLayout({"row": record_row(config), "last": 1})
        arrived, head = Signal(entry), Signal(entry, reset_less=True)
        m.submodules.queue = queue = StreamFifo(entry, depth)
        m.d.comb += [
            arrived.row.data.eq(response.payload),
            arrived.row.index.eq(origin.offset),
            arrived.row.form.eq(origin.command.record_form),
            arrived.last.eq(origin.last),
            queue.i.payload.eq(arrived),
            queue.i.valid.eq(response.valid),
        ]
        leaves = self.o.valid
        there = queue.o.valid
        if config.ram_registers:
            # The queue is a RAM: its next row moves on to a register as soon as that is free.
            there = Signal()
            moves = queue.o.valid & (~there | leaves)
            m.d.comb += queue.o.ready.eq(moves)
            with m.If(moves | leaves):
                m.d.sync += there.eq(moves)
            with m.If(moves):
                m.d.sync += head.eq(queue.o.payload)
        else:
            m.d.comb += [head.eq(queue.o.payload), queue.o.ready.eq(leaves)]

        # Delivery.
        filled = Signal()  # the shadow registers hold a whole block that nobody uses yet
        m.d.comb += [
            self.o.payload.eq(head.row),
            self.o.valid.eq(there & (~filled | self.next)),
        ]
        with m.If(self.o.valid & head.last):
            m.d.sync += filled.eq(1)
        with m.Elif(self.next):
            m.d.sync += filled.eq(0)

        # The FIFO full of short blocks, and one in the shadow registers. A row that was accepted
        # is here long before the block's first vector comes out of the array.
        unclaimed = Signal(range(depth // config.short_record_rows + 2))
        complete = accepted & last
        m.d.sync += [
            unclaimed.eq(unclaimed + complete - self.claim),
            self.block_ready.eq((unclaimed > self.claim) | complete),
        ]

        m.d.sync += [
            self.fault.valid.eq(response.valid & holds_foreign_rounding(config, arrived.row)),
            self.fault.code.eq(Fault.RECORD),
            self.fault.index.eq(origin.command.index),
            self.fault.address.eq(origin.row),
        ]
        return m
