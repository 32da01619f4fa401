"""One channel of elementwise arithmetic: two operands become the requantizer's sum."""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
from tpulite.arch.isa import OPERANDS, RECORD, Opcode, Scaling, VectorOp
from tpulite_rtl.lib.layout import field_shape, struct_layout
from tpulite_rtl.vpu.window_reducer import SUM_BITS

__all__ = ["GAIN_STAGE", "STAGES", "ElementwiseLane"]

STAGES = timing.ELEMENTWISE
"""Stages of the lane; each has a register at its end."""

GAIN_STAGE = 1
"""Stage that uses the gain of AFFINE."""

# TFLite shifts x 20 to the left and then takes the upper half of a doubled product, which is to
# divide x * multiplier by 2**(31 - 20), rounding half up.
_PLACES = 11
_HALF = 1 << (_PLACES - 1)
_FACTOR_BITS = 32


class ElementwiseLane(wiring.Component):
    """Prepare one channel for the requantizer, a result a cycle, as :class:`VectorOp` says.

    Stages: subtract the zero points; multiply; round the product of TFLite's scaling; shift, half
    away from zero; add. SUM only passes.

    Members
    -------
    valid : In(5)
        Bit s: stage s holds operands. Registers behind empty stages keep their values.
    operation : In(3), operands : In(struct_layout(OPERANDS))
        Stable while a stage holds operands.
    a : In(signed(SUM_BITS)), b : In(signed(8))
        Stage 0: a byte, or the sum of a window; and a byte.
    gain : In(signed(16))
        Stage 1.
    o : Out(signed(32))
        Five cycles after the operands: what to requantize.
    """

    valid: Signal
    operation: Signal
    operands: data.View
    a: Signal
    b: Signal
    gain: Signal
    o: Signal

    def __init__(self) -> None:
        super().__init__(
            {
                "valid": In(STAGES),
                "operation": In(field_shape(Opcode.VECTOR, "operation")),
                "operands": In(struct_layout(OPERANDS)),
                "a": In(signed(SUM_BITS)),
                "b": In(signed(8)),
                "gain": In(struct_layout(RECORD)["gain"].shape),
                "o": Out(signed(32)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        operands = self.operands
        scales, centers = Signal(), Signal()
        is_sum, is_product, exact = Signal(), Signal(), Signal()
        m.d.comb += [
            scales.eq(self.operation.matches(VectorOp.ADD, VectorOp.SUB)),
            is_product.eq(self.operation == VectorOp.MUL),
            is_sum.eq(self.operation == VectorOp.SUM),
            centers.eq(scales | is_product),
            exact.eq(~scales | (operands.scaling == Scaling.EXACT)),
        ]

        def register(stage: int, value: Value, name: str) -> Signal:
            """Hand a value on to the next stage."""
            result = Signal(value.shape(), name=f"{name}_{stage + 1}", reset_less=True)
            with m.If(self.valid[stage]):
                m.d.sync += result.eq(value)
            return result

        # Stage 0: zero points.
        zero_point = Mux(centers, operands.a_zero_point, 0)
        a = register(0, (self.a - zero_point)[:SUM_BITS].as_signed(), "a")
        b = register(0, self.b - operands.b_zero_point, "b")

        # Stage 1: one multiplier for A's scale, for the other operand, and for the gain.
        factor = Signal(signed(_FACTOR_BITS))
        with m.If(is_product):
            m.d.comb += factor.eq(b)
        with m.Elif(scales):
            m.d.comb += factor.eq(operands.a_multiplier)
        with m.Else():
            m.d.comb += factor.eq(self.gain)
        product_a = register(1, a[:9].as_signed() * factor, "product_a")
        product_b = register(1, b * operands.b_multiplier, "product_b")
        passed = register(1, a, "a")

        # Stage 2: the first rounding, half up; see _rounded for the second.
        total = Mux(is_sum, passed, product_a[:32].as_signed())
        corrected_a = self._corrected(product_a, operands.a_shift)
        corrected_b = self._corrected(product_b, operands.b_shift)
        value_a = register(2, Mux(exact, total, corrected_a), "value_a")
        value_b = register(2, Mux(exact, product_b[:32].as_signed(), corrected_b), "value_b")

        # Stage 3: the second rounding.
        rounded_a = self._rounded(value_a, operands.a_shift)
        rounded_b = self._rounded(value_b, operands.b_shift)
        term_a = register(3, Mux(exact, value_a, rounded_a), "term_a")
        term_b = register(3, Mux(exact, value_b, rounded_b), "term_b")

        # Stage 4: addition.
        addend = Signal(signed(33))
        with m.If(self.operation == VectorOp.ADD):
            m.d.comb += addend.eq(term_b)
        with m.Elif(self.operation == VectorOp.SUB):
            m.d.comb += addend.eq(-term_b)
        m.d.comb += self.o.eq(register(4, (term_a + addend)[:32].as_signed(), "sum"))
        return m

    @staticmethod
    def _corrected(product: Signal, shift: Value) -> Value:
        """Divide by 2**11, half up, and prepare for the shift.

        Half away from zero is half up of a negative number less one. Products of -2**10 ... -1
        count as negative too: their result is 0 either way.
        """
        negative = product[-1] & (shift != 0)
        return (product + Mux(negative, -_HALF, _HALF)) >> _PLACES

    @staticmethod
    def _rounded(value: Signal, shift: Value) -> Value:
        """Shift right, half up, with one guard bit."""
        return (((value << 1) >> shift) + 1) >> 1
