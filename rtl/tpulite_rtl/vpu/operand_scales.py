"""What all elementwise lanes need to know of a command's operands, prepared once."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import OPERANDS, Scaling, VectorOp
from tpulite_rtl.lib.layout import operation_shape, struct_layout
from tpulite_rtl.vpu.elementwise_product import OPERAND_BITS

__all__ = ["PRODUCT_BITS", "ROUNDING_BIT", "SCALES", "TFLITE_PLACES", "OperandScales"]

PRODUCT_BITS = 41
"""Width of an operand less its zero point times a multiplier, rounding included."""

TFLITE_PLACES = 11
"""TFLite shifts x 20 to the left and then takes the upper half of a doubled product, which is to
divide x * multiplier by 2**(31 - 20), rounding half up, before it shifts right."""

ROUNDING_BIT = TFLITE_PLACES - 1
"""Below it nothing is added that rounds."""

_VANISHED = PRODUCT_BITS - 1 - TFLITE_PLACES
"""Shift from which on every product rounds to 0."""

_BETWEEN = ROUNDING_BIT - OPERAND_BITS

_SCALE = data.StructLayout(
    {
        "factor": 31,
        "triple": 33,  # of the factor
        # Added to x * factor, from ROUNDING_BIT on, or if x < 0 to (x + 256) * factor, from bit 8.
        "positive": PRODUCT_BITS - 1 - ROUNDING_BIT,
        "negative": signed(PRODUCT_BITS - OPERAND_BITS),
        "shift": range(_VANISHED + 1),
    }
)
"""How an operand less its zero point, x, is scaled: (x * factor + half) >> places >> shift. All
of it is zero if it is not."""

SCALES = data.StructLayout(
    {
        # Stage 0.
        "a_zero_point": signed(8),
        "b_zero_point": signed(8),
        "factor": _SCALE["factor"].shape,
        "triple": _SCALE["triple"].shape,
        # Stage 2.
        "positive": _SCALE["positive"].shape,
        "negative": _SCALE["negative"].shape,
        # Stage 3.
        "shift": _SCALE["shift"].shape,
        # Of the command.
        "sums": 1,  # SUM: A passes
        "multiplies": 1,  # MUL: A times B
        "scales": 1,  # ADD and SUB: an operand times its factor; else A times the gain
        "subtracts": 1,
        "exact": 1,  # no places, no shift
    }
)
"""What lanes do with operands: by the lane's stages, fields of the operand that is in them."""


class OperandScales(wiring.Component):
    """Prepare the operands of a command; latency is two cycles.

    TFLite rounds twice: half up to 2**-11, then half away from zero to 2**-shift. Half away from
    zero is half up of a negative number less one, and floors nest, so both roundings are one
    addition before one shift. Products of -2**10 ... -1 count as negative: their result is 0.

    Parameters
    ----------
    config : Config
        Which operations there are.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                # Of the command.
                "operation": In(operation_shape(config)),
                "operands": In(struct_layout(OPERANDS)),
                # Stage 0 holds B, not A.
                "second": In(1),
                # What is in the stages moves on.
                "moves": In(1),
                # Operands, two cycles later; from then on, what each stage needs.
                "o": Out(SCALES),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        scales, multiplies, rounds = Signal(), Signal(), Signal()
        m.d.comb += [
            scales.eq(self.operation.matches(VectorOp.ADD, VectorOp.SUB)),
            multiplies.eq(self.operation == VectorOp.MUL),
            rounds.eq(scales & (self.operands.scaling == Scaling.TFLITE)),
        ]
        m.d.sync += [
            self.o.sums.eq(self.operation == VectorOp.SUM),
            self.o.multiplies.eq(multiplies),
            self.o.scales.eq(scales),
            self.o.subtracts.eq(self.operation == VectorOp.SUB),
            self.o.exact.eq(~rounds),
        ]
        both = {}
        for name in ("a", "b"):
            both[name] = scale = Signal(_SCALE, name=name)
            factor, clipped = Signal(31), Signal(range(_VANISHED + 1))
            shift = self.operands[f"{name}_shift"]
            distance = Mux(shift > _VANISHED, _VANISHED, shift)
            up, down = (Mux(rounds, half, 0) for half in _halves(distance))
            half_up, half_down = Signal(len(up), name="up"), Signal(len(down), name="down")
            m.d.sync += [
                factor.eq(Mux(scales, self.operands[f"{name}_multiplier"], 0)),
                half_up.eq(up),
                half_down.eq(down),
                clipped.eq(distance),
                self.o[f"{name}_zero_point"].eq(
                    Mux(scales | multiplies, self.operands[f"{name}_zero_point"], 0)
                ),
                scale.factor.eq(factor),
                scale.triple.eq(factor + (factor << 1)),
                scale.positive.eq(half_up),
                scale.negative.eq((half_down << _BETWEEN) - factor),
                scale.shift.eq(Mux(self.o.exact, 0, clipped)),
            ]

        # Whose turn it is in each stage.
        second_1, second_2 = Signal(), Signal()
        m.d.comb += [
            self.o[name].eq(Mux(self.second, both["b"][name], both["a"][name]))
            for name in ("factor", "triple")
        ]
        with m.If(self.moves):
            m.d.sync += [second_1.eq(self.second), second_2.eq(second_1)]
            m.d.sync += [
                self.o[name].eq(Mux(second, both["b"][name], both["a"][name]))
                for name, second in (
                    ("positive", second_1),
                    ("negative", second_1),
                    ("shift", second_2),
                )
            ]
        return m


def _halves(shift: Value) -> tuple[Value, Value]:
    """Return what to add to a product of x >= 0, and of x < 0, from :data:`ROUNDING_BIT` on.

    That is a half of the first rounding and, with s > 0, of the second one, 2**(s + 10); this less
    2**11 is ones from bit 11 to bit s + 9.
    """
    places = range(1, _VANISHED + 1)
    one = Const(1, 1)
    return Cat(one, (shift == s for s in places)), Cat(one, (shift > s for s in places))
