"""Reciprocals of sums of words, two at a time."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
from tpulite.arch.build import Build
from tpulite.arch.isa import NORM
from tpulite.arch.numerics import NEWTON_OFFSET, NEWTON_SLOPE, NEWTON_STEPS, SHARE_SHIFT
from tpulite_rtl.lib.carry_save import summands
from tpulite_rtl.lib.layout import struct_layout
from tpulite_rtl.lib.pipeline import delay

__all__ = ["Divider"]

_TOTAL = 32
_SHIFTS = (16, 8, 4, 2, 1)  # a cycle for each
_PRODUCTS = 1 + 2 * NEWTON_STEPS
_STAGES = 2  # of a product; as many sums take turns
_PLACE = 31  # of the bits of a product that count
_ONE = 1 << 29
_FIRST = 1 + len(_SHIFTS)  # the cycle in which a sum has its turn, or it waits for the next one
_LAST = _FIRST + _STAGES - 1 + _STAGES * _PRODUCTS

assert timing.DIVIDER_INTERVAL == _PRODUCTS
assert timing.DIVIDER == 1 + _LAST


class Divider(wiring.Component):
    """Find :func:`tpulite.arch.numerics.reciprocal`: shift out leading zeros, then multiply.

    A product takes two stages: its summands, then their sum, which becomes a factor of the next
    product. Two sums take turns in these stages. A sum must come ``timing.DIVIDER_INTERVAL`` cycles
    after the one before or later; its result comes ``timing.DIVIDER`` cycles after it.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                # Sums, each with the maximum of its norm.
                "i": In(
                    stream.Signature(
                        data.StructLayout({"total": unsigned(_TOTAL), "maximum": signed(8)}),
                        always_ready=True,
                    )
                ),
                # Norms.
                "o": Out(stream.Signature(struct_layout(NORM), always_ready=True)),
                # A sum is inside.
                "busy": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        valids = delay(m, self.i.valid, timing.DIVIDER, "valid")
        m.d.comb += [self.o.valid.eq(valids[-1]), self.busy.eq(Cat(valids[1:]).any())]

        # Leading zeros.
        total, zeros = Signal(_TOTAL, reset_less=True), Signal(len(_SHIFTS), reset_less=True)
        maximum = Signal(signed(8), reset_less=True)
        with m.If(self.i.valid):
            m.d.sync += [total.eq(self.i.payload.total), maximum.eq(self.i.payload.maximum)]
        for step, count in zip(valids[1:], _SHIFTS, strict=False):
            empty = ~total[-count:].any()
            with m.If(step):
                m.d.sync += zeros[count.bit_length() - 1].eq(empty)
                with m.If(empty):
                    m.d.sync += total.eq(total << count)
        half = Cat(total[1:-1], Const(1, 1))  # 0 counts as 1

        # What goes round with a sum, and the index of its product; without a sum that is the one
        # after the last.
        turn = data.StructLayout({"half": 31, "x": 31, "zeros": len(zeros), "maximum": 8})
        now, then = (Signal(turn, name=name, reset_less=True) for name in ("now", "then"))
        product, previous = (
            Signal(range(_PRODUCTS + 1), name=name, init=_PRODUCTS)
            for name in ("product", "previous")
        )
        ends, waits, enters = Signal(), Signal(), Signal()
        m.d.comb += [
            ends.eq(previous == _PRODUCTS - 1),
            enters.eq(waits & (ends | (previous == _PRODUCTS))),
        ]
        m.d.sync += [
            waits.eq(valids[_FIRST - 1] | (waits & ~enters)),
            then.eq(now),
            previous.eq(product),
        ]

        # First stage: the summands of a product. By turns they make what an estimate is short of,
        # 1 - half * x, and a better estimate, x + 4 * (x * short).
        a = Signal(signed(32), reset_less=True)
        subtracts = product[0]
        addend = Mux(product == 0, NEWTON_OFFSET, Mux(subtracts, _ONE, now.x[2:]))
        # Products are rounded half up, so that what is subtracted is rounded half down.
        rounding = Cat(subtracts.replicate(_PLACE - 1), ~subtracts)
        rows = summands(
            m,
            a,
            now.x,
            carry=subtracts,
            bits=dict(enumerate(Cat(rounding, addend))),
            style=Build.of(platform).wide_style,
            platform=platform,
        )

        # Second stage: their sum, which makes the next factors.
        total_rows = Signal(signed(len(a) + len(now.x)))
        for index, row in enumerate(rows):
            rows[index] = Signal(row.shape(), name=f"row_{index}", reset_less=True)
            m.d.sync += rows[index].eq(row)
        m.d.comb += total_rows.eq(sum(rows))
        result = total_rows[_PLACE:].as_signed()
        better = Mux(previous == 0, result, Cat(then.x[:2], result))[: len(now.x)]
        m.d.sync += [now.eq(then), product.eq(previous + (previous != _PRODUCTS))]
        with m.If(enters):
            m.d.sync += [
                now.eq(Cat(half, half, zeros, maximum)),
                product.eq(0),
                a.eq(-NEWTON_SLOPE),
            ]
        with m.Elif(previous[0]):
            m.d.sync += a.eq(result)
        with m.Else():
            # The complement of half, to which the carry adds 1, is subtracted next.
            m.d.sync += [now.x.eq(better), a.eq(Cat(~then.half, Const(1, 1)))]

        # A result waits until it is as old as all others.
        x, leading = Signal.like(better, reset_less=True), Signal.like(zeros, reset_less=True)
        largest = Signal.like(maximum, reset_less=True)
        with m.If(ends):
            m.d.sync += [x.eq(better), leading.eq(then.zeros), largest.eq(then.maximum)]
        norm = self.o.payload
        m.d.comb += [
            norm.maximum.eq(largest),
            norm.shift.eq(Cat(leading, Const(0, 1)).as_signed() + (SHARE_SHIFT - _TOTAL)),
            norm.multiplier.eq(Cat(Const(0, 1), x[:-1]) | x[-1].replicate(31)),
        ]
        return m
