"""Rows of the unified buffer for the bursts of STORE."""

from functools import reduce
from itertools import pairwise
from operator import or_

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.timing import row_read
from tpulite_rtl.dma.burst_splitter import rows_layout
from tpulite_rtl.dma.geometry import flip_top_bits, rows_per_beat
from tpulite_rtl.lib.credits import credit
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import ROW_BITS, ReadPortSignature

__all__ = ["RowReader", "piece_layout"]

_STEP = data.StructLayout(
    {"row": ROW_BITS, "second": 1, "ends_beat": 1, "ends_burst": 1, "flip": 1}
)


def piece_layout(config: Config) -> data.StructLayout:
    """Return the layout of a row, or half of one, on its way into a beat."""
    return data.StructLayout(
        {
            "data": 8 * config.row_bytes,
            "present": 1,  # the data was read; else it is void
            "second": 1,  # stands for the second half of the row before; only with N = 32
            "ends_beat": 1,
            "ends_burst": 1,
        }
    )


class RowReader(wiring.Component):
    """Read the rows of bursts, one a cycle.

    A row is requested in the cycle after its turn, and offered in the cycle after its response.
    Once stopped it requests nothing and makes up for the rest of the bursts with void pieces, so
    that their beats can be sent.

    Parameters
    ----------
    config : Config
        The machine.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Bursts.
                "i": In(stream.Signature(rows_layout(config))),
                # Their rows. With N = 32 two pieces a row, the first with the whole row, the second
                # without.
                "o": Out(stream.Signature(piece_layout(config))),
                # Read port of the unified buffer.
                "read": Out(ReadPortSignature(config)),
                # Request nothing more; stays high.
                "stop": In(1),
                # A row was requested, or is on its way.
                "busy": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        burst, request = self.i.payload, self.read.request
        latency = row_read(self.config)
        places = latency + 3  # so many cycles are from a step until its row has left
        m.submodules.fifo = fifo = StreamFifo(piece_layout(self.config), places)
        wiring.connect(m, fifo.o, wiring.flipped(self.o))

        # Where in the burst it is.
        at_start = Signal(init=1)
        row_next = Signal(ROW_BITS)
        beat = Signal(len(burst.len))
        position = Signal(len(burst.tail))  # row in its beat
        second = Signal()
        row = Signal(ROW_BITS)
        last_beat = Signal()
        ends_beat = Signal()
        m.d.comb += [
            row.eq(Mux(burst.first & at_start, burst.row, row_next)),
            last_beat.eq(beat == burst.len),
            ends_beat.eq(position == Mux(last_beat, burst.tail, rows_per_beat(self.config) - 1)),
        ]

        # A step needs a place in the FIFO, because answers cannot wait.
        step = Signal()
        room = credit(m, places, taken=step, returned=self.o.valid & self.o.ready, name="room")
        m.submodules.steps = steps = StreamFifo(_STEP, 2)
        m.d.comb += [
            step.eq(self.i.valid & room & steps.i.ready),
            steps.i.valid.eq(step),
            steps.i.payload.row.eq(row),
            steps.i.payload.second.eq(second),
            steps.i.payload.ends_beat.eq(ends_beat),
            steps.i.payload.ends_burst.eq(ends_beat & last_beat),
            steps.i.payload.flip.eq(burst.flip),
            self.i.ready.eq(step & ends_beat & last_beat),
        ]
        with m.If(step):
            m.d.sync += [at_start.eq(0), position.eq(position + 1)]
            if self.config.row_bytes > BEAT_BYTES:
                m.d.sync += [second.eq(~second), row_next.eq(row + second)]
            else:
                m.d.sync += row_next.eq(row + 1)
            with m.If(ends_beat):
                m.d.sync += [beat.eq(beat + 1), position.eq(0)]
                with m.If(last_beat):
                    m.d.sync += [beat.eq(0), at_start.eq(1)]

        # Requests begin at registers.
        wanted, moves = steps.o.payload, Signal()
        m.d.comb += [
            request.payload.eq(wanted.row),
            request.valid.eq(steps.o.valid & ~wanted.second & ~self.stop),
            moves.eq(steps.o.valid & (request.ready | wanted.second | self.stop)),
            steps.o.ready.eq(moves),
        ]

        # What must be known of a row when its answer comes.
        entry = data.StructLayout({"valid": 1, "present": 1, "step": _STEP})
        coming = [Signal(entry, name=f"coming_{cycle}") for cycle in range(latency)]
        m.d.sync += [
            coming[0].valid.eq(moves),
            coming[0].present.eq(~self.stop),
            coming[0].step.eq(wanted),
            *(later.eq(earlier) for earlier, later in pairwise(coming)),
        ]
        answered = coming[-1]
        m.d.comb += [
            fifo.i.valid.eq(answered.valid),
            fifo.i.payload.data.eq(flip_top_bits(self.read.response.payload, answered.step.flip)),
            fifo.i.payload.present.eq(answered.present),
            fifo.i.payload.second.eq(answered.step.second),
            fifo.i.payload.ends_beat.eq(answered.step.ends_beat),
            fifo.i.payload.ends_burst.eq(answered.step.ends_burst),
            self.busy.eq(reduce(or_, (row.valid for row in coming), step & ~steps.o.valid | moves)),
        ]
        return m
