"""The weight-stationary systolic array."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.interleave import LINE, LINES, WIDE_LINE
from tpulite_rtl.mxu.delay_lines import DELAY, LATE_ROWS, SETTLED, DelayLines
from tpulite_rtl.mxu.processing_element import (
    ACTIVATION_WIDTH,
    WEIGHT_WIDTH,
    ProcessingElement,
)
from tpulite_rtl.mxu.skew import Skew
from tpulite_rtl.mxu.slots import with_lines
from tpulite_rtl.mxu.weight_lines import WeightLines, weight_layout

__all__ = ["SystolicArray", "early_layout", "psum_width", "vector_layout"]


def psum_width(config: Config) -> int:
    """Return the bits of a sum of N products of 9 by 8 bits: 255 x 128 needs 16, signed."""
    return 16 + exact_log2(config.array_size)


def vector_layout(config: Config) -> data.StructLayout:
    """Return the layout of an input vector, its flags, the delay of its command, and its pair.

    ``wide`` says that lines of the command's kernel have five taps. A vector that ``loads`` is one
    of a transposed weight tile; the zero point is that of its weights, and 0 of all other vectors.
    """
    activations = data.ArrayLayout(signed(ACTIVATION_WIDTH), config.array_size)
    flags = {"first": 1, "depthwise": 1, "delay": with_lines(config, DELAY)}
    pair = {"wide": 1, "pair": 1, "odd": activations} if config.has_delay_lines else {}
    weights = {"loads": 1, "zero_point": signed(8)} if config.has_transposed_tiles else {}
    return data.StructLayout({"activations": activations, **flags, **pair, **weights})


def early_layout(config: Config) -> data.StructLayout:
    """Return the layout of what the array must know of a vector a cycle before it enters."""
    delay = with_lines(config, DELAY)
    wide = with_lines(config, 1)
    return data.StructLayout({"activation": signed(ACTIVATION_WIDTH), "delay": delay, "wide": wide})


class SystolicArray(wiring.Component):
    """Multiply vectors by the weight tile held: ``o = i @ tile``, exact.

    Activations move right, partial sums move down, both skewed and deskewed here. There is no
    stall: a vector accepted in cycle t comes out in cycle t + 2 N - 1, and bubbles stay where
    they are. The tile changes with the vector that carries ``first``: row r of the new tile must
    be written r - 1 cycles after that vector (row 0 in the cycle before it), neither earlier than
    N cycles after the previous ``first``'s write nor later. So a tile a vector stream of N or more
    costs nothing.

    A vector with ``depthwise`` begins a sum in which channel c stays in column c: with x[t] the
    input of cycle t, valid or not, ``o[c] = sum(tile[r, c] * x[t + r][c])`` over the rows r. It
    takes as long as the others, and both kinds may follow each other in any order.

    A vector of a command with a ``delay`` ends the sum of a 3x3 kernel instead, which comes out
    2 N - 9 cycles later, or 2 N - 8 if it is a pair; if it is ``wide``, that of a kernel of three
    lines of five taps, 2 N - 15 cycles later. docs/depthwise.md has the formulas. Delays are those
    that :func:`tpulite.arch.interleave.interleave` gives. All vectors of such a command have the
    same, are wide, or pairs, or none is, and come without a gap; the first that counts is the first
    with a whole window. All other rows of the tile are zero. ``first`` counts whether its vector
    does or not.

    A tile can also enter as N vectors with ``loads``, in N consecutive cycles after the previous
    ``first`` and before its own, which must not be written then. Vector c, less its zero point,
    becomes column c of the tile: element r is at row r and column c 2 c + r cycles after the first
    of these vectors came.

    The N / 2 rows of a tile of int4 have two weights in a byte. They are written as the first rows
    of another tile, at least N / 2 cycles after the previous ``first`` was; the tile that follows
    may have its own ``first`` N / 2 cycles later.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latency = 2 * config.array_size - 1
        sums = data.ArrayLayout(signed(psum_width(config)), config.array_size)
        super().__init__(
            {
                # Vectors.
                "i": In(stream.Signature(vector_layout(config), always_ready=True)),
                # First activation, and delay, of the vector of the next cycle; for delay lines.
                "early": In(early_layout(config)),
                # Weight rows.
                "weight": In(stream.Signature(weight_layout(config), always_ready=True)),
                # Sums of the vectors, in order.
                "o": Out(stream.Signature(sums, always_ready=True)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n, width = self.config.array_size, psum_width(self.config)

        transposes = self.config.has_transposed_tiles
        passing = WEIGHT_WIDTH if transposes else ACTIVATION_WIDTH
        lanes = data.StructLayout({"activation": signed(passing), "first": 1, "depthwise": 1})
        m.submodules.skew = skew = Skew(lanes, tuple(range(n)))
        m.submodules.deskew = deskew = Skew(signed(width), tuple(range(n - 1, -1, -1)))
        for row in range(n):
            entering = self.i.payload.activations[row]
            if transposes:
                entering = entering - self.i.payload.zero_point
            m.d.comb += [
                skew.i[row].activation.eq(entering),
                skew.i[row].first.eq(self.i.payload.first),
                skew.i[row].depthwise.eq(self.i.payload.depthwise),
            ]

        buses = self._buses(m, skew)
        psums: list[Value] = [Const(0, width)] * n
        styles = [Build.of(platform).column_style(col) for col in range(n)]
        captures = self._captures(m)
        weight_lines = self._weight_lines(m)
        for row in range(n):
            coming, enables = self._weight_row(m, weight_lines, row)
            activation, first = self._activation(skew.o, row), skew.o[row].first
            depthwise, weight = skew.o[row].depthwise, skew.o[row].activation
            for col in range(n):
                element = ProcessingElement(
                    psum_width=width, style=styles[col], transposes=transposes
                )
                m.submodules[f"pe_{row}_{col}"] = element
                if transposes:
                    m.d.comb += [
                        element.i_weight.eq(weight),
                        element.capture.eq(captures[2 * col + row]),
                    ]
                    weight = element.o_weight
                m.d.comb += [
                    element.i_activation.eq(activation),
                    element.i_first.eq(first),
                    element.i_depthwise.eq(depthwise),
                    element.column.eq(buses[row][col]),
                    element.i_psum.eq(psums[col]),
                    element.weight.eq(coming[col]),
                    element.weight_enable.eq(enables[col]),
                ]
                activation, first = element.o_activation, element.o_first
                depthwise = element.o_depthwise
                psums[col] = element.o_psum
        for col in range(n):
            m.d.comb += [
                deskew.i[col].eq(psums[col]),
                self.o.payload[col].eq(deskew.o[col]),
            ]
        # With a delay a vector is the last one of its sum, which has passed a row for each tap; the
        # vectors of a pair are the last two.
        in_flight = Signal(self.latency)
        late = self.i.payload.delay.any()
        m.d.sync += in_flight.eq(Cat(self.i.valid & ~late, in_flight))
        if self.config.has_delay_lines:
            wide, pair = self.i.payload.wide, self.i.payload.pair
            last = LINES * LINE - 1
            for ends, row in (
                (late & ~pair & ~wide, last),
                (pair, last - 1),
                (late & wide, LINES * WIDE_LINE - 1),
            ):
                with m.If(self.i.valid & ends):
                    m.d.sync += in_flight[row].eq(1)
        m.d.comb += self.o.valid.eq(in_flight[-1])
        return m

    def _weight_lines(self, m: Module) -> WeightLines | None:
        """Return what delays weights by columns, if tiles may follow each other so fast."""
        if not self.config.int4:
            return None
        m.submodules.weight_lines = lines = WeightLines(self.config)
        connect(m, flipped(self.weight), lines.i)
        return lines

    def _weight_row(
        self, m: Module, lines: WeightLines | None, row: int
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """Return the weights that come to the elements of a row, and whether each takes its own."""
        columns = range(self.config.array_size)
        if lines is None:
            enable, weights = Signal(name=f"enable{row}"), self.weight.payload.weights
            m.d.comb += enable.eq(self.weight.valid & (self.weight.payload.row == row))
            return [weights[col] for col in columns], [enable for _ in columns]
        takes = [lines.int8[row + col] | lines.int4[(row + 1) // 2 + col] for col in columns]
        return (lines.odd if row % 2 else lines.even), takes

    def _captures(self, m: Module) -> Value:
        """Return whether the first vector of a transposed tile came now, a cycle ago, and so on."""
        if not self.config.has_transposed_tiles:
            return Const(0)
        loads, before = self.i.payload.loads, Signal()
        since = Signal(3 * self.config.array_size - 3)
        begins = loads & ~before
        m.d.sync += [before.eq(loads), since.eq(Cat(begins, since))]
        return Cat(begins, since)

    def _activation(self, skewed: list[data.View], row: int) -> Value:
        """Return the activation of a row of the array; no subtraction delays that of the first."""
        if not self.config.has_transposed_tiles:
            return skewed[row].activation
        if row == 0:
            return self.i.payload.activations[0]
        return skewed[row].activation[:ACTIVATION_WIDTH].as_signed()

    def _buses(self, m: Module, skew: Skew) -> list[list[Value]]:
        """Return the activations of the columns, for each row of the array."""
        n = self.config.array_size
        now = [self._activation(skew.o, row) for row in range(n)]
        if not self.config.has_delay_lines:
            return [now] * n
        m.submodules.lines = lines = DelayLines(self.config)
        m.d.comb += [
            lines.delay.eq(self.early.delay),
            lines.wide.eq(self.early.wide),
            lines.settled.eq(skew.o[n - SETTLED].first),
        ]
        coming = [self.early.activation, *(lane.activation for lane in skew.early[1:])]
        for column, activation in enumerate(coming):
            m.d.comb += [
                lines.now[column].eq(now[column]),
                lines.next[column].eq(activation),
            ]
        odd = self.i.payload.odd
        m.submodules.skew_odd = skew_odd = Skew(signed(ACTIVATION_WIDTH), tuple(range(n)))
        m.d.comb += lines.pair.eq(self.i.payload.pair)
        for column in range(n):
            m.d.comb += [
                skew_odd.i[column].eq(odd[column]),
                lines.odd[column].eq(skew_odd.o[column]),
            ]
        return [lines.o[row] for row in range(LATE_ROWS)] + [now] * (n - LATE_ROWS)
