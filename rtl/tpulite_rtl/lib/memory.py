"""Two-port RAM: the only form of memory of the chip that an SRAM compiler can give."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["TwoPortRam"]


class TwoPortRam(wiring.Component):
    """Memory with a port that writes and a port that reads.

    A row is read in the cycle after it was asked for, and stays until the next one is. A row that
    is read while it is written is unknown: who may do so must not look at it.

    Parameters
    ----------
    width : int
        Bits of a row.
    depth : int
        Rows.

    Members
    -------
    write_enable : In(1)
        Write in this cycle.
    write_row : In(range(depth))
    write_data : In(width)
    read_enable : In(1)
        Read in this cycle.
    read_row : In(range(depth))
    read_data : Out(width)
        The row of the latest read before this cycle.
    """

    write_enable: Signal
    write_row: Signal
    write_data: Signal
    read_enable: Signal
    read_row: Signal
    read_data: Signal

    def __init__(self, width: int, depth: int) -> None:
        self.width = width
        self.depth = depth
        super().__init__(
            {
                "write_enable": In(1),
                "write_row": In(range(depth)),
                "write_data": In(width),
                "read_enable": In(1),
                "read_row": In(range(depth)),
                "read_data": Out(width),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.rows = rows = Memory(shape=unsigned(self.width), depth=self.depth, init=[])
        writer, reader = rows.write_port(), rows.read_port()
        m.d.comb += [
            writer.en.eq(self.write_enable),
            writer.addr.eq(self.write_row),
            writer.data.eq(self.write_data),
            reader.en.eq(self.read_enable),
            reader.addr.eq(self.read_row),
            self.read_data.eq(reader.data),
        ]
        return m
