"""A table of 256 bytes that several lanes look up at once."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import WORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES
from tpulite_rtl.lib.memory import TwoPortRam
from tpulite_rtl.vpu.vector_parameters import table_row

__all__ = ["LookupTable"]


class LookupTable(wiring.Component):
    """Look up ``lanes`` bytes per cycle; latency is one cycle.

    Each lane has a copy of the table, in a RAM of whole rows: they are loaded as fast as they come,
    and any kind of RAM has a port to read by. Nothing is looked up while a row is written.

    Parameters
    ----------
    config : Config
        Geometry: the rows in which the table comes.
    lanes : int
        Lookups in a cycle.
    """

    def __init__(self, config: Config, *, lanes: int) -> None:
        self.config = config
        self.lanes = lanes
        lane_bytes = data.ArrayLayout(unsigned(8), lanes)
        super().__init__(
            {
                # Rows of a new table; looked up from the next cycle on. A lane takes those for its
                # byte of words.
                "i": In(stream.Signature(table_row(config), always_ready=True)),
                # Look up; else the results stay.
                "moves": In(1),
                # Which bytes to look up.
                "address": In(lane_bytes),
                # The bytes at the addresses of the cycle before.
                "o": Out(lane_bytes),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        row_bytes = self.config.row_bytes
        column_bits = exact_log2(row_bytes)
        for lane in range(self.lanes):
            table = TwoPortRam(8 * row_bytes, LUT_BYTES // row_bytes)
            m.submodules[f"copy_{lane}"] = table
            column = Signal(column_bits, name=f"column_{lane}")
            plane = self.i.payload.planes[lane % WORD_BYTES] if self.config.has_softmax else 1
            m.d.comb += [
                table.write_enable.eq(self.i.valid & plane),
                table.write_row.eq(self.i.payload.index),
                table.write_data.eq(self.i.payload.data),
                table.read_enable.eq(~self.i.valid & self.moves),
                table.read_row.eq(self.address[lane][column_bits:]),
                self.o[lane].eq(table.read_data.word_select(column, 8)),
            ]
            with m.If(self.moves):
                m.d.sync += column.eq(self.address[lane][:column_bits])
        return m
