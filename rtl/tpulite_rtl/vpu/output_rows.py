"""Rows that the results of a VECTOR command are written to."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.isa import Opcode
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.lib.layout import command_layout

__all__ = ["OutputRows"]

_MOST = 63  # vectors between their addresses and the write port: no more have places there


class OutputRows(wiring.Component):
    """Walk through the output rows of a command once more, as results leave."""

    def __init__(self) -> None:
        super().__init__(
            {
                # The current command.
                "command": In(command_layout(Opcode.VECTOR)),
                # In the next cycle ``command`` is a new one; the one before has no vector inside.
                "start": In(1),
                # One more vector has a legal row, and will be written.
                "issued": In(1),
                # The oldest of these is written.
                "written": In(1),
                # To which row, from two cycles after ``start`` on.
                "row": Out(ROW_BITS),
                # A vector was issued in an earlier cycle and is not written.
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        command = self.command
        level = Signal(range(_MOST + 1))
        with m.If(self.issued & ~self.written):
            m.d.sync += [level.eq(level + 1), self.waiting.eq(1)]
        with m.If(self.written & ~self.issued):
            m.d.sync += [level.eq(level - 1), self.waiting.eq(level[1:].any())]

        row, line, last = Signal(ROW_BITS), Signal(ROW_BITS), Signal()
        columns = Signal.like(command.columns)
        following = Mux(last, line + command.out_pitch, row + command.out_step)[:ROW_BITS]
        loads = Signal()
        m.d.comb += [self.row.eq(row), last.eq(~columns[1:].any())]
        m.d.sync += loads.eq(self.start)
        with m.If(loads):
            m.d.sync += [
                row.eq(command.out_row),
                line.eq(command.out_row),
                columns.eq(command.columns),
            ]
        with m.Elif(self.written):
            m.d.sync += [row.eq(following), columns.eq(columns - 1)]
            with m.If(last):
                m.d.sync += [line.eq(following), columns.eq(command.columns)]
        return m
