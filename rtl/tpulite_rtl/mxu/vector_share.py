"""Works out the stream of vectors of a CONV."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from tpulite.arch.config import Config
from tpulite.arch.interleave import (
    LINE,
    LINES,
    MOST_DELAY,
    PAIR,
    WIDE_LINE,
    least_delay,
    paired_outputs,
)
from tpulite.arch.isa import Axis
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.lib.serial_product import horner
from tpulite_rtl.mxu.slots import POSITION_BITS

__all__ = ["share_vectors"]


def share_vectors(
    m: Module, config: Config, command: data.View, vectors: data.View, cycles: Value
) -> None:
    """Set a ``VECTOR_COMMAND``; complete after the last of the cycles of its products.

    In depthwise mode a position is an input vector, so that strides show between sums; in dense
    mode a vector follows the next. Pairs of vectors are one position each along x, whose windows
    are two pairs: see docs/depthwise.md.
    """
    # Registers: the command has been here for a cycle when they count.
    depthwise, dense = Signal(reset_less=True), Signal(reset_less=True)
    m.d.sync += [depthwise.eq(command.depthwise), dense.eq(command.byte_step != 0)]
    tap_rows, line_rows, origin = (
        Signal(ROW_BITS, name=name, reset_less=True) for name in ("tap_rows", "line_rows", "origin")
    )
    pairs = _pairs(m, config, command)
    pitch = command.act_pitch
    horner(m, tap_rows, cycles, (command.dilation_y, pitch))
    horner(m, line_rows, cycles, (command.stride_y, pitch))
    # The complement, so that all are added: -x - 1 = ~x.
    horner(m, origin, cycles, (command.pad_top, pitch), command.pad_left, ~command.act_row)

    def if_depthwise(value: Value | int, other: Value | int) -> Value:
        return Mux(depthwise, value, other)

    step_x = command.stride_x
    if config.int16:  # from the lower vector of a pair to the next pair
        step_x = Mux(command.int16, (step_x << 1) - 1, step_x)[: len(step_x)]
    step_x = Mux(dense, 1, if_depthwise(command.dilation_x, step_x))
    stride_x, kernel_x = command.stride_x, command.kernel_columns
    if config.has_delay_lines:
        # The highest bit of a factor counts before `pairs` does: a pair's stride does not have it.
        stride_x = Cat(Mux(pairs, 1, stride_x)[: len(stride_x) - 1], stride_x[-1])
        step_x, kernel_x = Mux(pairs, PAIR, step_x), Mux(pairs, PAIR, kernel_x)
    y_rows = if_depthwise(tap_rows, line_rows)
    axes = []
    for name, count, stride, kernel, fill, rows in (
        ("y", command.rows, command.stride_y, command.kernel_rows, Const(0), y_rows),
        ("x", command.columns, stride_x, kernel_x, dense, step_x),
    ):
        last = Signal(POSITION_BITS, name=f"positions_{name}", reset_less=True)
        period, window = Signal(4, name=f"period_{name}"), Signal(4, name=f"window_{name}")
        m.d.comb += [
            period.eq(if_depthwise(stride, 1)),
            window.eq(if_depthwise(kernel, 1)),
        ]
        # count * period - period + window - 1
        factor = Mux(command.depthwise, stride, 1)
        less = (~Cat(period, Const(0, 1))).as_signed()  # -period - 1
        horner(m, last, cycles, (factor, count), window, less, fill)
        axes.append((last, window - 1, period, rows))
    by_y = command.inner == Axis.Y
    x, y = reversed(axes)
    m.d.comb += [
        vectors.dense.eq(dense),
        vectors.step_y.eq(if_depthwise(command.dilation_y, command.stride_y)),
        vectors.step_x.eq(step_x),
        vectors.origin.eq(~origin),
        vectors.tap_rows.eq(tap_rows),
        vectors.last_block.eq(command.blocks - 1),
        # A depthwise kernel is in the stream itself.
        vectors.last_kernel_row.eq(if_depthwise(0, command.kernel_rows - 1)),
        vectors.last_kernel_column.eq(if_depthwise(0, command.kernel_columns - 1)),
    ]
    for axis, first, second in (
        (vectors.inner_axis, x, y),
        (vectors.outer_axis, y, x),
    ):
        for name, one, other in zip(axis.shape().members, first, second, strict=True):
            m.d.comb += axis[name].eq(Mux(by_y, other, one))
    if config.has_delay_lines:
        _delay(m, config, command, vectors, depthwise)


def _delay(
    m: Module, config: Config, command: data.View, vectors: data.View, depthwise: Value
) -> None:
    """Set the delay of a command, which is the positions less one, less the taps of a line."""
    last, by_y = vectors.inner_axis.last, command.inner == Axis.Y
    inner = Mux(by_y, command.kernel_rows, command.kernel_columns)
    outer = Mux(by_y, command.kernel_columns, command.kernel_rows)
    delays = []
    for name, taps in (("narrow", LINE), ("wide", WIDE_LINE)):
        lines = Signal(name=name, reset_less=True)
        m.d.sync += lines.eq((outer == LINES) & (inner == taps))
        delayed = (last >= least_delay(config) + taps - 1) & (last < MOST_DELAY + taps)
        delays.append(Mux(depthwise & lines & delayed, last - (taps - 1), 0))
    m.d.comb += vectors.delay.eq(delays[0] | delays[1])


def _pairs(m: Module, config: Config, command: data.View) -> Value:
    """Return a register: whether the positions of a command come in pairs."""
    pairs = Signal(reset_less=True)
    if config.has_delay_lines:
        outputs = paired_outputs(config)
        m.d.sync += pairs.eq(
            command.depthwise
            & (command.inner == Axis.X)
            & (command.stride_x == PAIR)
            & (command.dilation_x == 1)
            & (command.kernel_rows == LINE)
            & (command.kernel_columns == LINE)
            & (command.columns >= outputs[0])
            & (command.columns <= outputs[-1])
        )
    return pairs
