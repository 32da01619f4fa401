"""A table of 256 bytes that several lanes look up at once."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import Config
from tpulite.arch.isa import LUT_BYTES
from tpulite_rtl.vpu.vector_parameters import table_row

__all__ = ["LookupTable"]


class LookupTable(wiring.Component):
    """Look up ``lanes`` bytes a cycle; latency is one cycle.

    Synthesis makes a copy of the table for each lane: a memory has one port for each of them.

    Parameters
    ----------
    config : Config
        Geometry: the rows in which the table comes.
    lanes : int
        Lookups in a cycle.

    Members
    -------
    i : In(stream.Signature(table_row(config), always_ready=True))
        Rows of a new table; looked up from the next cycle on.
    address : In(data.ArrayLayout(unsigned(8), lanes))
        Which bytes to look up.
    o : Out(data.ArrayLayout(unsigned(8), lanes))
        The bytes at the addresses of the cycle before.
    """

    i: stream.Interface
    address: data.View
    o: data.View

    def __init__(self, config: Config, *, lanes: int) -> None:
        self.config = config
        self.lanes = lanes
        lane_bytes = data.ArrayLayout(unsigned(8), lanes)
        super().__init__(
            {
                "i": In(stream.Signature(table_row(config), always_ready=True)),
                "address": In(lane_bytes),
                "o": Out(lane_bytes),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        row_bytes = self.config.row_bytes
        column_bits = exact_log2(row_bytes)
        m.submodules.results = table = Memory(
            shape=unsigned(8 * row_bytes), depth=LUT_BYTES // row_bytes, init=[]
        )
        write_port = table.write_port()
        m.d.comb += [
            write_port.addr.eq(self.i.payload.index),
            write_port.data.eq(self.i.payload.data),
            write_port.en.eq(self.i.valid),
        ]
        for lane in range(self.lanes):
            read_port = table.read_port()
            column = Signal(column_bits, name=f"column_{lane}")
            m.d.comb += [
                read_port.addr.eq(self.address[lane][column_bits:]),
                self.o[lane].eq(read_port.data.word_select(column, 8)),
            ]
            m.d.sync += column.eq(self.address[lane][:column_bits])
        return m
