"""Two-port RAM: the only form of memory of the chip that an SRAM compiler can give."""

from amaranth.hdl import ClockSignal, Instance, Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tpulite.arch.build import Build

__all__ = ["MACRO", "TwoPortRam"]

MACRO = "tpulite_ram"
"""Name of the module that the maker of a chip whose memories are ``macro`` provides.

Its parameters are ``WIDTH`` and ``DEPTH``, its ports ``clk`` and those of :class:`TwoPortRam`.
"""

_NO_PROMISE = {"no_rw_check": "1"}
_BLOCK = {"ram_style": "block", "syn_ramstyle": "block_ram"}


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
    """

    def __init__(self, width: int, depth: int) -> None:
        self.width = width
        self.depth = depth
        super().__init__(
            {
                # Write a row in this cycle.
                "write_enable": In(1),
                "write_row": In(range(depth)),
                "write_data": In(width),
                # Read a row in this cycle.
                "read_enable": In(1),
                "read_row": In(range(depth)),
                # The row of the latest read before this cycle.
                "read_data": Out(width),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        form = Build.of(platform).memories
        if form == "macro":
            ports = {f"i_{name}": getattr(self, name) for name in self.signature.members}
            ports["o_read_data"] = ports.pop("i_read_data")
            m.submodules.macro = Instance(
                MACRO, p_WIDTH=self.width, p_DEPTH=self.depth, i_clk=ClockSignal(), **ports
            )
            return m
        attrs = _NO_PROMISE | (_BLOCK if form == "block" else {})
        memory = Memory(shape=unsigned(self.width), depth=self.depth, init=[], attrs=attrs)
        m.submodules.rows = memory
        writer, reader = memory.write_port(), memory.read_port()
        m.d.comb += [
            writer.en.eq(self.write_enable),
            writer.addr.eq(self.write_row),
            writer.data.eq(self.write_data),
            reader.en.eq(self.read_enable),
            reader.addr.eq(self.read_row),
            self.read_data.eq(reader.data),
        ]
        return m
