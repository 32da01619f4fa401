"""One channel of elementwise arithmetic: operands become the requantizer's sum."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
from tpulite.arch.build import Build
from tpulite.arch.isa import RECORD
from tpulite_rtl.lib.layout import struct_layout
from tpulite_rtl.vpu.elementwise_product import OPERAND_BITS, product_addends
from tpulite_rtl.vpu.operand_scales import PRODUCT_BITS, ROUNDING_BIT, SCALES, TFLITE_PLACES
from tpulite_rtl.vpu.window_reducer import SUM_BITS

__all__ = ["STAGES", "ElementwiseLane"]

STAGES = timing.ELEMENTWISE
"""Stages of the lane; each has a register at its end."""

_OWN_BITS = 16  # of a gain


class ElementwiseLane(wiring.Component):
    """Prepare one channel for the requantizer, as :class:`VectorOp` says.

    A result a cycle, but of ADD and SUB, which scale two operands with one multiplier: A and, a
    step later, B. Stages: subtract the zero points; multiply; add what the multiplication leaves,
    and what rounds; shift; add. SUM only passes.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                # Everything moves on to the next stage; else all stages stall.
                "moves": In(1),
                # The command's; fields of a stage are those of the operand in it.
                "scales": In(SCALES),
                # Stage 0: of ADD and SUB, the turn of B, a step after that of A.
                "second": In(1),
                # Stage 0: a byte, or the sum of a window; and a byte.
                "a": In(signed(SUM_BITS)),
                "b": In(signed(8)),
                # Stage 0.
                "gain": In(struct_layout(RECORD)["gain"].shape),
                # Five cycles after the operands, in which everything moved: what to requantize.
                "o": Out(signed(32)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        scales = self.scales

        def register(stage: int, value: Value, name: str) -> Signal:
            """Hand a value on to the next stage."""
            result = Signal(value.shape(), name=f"{name}_{stage + 1}", reset_less=True)
            with m.If(self.moves):
                m.d.sync += result.eq(value)
            return result

        # Stage 0: zero points. What multiplies x, if that is no scale, and three times that.
        x_a, x_b = Signal(signed(9)), Signal(signed(9))
        own = Signal(signed(_OWN_BITS))
        m.d.comb += [
            x_a.eq(self.a[:8].as_signed() - scales.a_zero_point),
            x_b.eq(self.b - scales.b_zero_point),
            own.eq(Mux(scales.multiplies, x_b, Mux(scales.sums, 0, self.gain))),
        ]
        above = register(0, self.a[8:].as_signed(), "above")
        x = register(0, Mux(self.second, x_b, x_a), "x")
        factor, triple = (
            register(0, Mux(scales.scales, _positive(scale), multiple), title)
            for scale, multiple, title in (
                (scales.factor, own, "factor"),
                (scales.triple, own + (own << 1), "triple"),
            )
        )

        # Stage 1: multiply x, or x + 256 if it is negative. What the scales do not add to that:
        # the sum that passes, or -256 times the factor of its own, less one.
        negates = ~scales.scales & ~scales.sums & x[-1]
        passed = Mux(scales.sums, Cat(x[:8], above).as_signed(), 0)
        passed |= Mux(negates, ~(factor[:_OWN_BITS].as_signed() << OPERAND_BITS), 0)
        passed, negates = register(1, passed, "passed"), register(1, negates, "negates")
        style = Build.of(platform).lane_style
        low, high = product_addends(
            m, x[:OPERAND_BITS], factor, triple, style=style, platform=platform
        )
        low, high = register(1, low, "low"), register(1, high, "high")
        is_negative = register(1, x[-1], "is_negative")

        # Stage 2: the product, rounded.
        positive, negative = scales.positive << ROUNDING_BIT, scales.negative << OPERAND_BITS
        half = Mux(is_negative, negative, positive) | passed
        product = (low + (high | negates) + half)[:PRODUCT_BITS].as_signed()
        product = register(2, product, "product")

        # Stage 3: shift.
        value = Mux(scales.exact, product[:32].as_signed(), product[TFLITE_PLACES:].as_signed())
        term = register(3, value >> scales.shift, "term")

        # Stage 4: add to what was before, or subtract from it: the complement, and a carry into
        # bit 0.
        before = register(4, Mux(scales.scales, term, 0), "before")
        flip = scales.subtracts
        addend = Cat(flip, term ^ flip.replicate(32).as_signed())
        total = (Cat(Const(1, 1), before) + addend)[1:33].as_signed()
        m.d.comb += self.o.eq(register(4, total, "sum"))
        return m


def _positive(value: Value) -> Value:
    """Return an unsigned value as a signed one."""
    return Cat(value, Const(0, 1)).as_signed()
