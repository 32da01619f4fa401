"""Reciprocals of sums of words, one after the other."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
from tpulite.arch.build import Build
from tpulite.arch.numerics import NEWTON_OFFSET, NEWTON_SLOPE, NEWTON_STEPS, SHARE_SHIFT
from tpulite_rtl.lib.carry_save import summands

__all__ = ["Divider"]

_TOTAL = 32
_SHIFTS = (16, 8, 4, 2, 1)  # a cycle for each
_DIGIT = 8
_DIGITS = 4  # of the unsigned factor
_PRODUCT = _DIGITS + 2  # cycles: the digits, their last sum, and what becomes of it
_PRODUCTS = 1 + 2 * NEWTON_STEPS
_LOAD = len(_SHIFTS)  # the cycle of the first factors
_LAST = _LOAD + _PRODUCT * _PRODUCTS

assert timing.DIVIDER == 2 + _LAST


class Divider(wiring.Component):
    """Find :func:`tpulite.arch.numerics.reciprocal`: shift out leading zeros, then multiply.

    A product takes the digits of its unsigned factor, each times the whole signed one, in two
    stages. Result and room for the next sum come ``timing.DIVIDER`` cycles after a sum.
    """

    def __init__(self) -> None:
        result = data.StructLayout({"multiplier": 31, "shift": signed(8)})
        super().__init__(
            {
                # Sums.
                "i": In(stream.Signature(unsigned(_TOTAL), always_ready=True)),
                # Multiplier and shift.
                "o": Out(stream.Signature(result, always_ready=True)),
                # A sum is inside.
                "busy": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()

        # Cycles since the sum came: what shifts, then which product and which cycle of it.
        steps = Signal(_LOAD + 1)  # one-hot
        cycles = Signal(_PRODUCT)  # one-hot
        product = Signal(range(_PRODUCTS))
        ends = cycles[-1]
        final = product == _PRODUCTS - 1
        m.d.sync += [
            steps.eq(Cat(self.i.valid, steps)),
            cycles.eq(Cat(steps[-1] | (ends & ~final), cycles)),
            self.o.valid.eq(ends & final),
        ]
        with m.If(steps[-1]):
            m.d.sync += product.eq(0)
        with m.Elif(ends):
            m.d.sync += product.eq(product + 1)
        m.d.comb += self.busy.eq(Cat(steps, cycles, self.o.valid).any())

        # Leading zeros.
        total, zeros = Signal(_TOTAL, reset_less=True), Signal(len(_SHIFTS), reset_less=True)
        with m.If(self.i.valid):
            m.d.sync += total.eq(self.i.payload)
        for step, count in zip(steps, _SHIFTS, strict=False):
            empty = ~total[-count:].any()
            with m.If(step):
                m.d.sync += zeros[count.bit_length() - 1].eq(empty)
                with m.If(empty):
                    m.d.sync += total.eq(total << count)
        half = Cat(total[1:-1], Const(1, 1))  # 0 counts as 1

        # The product of a and b, from the lowest digit of b on; half is added once.
        a, b = Signal(signed(32), reset_less=True), Signal(_DIGIT * _DIGITS, reset_less=True)
        width = len(a) + _DIGIT
        style = Build.of(platform).wide_style
        rows = summands(
            m, a, b[:_DIGIT], carry=Const(0, 1), bits={}, style=style, platform=platform
        )
        low, high = (Signal(signed(width), name=x, reset_less=True) for x in ("low", "high"))
        partial = Signal(signed(width + 1), reset_less=True)
        rounding = Const(1 << 30, signed(width + 1))
        m.d.sync += [
            b.eq(b >> _DIGIT),
            low.eq(rows[0]),
            high.eq(sum(rows[1:], Const(0, 1))),
            partial.eq(Mux(cycles[1], rounding, partial >> _DIGIT) + low + high),
        ]
        # Three digits have left, and 7 bits of the fourth: 31 in all.
        result = partial[_DIGIT - 1 :].as_signed()

        # The estimate; then what it is short of by turns, and a better one.
        x, value = Signal(31, reset_less=True), Signal(signed(33))
        first, better = product == 0, ~product[0]
        base = Mux(first, NEWTON_OFFSET, Mux(better, x, 1 << 29))
        flip = ~better
        scaled = Mux(better & ~first, result << 2, result)
        addend = Signal(signed(33))
        m.d.comb += [
            addend.eq(scaled ^ flip.replicate(len(scaled)).as_signed()),
            value.eq(base + addend + flip),
        ]
        with m.If(steps[-1]):
            m.d.sync += [a.eq(-NEWTON_SLOPE), b.eq(half)]
        with m.Elif(ends):
            m.d.sync += [a.eq(value), b.eq(Mux(better, half, x))]
            with m.If(better):
                m.d.sync += x.eq(value)

        leading = Cat(zeros, Const(0, 1)).as_signed()
        m.d.comb += [
            self.o.payload.multiplier.eq(Cat(Const(0, 1), x[:-1]) | x[-1].replicate(31)),
            self.o.payload.shift.eq(leading + (SHARE_SHIFT - _TOTAL)),
        ]
        return m
