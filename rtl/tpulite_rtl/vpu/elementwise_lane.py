"""One channel of elementwise arithmetic: two operands become the requantizer's sum."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
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
    """Prepare one channel for the requantizer, a result a cycle, as :class:`VectorOp` says.

    Stages: subtract the zero points; multiply; add what the multiplication leaves, and what
    rounds; shift; add. SUM only passes.

    Parameters
    ----------
    styles : tuple of str
        How to multiply A, and B: see :func:`product_addends`.

    Members
    -------
    moves : In(1)
        Everything moves on to the next stage; else it stands still.
    scales : In(SCALES)
        Stable while operands are inside.
    a : In(signed(SUM_BITS)), b : In(signed(8))
        Stage 0: a byte, or the sum of a window; and a byte.
    gain : In(signed(16))
        Stage 0.
    o : Out(signed(32))
        Five cycles after the operands, in which everything moved: what to requantize.
    """

    moves: Signal
    scales: data.View
    a: Signal
    b: Signal
    gain: Signal
    o: Signal

    def __init__(self, styles: tuple[str, str] = ("dsp", "dsp")) -> None:
        self.styles = styles
        super().__init__(
            {
                "moves": In(1),
                "scales": In(SCALES),
                "a": In(signed(SUM_BITS)),
                "b": In(signed(8)),
                "gain": In(struct_layout(RECORD)["gain"].shape),
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

        # Stage 0: zero points. What multiplies A, if that is no scale, and three times that.
        x_a, x_b = Signal(signed(9)), Signal(signed(9))
        own = Signal(signed(_OWN_BITS))
        m.d.comb += [
            x_a.eq(self.a[:8].as_signed() - scales.a.zero_point),
            x_b.eq(self.b - scales.b.zero_point),
            own.eq(Mux(scales.multiplies, x_b, Mux(scales.sums, 0, self.gain))),
        ]
        above = register(0, self.a[8:].as_signed(), "above")
        x = {"a": register(0, x_a, "a"), "b": register(0, x_b, "b")}
        # DSP blocks want their factor from a register; elsewhere a choice behind it is cheaper.
        factors = {"a": [], "b": [_positive(scales.b.factor), _positive(scales.b.triple)]}
        for own_multiple, scale, title in (
            (own, scales.a.factor, "factor"),
            (own + (own << 1), scales.a.triple, "triple"),
        ):
            if self.styles[0] == "dsp":
                chosen = Mux(scales.scales, _positive(scale), own_multiple)
                factors["a"].append(register(0, chosen, title))
            else:
                kept = register(0, own_multiple, title)
                factors["a"].append(Mux(scales.scales, _positive(scale), kept))

        # Stage 1: multiply x, or x + 256 if it is negative. What the scales do not add to that:
        # the sum that passes, or -256 times the factor of its own, less one.
        negates = ~scales.scales & ~scales.sums & x["a"][-1]
        passed = Mux(scales.sums, Cat(x["a"][:8], above).as_signed(), 0)
        passed |= Mux(negates, ~(factors["a"][0][:_OWN_BITS].as_signed() << OPERAND_BITS), 0)
        passed, negates = register(1, passed, "passed"), register(1, negates, "negates")
        others = {"a": (passed, negates), "b": (0, 0)}

        terms = {}
        for name, style in zip("ab", self.styles, strict=True):
            scale, operand = scales[name], x[name][:OPERAND_BITS]
            low, high = product_addends(m, operand, *factors[name], style=style, name=name)
            low = register(1, low, f"{name}_low")
            high = register(1, high, f"{name}_high")
            is_negative = register(1, x[name][-1], f"{name}_is_negative")

            # Stage 2: the product, rounded.
            other, one = others[name]
            positive, negative = scale.positive << ROUNDING_BIT, scale.negative << OPERAND_BITS
            half = Mux(is_negative, negative, positive) | other
            product = (low + (high | one) + half)[:PRODUCT_BITS].as_signed()
            product = register(2, product, f"{name}_product")

            # Stage 3: shift.
            whole = product[:32].as_signed()
            value = Mux(scales.exact, whole, product[TFLITE_PLACES:].as_signed())
            terms[name] = register(3, value >> scale.shift, f"{name}_term")

        # Stage 4: add, or subtract: the complement, and a carry into bit 0.
        flip = scales.subtracts
        addend = Cat(flip, terms["b"] ^ flip.replicate(32).as_signed())
        total = (Cat(Const(1, 1), terms["a"]) + addend)[1:33].as_signed()
        m.d.comb += self.o.eq(register(4, total, "sum"))
        return m


def _positive(value: Value) -> Value:
    """Return an unsigned value as a signed one."""
    return Cat(value, Const(0, 1)).as_signed()
