"""Issues activation vectors: the pace of the matrix unit is set here."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS
from tpulite_rtl.lib.interfaces import ReadPortSignature
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_rtl.mxu.image_walker import ImageWalker
from tpulite_rtl.mxu.slots import vector_command
from tpulite_rtl.mxu.systolic_array import early_layout, vector_layout
from tpulite_rtl.mxu.vector_assembler import VectorAssembler, issued_layout

__all__ = ["VectorSequencer", "drain_interval"]


def drain_interval(config: Config, *, raw: bool) -> int:
    """Return the cycles from one drained vector to the next."""
    interval = config.array_size // config.lanes
    return max(RAW_ROWS, interval) if raw else interval


class VectorSequencer(wiring.Component):
    """Feed the array with the vectors of CONVs: one slot a cycle, no gap between tiles or commands.

    A k-tile starts when its weight tile is there and N cycles after the previous start, or N / 2 if
    that was one of int4; the last k-tile of a command that drains also waits for the channel
    records and for the pace of the requantizer. A slot that reads the buffer may be refused; in
    depthwise mode not after the first one, because a sum needs N consecutive cycles, and there is
    no odd vector before the second one. The rows of a transposed weight tile come before the k-tile
    starts, without a gap.
    A slot of cycle t enters the array in cycle t + 3.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        odd = {  # only in a machine with delay lines
            # Read port for odd vectors of pairs, whose requests are never refused.
            "read_odd": Out(ReadPortSignature(config)),
            # The slot in turn reads an odd vector, in this cycle or later.
            "odd": Out(1),
        }
        int4 = {  # only in a machine with int4
            # The next weight tile is there if it is one of int4.
            "int4_ready": In(1),
            # The tile that starts is one of int4.
            "int4": Out(1),
        }
        super().__init__(
            {
                # Commands in order, each with its tokens taken.
                "command": In(stream.Signature(vector_command(config))),
                # Read port.
                "read": Out(ReadPortSignature(config)),
                **(odd if config.has_delay_lines else {}),
                # The request of this cycle must not be refused.
                "steady": Out(1),
                # Vectors for the array.
                "o": Out(stream.Signature(vector_layout(config), always_ready=True)),
                # What the array must know of the next one.
                "early": Out(early_layout(config)),
                # The next weight tile is there.
                "tile_ready": In(1),
                # The next weight tile must start in this cycle: its first vector enters
                # ``row_read`` cycles later.
                "start": Out(1),
                # Weight zero point of this tile.
                "zero_point": Out(signed(8)),
                **(int4 if config.int4 else {}),
                # The channel records of the next requantizing command are there.
                "block_ready": In(1),
                # These records will be used by the tile of this cycle's slot.
                "claim": Out(1),
                # Issue nothing more.
                "stop": In(1),
                # A command is being issued.
                "busy": Out(1),
                # A slot was issued.
                "issued": Out(1),
                # The buffer refused a slot.
                "refused": Out(1),
                # Operands of a slot are missing.
                "starved": Out(1),
                # Command being issued.
                "index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        n = config.array_size
        m.submodules.walker = walker = ImageWalker(config)
        m.submodules.assembler = assembler = VectorAssembler(config)
        connect(m, flipped(self.command), walker.command)
        connect(m, assembler.o, flipped(self.o))
        m.d.comb += self.early.eq(assembler.early)
        slot, there = walker.o.payload, walker.o.valid

        # The pace: counters of cycles since things happened, and registers that say that these
        # suffice, as requests depend on them.
        tile_gap, tile_free = Signal(range(n)), Signal(init=1)
        drain_gap = Signal(range(max(2, drain_interval(config, raw=True))))
        drain_free = Signal(init=1)
        record_age = Signal(range(config.record_rows + 1), init=config.record_rows)
        record_rows = (config.record_rows, config.short_record_rows)
        records_free = Signal(len(record_rows), init=(1 << len(record_rows)) - 1)
        operands, in_pace, goes = Signal(), Signal(), Signal()
        tile_ready, starts = self.tile_ready, self.issued & slot.first
        if config.int4:
            tile_ready = Mux(slot.int4, self.int4_ready, tile_ready)
        steady = there & slot.depthwise & ~slot.first
        if config.has_transposed_tiles:
            tile_ready, starts = tile_ready | slot.transposed, starts & ~slot.transposed
            steady |= there & slot.loads
        m.d.comb += [
            operands.eq(tile_ready & (~slot.claims | self.block_ready)),
            in_pace.eq(tile_free & (~slot.claims | records_free.bit_select(slot.short, 1))),
            # The last vector of a command reports its completion through the requantizer, so it
            # keeps the requantizer's pace even if nothing is drained. A depthwise stream waits
            # before it begins; it drains only into as many lanes as there are channels.
            goes.eq(
                there
                & ~self.stop
                & (~slot.first | (operands & in_pace))
                & (~slot.paced | drain_free)
            ),
            self.read.request.payload.eq(slot.row),
            self.read.request.valid.eq(goes & slot.read),
            self.steady.eq(steady),
            self.issued.eq(goes & (~slot.read | self.read.request.ready)),
            self.refused.eq(self.read.request.valid & ~self.read.request.ready),
            self.starved.eq(there & slot.first & ~operands),
            self.claim.eq(self.issued & slot.claims),
            self.busy.eq(walker.busy),
            self.index.eq(walker.index),
            walker.o.ready.eq(self.issued),
        ]
        with m.If(self.issued & slot.first):
            rows = Mux(slot.int4, n // 2 - 1, n - 1) if config.int4 else n - 1
            m.d.sync += [tile_gap.eq(rows), tile_free.eq(0)]
        with m.Elif(~tile_free):
            m.d.sync += [tile_gap.eq(tile_gap - 1), tile_free.eq(tile_gap == 1)]
        uses = self.claim
        if config.int16:
            # The first sum of pairs is that of the second slot.
            claimed = Signal()
            with m.If(self.issued):
                m.d.sync += claimed.eq(slot.claims)
            uses = self.claim | (self.issued & slot.lower & claimed)
        with m.If(uses):
            m.d.sync += [record_age.eq(1), records_free.eq(Cat(rows <= 1 for rows in record_rows))]
        with m.Elif(record_age != config.record_rows):
            m.d.sync += [
                record_age.eq(record_age + 1),
                records_free.eq(Cat(record_age >= rows - 1 for rows in record_rows)),
            ]
        with m.If(self.issued & slot.reports):
            intervals = [drain_interval(config, raw=raw) - 1 for raw in (False, True)]
            m.d.sync += [
                drain_gap.eq(Mux(slot.raw, intervals[True], intervals[False])),
                drain_free.eq(Mux(slot.raw, intervals[True] == 0, intervals[False] == 0)),
            ]
            if config.int16:  # the lower bytes of a pair take a cycle of their own
                with m.If(slot.lower):
                    m.d.sync += [drain_gap.eq(1), drain_free.eq(0)]
        with m.Elif(~drain_free):
            m.d.sync += [drain_gap.eq(drain_gap - 1), drain_free.eq(drain_gap == 1)]

        # The vector takes a cycle longer than a row of the buffer.
        m.d.sync += [
            self.start.eq(starts),
            self.zero_point.eq(slot.zero_point),
        ]
        if config.int4:
            m.d.sync += self.int4.eq(slot.int4)
        m.d.comb += [
            assembler.i.valid.eq(self.issued),
            assembler.row.eq(self.read.response.payload),
        ]
        if config.has_delay_lines:
            m.d.comb += [
                self.odd.eq(there & slot.odd_read),
                self.read_odd.request.payload.eq(slot.odd_row),
                self.read_odd.request.valid.eq(goes & slot.odd_read),
                assembler.odd_row.eq(self.read_odd.response.payload),
            ]
        for name in issued_layout(config).members:
            m.d.comb += assembler.i.payload[name].eq(slot[name])
        return m
