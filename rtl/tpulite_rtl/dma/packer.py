"""Rows of the unified buffer to beats of DRAM."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite_rtl.bus.axi import WRITE_BEAT
from tpulite_rtl.dma.geometry import rows_per_beat
from tpulite_rtl.dma.row_reader import piece_layout

__all__ = ["Packer"]


class Packer(wiring.Component):
    """Put rows together to beats, or cut them.

    A beat is offered in the cycle in which the piece that ends it is; strobes cover the bytes of
    its present pieces. Throughput is one piece a cycle.

    Parameters
    ----------
    config : Config
        The machine.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Rows, with N = 32 halves of rows.
                "i": In(stream.Signature(piece_layout(config))),
                # Beats.
                "o": Out(stream.Signature(WRITE_BEAT)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        piece, beat = self.i.payload, self.o.payload
        taken = Signal()
        m.d.comb += [
            self.o.valid.eq(self.i.valid & piece.ends_beat),
            self.i.ready.eq(self.o.ready | ~piece.ends_beat),
            taken.eq(self.i.valid & self.i.ready),
            beat.last.eq(piece.ends_burst),
        ]

        if self.config.row_bytes > BEAT_BYTES:
            second_half = Signal(8 * BEAT_BYTES)
            m.d.comb += [
                beat.data.eq(Mux(piece.second, second_half, piece.data[: 8 * BEAT_BYTES])),
                beat.strobe.eq(piece.present.replicate(BEAT_BYTES)),
            ]
            with m.If(taken):
                m.d.sync += second_half.eq(piece.data[8 * BEAT_BYTES :])
            return m

        # The pieces before the last one of a beat wait here.
        row_bytes, count = self.config.row_bytes, rows_per_beat(self.config)
        held = Signal(data.ArrayLayout(8 * row_bytes, count))
        present = Signal(count)
        position = Signal(ceil_log2(count))
        for i in range(count):
            here = position == i
            m.d.comb += [
                beat.data.word_select(i, 8 * row_bytes).eq(Mux(here, piece.data, held[i])),
                beat.strobe.word_select(i, row_bytes).eq(
                    Mux(here, piece.present, present[i]).replicate(row_bytes)
                ),
            ]
            with m.If(taken & here):
                m.d.sync += [held[i].eq(piece.data), present[i].eq(piece.present)]
        with m.If(taken):
            m.d.sync += position.eq(position + 1)
            with m.If(piece.ends_beat):
                m.d.sync += [position.eq(0), present.eq(0)]
        return m
