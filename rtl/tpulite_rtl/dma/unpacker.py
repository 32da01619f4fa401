"""Beats of DRAM to rows of the unified buffer."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite_rtl.dma.geometry import rows_per_beat
from tpulite_rtl.lib.interfaces import ROW_BITS

__all__ = ["Unpacker", "beat_layout", "row_layout"]


def beat_layout(config: Config) -> data.StructLayout:
    """Return the layout of a beat of a line."""
    return data.StructLayout(
        {
            "data": 8 * BEAT_BYTES,
            "first": 1,  # first beat of a line, whose rows start at ``row``
            "row": ROW_BITS,
            "tail": ceil_log2(rows_per_beat(config)),  # rows in it, minus one
            "last": 1,  # last beat of a command
        }
    )


def row_layout(config: Config) -> data.StructLayout:
    """Return the layout of a row on its way into the buffer."""
    return data.StructLayout(
        {"row": ROW_BITS, "data": 8 * config.row_bytes, "last": 1}  # last row of a command
    )


class Unpacker(wiring.Component):
    """Take rows out of beats and number them.

    With N = 16 a beat is a row and passes through. With N = 4 and 8 beats wait in a register for a
    cycle while their rows leave, one a cycle without a gap. With N = 32 the first half of a row
    waits for the second, which completes the row in the same cycle.

    Parameters
    ----------
    config : Config
        The machine.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Beats.
                "i": In(stream.Signature(beat_layout(config))),
                # Rows.
                "o": Out(stream.Signature(row_layout(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        beat = self.i.payload
        row = self.o.payload
        row_next = Signal(ROW_BITS)
        accepted = Signal()
        m.d.comb += accepted.eq(self.i.valid & self.i.ready)

        if self.config.row_bytes == BEAT_BYTES:
            m.d.comb += [
                row.row.eq(Mux(beat.first, beat.row, row_next)),
                row.data.eq(beat.data),
                row.last.eq(beat.last),
                self.o.valid.eq(self.i.valid),
                self.i.ready.eq(self.o.ready),
            ]
            with m.If(accepted):
                m.d.sync += row_next.eq(row.row + 1)

        elif self.config.row_bytes > BEAT_BYTES:
            half = Signal(8 * BEAT_BYTES)
            second = Signal()
            m.d.comb += [
                row.row.eq(row_next),
                row.data.eq(Cat(half, beat.data)),
                row.last.eq(beat.last),
                self.o.valid.eq(self.i.valid & second),
                self.i.ready.eq(self.o.ready | ~second),
            ]
            with m.If(accepted):
                m.d.sync += [second.eq(~second), half.eq(beat.data), row_next.eq(row_next + second)]
                with m.If(beat.first):
                    m.d.sync += row_next.eq(beat.row)

        else:
            held = Signal(beat_layout(self.config))
            holding = Signal()
            position = Signal(len(beat.tail))
            ends_beat = Signal()
            m.d.comb += [
                ends_beat.eq(position == held.tail),
                row.row.eq(row_next),
                row.data.eq(held.data.word_select(position, len(row.data))),
                row.last.eq(held.last & ends_beat),
                self.o.valid.eq(holding),
                self.i.ready.eq(~holding | (ends_beat & self.o.ready)),
            ]
            with m.If(self.o.valid & self.o.ready):
                m.d.sync += [position.eq(position + 1), row_next.eq(row_next + 1)]
                with m.If(ends_beat):
                    m.d.sync += [position.eq(0), holding.eq(0)]
            with m.If(accepted):
                m.d.sync += [holding.eq(1), held.eq(beat)]
                with m.If(beat.first):
                    m.d.sync += row_next.eq(beat.row)
        return m
