"""Fetches weight tiles ahead of their use and hands them to the array row by row."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import Config
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.credits import credit
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import ROW_BITS, ReadPortSignature
from tpulite_rtl.lib.layout import with_int4
from tpulite_rtl.lib.pipeline import parked
from tpulite_rtl.mxu.weight_lines import weight_layout

__all__ = ["TILES_BITS", "WEIGHT_COMMAND", "WeightSequencer", "rows_of_tiles", "weight_command"]

TILES_BITS = ROW_BITS - 1
"""Width of a number of k-tiles, whose weights lie in the buffer: 8192 tiles of 2 rows fill it."""

WEIGHT_COMMAND = data.StructLayout({"weight_row": ROW_BITS, "last_tile": TILES_BITS})
"""The weights of one CONV: consecutive tiles from a row on, and their number less one."""


def weight_command(config: Config) -> data.StructLayout:
    """Return :data:`WEIGHT_COMMAND` of a machine, with whether the tiles are int4."""
    return with_int4(config, WEIGHT_COMMAND)


def rows_of_tiles(config: Config, last_tile: Value, int4: Value | None) -> Value:
    """Return the rows of so many tiles, less one: N of a tile, or half of them of one of int4."""
    bits = exact_log2(config.array_size)
    rows = Cat(Const(-1, bits), last_tile)
    return rows if int4 is None else Mux(int4, Cat(Const(-1, bits - 1), last_tile), rows)


class WeightSequencer(wiring.Component):
    """Read weight tiles into a FIFO of two tiles; on ``start`` send one tile into the array.

    A tile that is started in cycle t has its row r on ``o`` in cycle t + 1 + r. The rows are
    counted as soon as the buffer has accepted their requests: a row comes out of the FIFO three
    cycles later at the latest, and the last row of a tile is used N - 1 cycles after the first.
    A tile of int4 has N / 2 rows.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        int4 = {  # only in a machine with int4
            # A whole tile of int4 is there or certain to be in time.
            "int4_ready": Out(1),
            # The tile that starts is one of int4.
            "int4": In(1),
        }
        super().__init__(
            {
                # Weights to fetch, in the order of use. One command may wait behind the one that is
                # fetched; ``ready`` is a register, and the first request is in the next cycle.
                "command": In(stream.Signature(weight_command(config))),
                # Read port.
                "read": Out(ReadPortSignature(config)),
                # A whole tile is there or certain to be in time.
                "tile_ready": Out(1),
                # Take the next tile, if it is ready and the rows of the one before are sent. Its
                # first row is at ``o`` ``row_read`` - 1 cycles later.
                "start": In(1),
                # Zero point of the tile that starts.
                "zero_point": In(signed(8)),
                **(int4 if config.int4 else {}),
                # Weight rows less their zero point.
                "o": Out(stream.Signature(weight_layout(config), always_ready=True)),
                # Request nothing more.
                "stop": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n = self.config.array_size
        depth = 2 * n
        m.submodules.fifo = fifo = StreamFifo(unsigned(8 * self.config.row_bytes), depth)

        has_int4 = self.config.int4
        next_comes = Signal()
        offered, following = parked(m, self.command, next_comes)
        following_int4 = following.int4 if has_int4 else None

        # Requests: `left` rows of the current command after this one.
        row = Signal(ROW_BITS, reset_less=True)
        left = Signal(len(following.last_tile) + exact_log2(n), reset_less=True)
        active, last = Signal(), Signal(reset_less=True)
        asked = Signal()
        pop = Signal()
        room = credit(m, depth, taken=asked, returned=pop, name="room")
        m.d.comb += [
            self.read.request.payload.eq(row),
            self.read.request.valid.eq(active & room & ~self.stop),
            asked.eq(self.read.request.valid & self.read.request.ready),
            next_comes.eq(~active | (asked & last)),
            fifo.i.payload.eq(self.read.response.payload),
            fifo.i.valid.eq(self.read.response.valid),
        ]
        with m.If(~active | asked):
            m.d.sync += [row.eq(row + 1), left.eq(left - 1), last.eq(left == 1)]
            with m.If(~active | last):  # then the next command, or none, which becomes known late
                m.d.sync += [
                    active.eq(offered),
                    row.eq(following.weight_row),
                    left.eq(rows_of_tiles(self.config, following.last_tile, following_int4)),
                    last.eq(0),
                ]

        # Rows that are certain and not yet claimed by a tile.
        certain = Signal(range(depth + 1))
        claimed = Mux(self.int4, n // 2, n) if has_int4 else n
        unclaimed = certain - Mux(self.start, claimed, 0)
        m.d.sync += [
            certain.eq(unclaimed + asked),
            self.tile_ready.eq(Mux(asked, unclaimed >= n - 1, unclaimed >= n)),
        ]

        if has_int4:
            half = n // 2
            m.d.sync += self.int4_ready.eq(Mux(asked, unclaimed >= half - 1, unclaimed >= half))

        # One tile into the array.
        sending = Signal()
        array_row = Signal(range(n))
        zero_point = Signal(signed(8), reset_less=True)
        m.d.comb += [
            pop.eq(sending),
            fifo.o.ready.eq(sending),
            self.o.valid.eq(sending),
            self.o.payload.row.eq(array_row),
        ]
        for lane in range(n):
            weight = fifo.o.payload.word_select(lane, 8).as_signed()
            m.d.comb += self.o.payload.weights[lane].eq(weight - zero_point)
        with m.If(sending):
            m.d.sync += array_row.eq(array_row + 1)
        # The slot's row comes from the buffer a cycle before it enters the array, as weights do.
        begins, its_zero_point = self.start, self.zero_point
        for cycle in range(2, row_read(self.config)):
            later = Signal(name=f"begins_{cycle}")
            later_zero_point = Signal(signed(8), name=f"zero_point_{cycle}", reset_less=True)
            m.d.sync += [later.eq(begins), later_zero_point.eq(its_zero_point)]
            begins, its_zero_point = later, later_zero_point
        last_row = n - 1
        if has_int4:
            is_int4, its_kind = Signal(), self.int4
            for cycle in range(2, row_read(self.config)):
                later_kind = Signal(name=f"int4_{cycle}", reset_less=True)
                m.d.sync += later_kind.eq(its_kind)
                its_kind = later_kind
            with m.If(begins):
                m.d.sync += is_int4.eq(its_kind)
            m.d.comb += self.o.payload.int4.eq(is_int4)
            last_row = Mux(is_int4, n // 2 - 1, n - 1)
        with m.If(begins):
            m.d.sync += [sending.eq(1), array_row.eq(0), zero_point.eq(its_zero_point)]
        with m.Elif(array_row == last_row):
            m.d.sync += sending.eq(0)
        return m
