"""Addresses of a VECTOR command, in order, each checked before it is used."""

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.effects import BINARY, WINDOWED, parameter_rows
from tpulite.arch.isa import Opcode, operations
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.lib.layout import command_layout, operation_of

__all__ = ["STEP", "VectorAddresses"]

STEP = data.StructLayout(
    {
        "a": ROW_BITS,  # row to read: a parameter, or a vector of A
        "b": ROW_BITS,
        "out": ROW_BITS,
        "parameter": 1,  # a row of parameters
        "paired": 1,  # read b as well: beside the first vector of a window
        "first": 1,  # first vector of a window
        "last": 1,  # last vector of a window
    }
)
"""One step of a command: at most a row for each port."""

_SUM_BITS = ROW_BITS + 1  # a legal row plus a pitch or a step


class VectorAddresses(wiring.Component):
    """Walk through the parameters of a command, then through its output vectors.

    One step a cycle, the first in the cycle after the command was accepted. A step is offered only
    if all its rows lie in the buffer; otherwise ``fault`` shows the first one that does not, and
    the walk has ended. An address is a sum of a legal one and an increment, so none wraps.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands. Accepted after the last step of the one before.
                "i": In(stream.Signature(command_layout(Opcode.VECTOR))),
                # Steps: the rows of the parameters, then the vectors, window by window.
                "o": Out(stream.Signature(STEP)),
                # No parameters are under way: a fault found in them would have come first.
                "loaded": In(1),
                # A row outside the buffer.
                "fault": Out(1),
                "address": Out(_SUM_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        command = Signal(command_layout(Opcode.VECTOR))
        active, parameter = Signal(), Signal()
        paired, windowed = Signal(), Signal()
        known = operations(self.config)

        # Where an operand's output row, output vector, window row and row begin.
        a_line, a_column, a_window, a = (
            Signal(_SUM_BITS, name=f"a_{level}") for level in ("line", "column", "window", "row")
        )
        b_line, b, out_line, out = (
            Signal(_SUM_BITS, name=name) for name in ("b_line", "b", "out_line", "out")
        )
        # What is left, this one included, and whether it is the last one.
        lines, columns, window_lines, window_columns = (
            Signal.like(command[name], name=f"{name}_left")
            for name in ("rows", "columns", "window_rows", "window_columns")
        )
        last_line, last_column, last_window_line, last_window_column = (
            Signal(name=f"last_{name}")
            for name in ("line", "column", "window_line", "window_column")
        )

        def begin(left: Signal, is_last: Signal, count: Value) -> list:
            return [left.eq(count), is_last.eq(~count[1:].any())]

        def proceed(left: Signal, is_last: Signal) -> list:
            return [left.eq(left - 1), is_last.eq(left == 2)]

        first, last = Signal(), Signal()
        m.d.comb += last.eq(~windowed | (last_window_line & last_window_column))

        # Faults, in the order in which rows count.
        bad_out, bad_a, bad_b, bad_parameters = Signal(), Signal(), Signal(), Signal()
        last_parameter = Signal(_SUM_BITS)
        rows = self.config.ub_rows
        m.d.comb += [
            bad_parameters.eq(parameter & (last_parameter >= rows)),
            bad_out.eq(~parameter & first & (out >= rows)),
            bad_a.eq(~parameter & (a >= rows)),
            bad_b.eq(~parameter & paired & (b >= rows)),
            self.fault.eq(active & (bad_parameters | ((bad_out | bad_a | bad_b) & self.loaded))),
        ]
        with m.If(bad_parameters):
            m.d.comb += self.address.eq(last_parameter)
        with m.Elif(bad_out):
            m.d.comb += self.address.eq(out)
        with m.Else():
            m.d.comb += self.address.eq(Mux(bad_a, a, b))

        row = Signal(_SUM_BITS)  # of the parameters
        step, advance = self.o.payload, Signal()
        m.d.comb += [
            self.i.ready.eq(~active),
            self.o.valid.eq(active & ~(bad_parameters | bad_out | bad_a | bad_b)),
            advance.eq(self.o.valid & self.o.ready),
            step.a.eq(Mux(parameter, row, a)),
            step.b.eq(b),
            step.out.eq(out),
            step.parameter.eq(parameter),
            step.paired.eq(paired & first & ~parameter),
            step.first.eq(first & ~parameter),
            step.last.eq(last),
        ]

        next_window = a_window + command.window_pitch
        next_a, next_b, next_out = Signal(_SUM_BITS), Signal(_SUM_BITS), Signal(_SUM_BITS)
        m.d.comb += [
            next_a.eq(Mux(last_column, a_line + command.a_pitch, a_column + command.a_step)),
            next_b.eq(Mux(last_column, b_line + command.b_pitch, b + command.b_step)),
            next_out.eq(Mux(last_column, out_line + command.out_pitch, out + command.out_step)),
        ]
        with m.If(advance & parameter):
            m.d.sync += [row.eq(row + 1), parameter.eq(row != last_parameter)]
        with m.Elif(advance):
            m.d.sync += first.eq(last)
            with m.If(~last & ~last_window_column):
                m.d.sync += [a.eq(a + 1), proceed(window_columns, last_window_column)]
            with m.Elif(~last):
                m.d.sync += [
                    a.eq(next_window),
                    a_window.eq(next_window),
                    begin(window_columns, last_window_column, command.window_columns),
                    proceed(window_lines, last_window_line),
                ]
            with m.Else():
                m.d.sync += [
                    *(position.eq(next_a) for position in (a, a_window, a_column)),
                    b.eq(next_b),
                    out.eq(next_out),
                    begin(window_columns, last_window_column, command.window_columns),
                    begin(window_lines, last_window_line, command.window_rows),
                    proceed(columns, last_column),
                ]
                with m.If(last_column):
                    m.d.sync += [
                        a_line.eq(next_a),
                        b_line.eq(next_b),
                        out_line.eq(next_out),
                        begin(columns, last_column, command.columns),
                        proceed(lines, last_line),
                        active.eq(~last_line),
                    ]

        new = self.i.payload
        counts = [parameter_rows(op, self.config) for op in known]
        new_operation = operation_of(new, self.config)
        beyond_first = Array(max(count - 1, 0) for count in counts)[new_operation]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += active.eq(1)
        with m.If(self.i.ready):  # valid or not, which becomes known late
            m.d.sync += [
                command.eq(new),
                parameter.eq(Array(count != 0 for count in counts)[new_operation]),
                row.eq(new.param_row),
                last_parameter.eq(new.param_row + beyond_first),
                *(position.eq(new.a_row) for position in (a, a_window, a_column, a_line)),
                *(position.eq(new.b_row) for position in (b, b_line)),
                *(position.eq(new.out_row) for position in (out, out_line)),
                begin(lines, last_line, new.rows),
                begin(columns, last_column, new.columns),
                begin(window_lines, last_window_line, new.window_rows),
                begin(window_columns, last_window_column, new.window_columns),
                paired.eq(new_operation.matches(*(op for op in BINARY if op in known))),
                windowed.eq(new_operation.matches(*(op for op in WINDOWED if op in known))),
                first.eq(1),
            ]
        return m
