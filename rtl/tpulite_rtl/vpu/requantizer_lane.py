"""One channel of the requantizer: arithmetic alone, no control."""

from collections.abc import Collection

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import Rounding
from tpulite_rtl.lib.layout import struct_layout

__all__ = ["STAGES", "RequantizerLane"]

STAGES = timing.REQUANTIZER
"""Stages of the lane. The last one has no register at its end."""

_DOUBLING = frozenset({Rounding.TFLITE, Rounding.RUY})
_SIGNIFICANT = 24  # bits of a float32 significand
_SATURATED = 10  # bits of twice a result that is saturated just outside every clamp
_RECORD = struct_layout(RECORD).members


class RequantizerLane(wiring.Component):
    """Requantize one sum a cycle, bit for bit as :func:`tpulite.arch.numerics.requantize`.

    All inputs named for a stage belong to the sum that entered that many cycles ago; the result
    appears in stage 6, six cycles after its sum.

    All roundings share one product P and end alike: shift right by t, half up, with one guard bit.
    What distinguishes them is prepared before that:

    - ``TFLITE`` and ``RUY`` round twice. The first rounding adds 2**30 to P; its result need not
      be cut at bit 31, because floors nest. Half away from zero is half up of a negative number
      less one, so 2**31 is subtracted from what ``TFLITE`` will shift.
    - ``SINGLE`` shifts P itself, ``AWAY`` a negative P less one.
    - ``FLOAT32`` rounds P to 24 significant bits and then to an integer, half to even both times.
      Let g be half a unit of the first rounding. It moves all P within g of a tie onto the tie,
      and the tie goes up if the quotient is odd. So P + g is rounded half up if it is odd and
      P - g - 1 if it is even. (If the first rounding reaches bit t, the result saturates anyway.)

    Parameters
    ----------
    roundings : collection of Rounding
        Roundings that are built.

    Members
    -------
    valid : In(6)
        Bit s: stage s holds a sum. Registers behind empty stages keep their values.
    sum, bias : In(signed(32))
        Stage 0.
    shift : In(signed(8)), rounding : In(3)
        Stage 1.
    multiplier : In(31)
        Stage 2.
    zero_point, low, high : In(signed(8))
        Stage 6.
    o : Out(signed(8))
        Stage 6: the result.
    """

    valid: Signal
    sum: Signal
    bias: Signal
    shift: Signal
    rounding: Signal
    multiplier: Signal
    zero_point: Signal
    low: Signal
    high: Signal
    o: Signal

    def __init__(self, roundings: Collection[Rounding]) -> None:
        self.roundings = frozenset(roundings)
        names = ("bias", "shift", "rounding", "multiplier", "zero_point", "low", "high")
        super().__init__(
            {
                "valid": In(STAGES - 1),
                "sum": In(signed(32)),
                **{name: In(_RECORD[name]) for name in names},
                "o": Out(signed(8)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        is_doubling = self._is_one_of(_DOUBLING)
        is_float = self._is_one_of({Rounding.FLOAT32})
        only_doubling = self.roundings <= _DOUBLING
        # Machines that only double drop bits 0 ... 30 after the first rounding.
        dropped = 31 if only_doubling else 0

        def register(stage: int, value: Value, name: str) -> Signal:
            """Hand a value on to the next stage."""
            result = Signal(value.shape(), name=f"{name}_{stage + 1}", reset_less=True)
            with m.If(self.valid[stage]):
                m.d.sync += result.eq(value)
            return result

        # Stage 0: bias.
        acc = register(0, (self.sum + self.bias)[:32].as_signed(), "acc")

        # Stage 1: the multiplicand, and how far the product will be shifted.
        operand, exponent = acc, Const(0, 1)
        if self.roundings & _DOUBLING:
            operand = self._shift_left(m, acc, is_doubling)
        if Rounding.FLOAT32 in self.roundings:
            significand, exponent = self._significand(m, acc)
            exponent = Mux(is_float, exponent, 0)
            only_float = len(self.roundings) == 1
            operand = significand if only_float else Mux(is_float, significand, operand)
        whole = is_doubling & (self.shift >= 0)  # no second rounding
        distance = Signal(signed(9))
        m.d.comb += distance.eq(
            (0 if only_doubling else Mux(is_float, 0, 31)) - Mux(whole, 0, self.shift)
        )
        lowers = self._is_one_of({Rounding.TFLITE}) & (self.shift < 0)
        away = self._is_one_of({Rounding.AWAY})
        operand = register(1, operand, "operand")
        exponent = register(1, exponent, "exponent")
        distance = register(1, distance, "distance")
        flags = register(1, Cat(is_doubling, is_float, whole, lowers, away), "flags")

        # Stage 2: the product.
        product = register(2, operand * self.multiplier, "product")
        right, left = self._split(m, distance - exponent, len(product) - dropped)
        right, left = register(2, right, "right"), register(2, left, "left")
        flags = register(2, flags, "flags")

        # Stage 3: what to add before the final rounding.
        is_doubling, is_float, _, lowers, away = flags
        correction = Signal(signed(32))
        if Rounding.FLOAT32 in self.roundings:
            with m.If(is_float):
                m.d.comb += correction.eq(self._tie_correction(m, product, right))
        if self.roundings & _DOUBLING:
            # Products of -2**30 ... -1 count as negative too: their result is 0 either way.
            negative = lowers & product[-1]
            with m.If(is_doubling):
                m.d.comb += correction.eq(Mux(negative, -(1 << 30), 1 << 30))
        if Rounding.AWAY in self.roundings:
            with m.If(away):
                m.d.comb += correction.eq(Mux(product[-1] & (right != 0), -1, 0))
        product = register(3, product, "product")
        correction = register(3, correction, "correction")
        right, left = register(3, right, "right"), register(3, left, "left")
        flags = register(3, flags, "flags")

        # Stage 4: add it.
        corrected = (product + correction)[dropped : len(product)].as_signed()
        corrected = register(4, corrected, "corrected")
        right, left = register(4, right, "right"), register(4, left, "left")
        flags = register(4, flags, "flags")

        # Stage 5: shift right to twice the result, saturate.
        doubled = Signal(signed(len(corrected) + 1))
        m.d.comb += doubled.eq(Cat(Const(0, 1), corrected).as_signed() >> right)
        doubled = register(5, self._saturate(m, doubled, whole=flags[2]), "doubled")
        left = register(5, left, "left")

        # Stage 6: round, shift left (a useful scale never does), zero point, clamp.
        scaled = Signal(signed(_SATURATED + 9))
        shifted = Signal(signed(_SATURATED + 10))
        raised = Signal.like(shifted)
        m.d.comb += [
            scaled.eq(((doubled + 1) >> 1) << left),
            shifted.eq(scaled + self.zero_point),
            raised.eq(Mux(shifted < self.low, self.low, shifted)),
            self.o.eq(Mux(raised > self.high, self.high, raised)),
        ]
        return m

    def _is_one_of(self, roundings: Collection[Rounding]) -> Value:
        """Compare with some roundings; a constant where the machine leaves no choice."""
        built = self.roundings & frozenset(roundings)
        if not built or built == self.roundings:
            return Const(int(bool(built)), 1)
        return Cat(self.rounding == rounding for rounding in sorted(built)).any()

    def _shift_left(self, m: Module, acc: Signal, is_doubling: Value) -> Signal:
        """Return the multiplicand of the doubling roundings: shifted left, wrapping."""
        shifted = Signal(signed(32))
        with m.If(~is_doubling | (self.shift < 0)):
            m.d.comb += shifted.eq(acc)
        with m.Elif(self.shift < 32):
            m.d.comb += shifted.eq(acc << self.shift[:5])
        return shifted

    def _significand(self, m: Module, acc: Signal) -> tuple[Signal, Signal]:
        """Round to 24 significant bits, half to even: significand and exponent."""
        # Complement instead of magnitude: they differ for powers of two alone, which are exact.
        complement = acc ^ acc[-1].replicate(32).as_signed()
        exponent = Signal(range(32 - _SIGNIFICANT))
        for i in range(_SIGNIFICANT, 31):
            with m.If(complement[i]):
                m.d.comb += exponent.eq(i + 1 - _SIGNIFICANT)
        half = Signal(7)
        significand = Signal(signed(_SIGNIFICANT + 2))
        odd = (acc >> exponent)[0]
        m.d.comb += [
            half.eq((1 << exponent) >> 1),
            significand.eq((acc + Mux(odd | (half == 0), half, half - 1)) >> exponent),
        ]
        return significand, exponent

    @staticmethod
    def _split(m: Module, distance: Value, limit: int) -> tuple[Signal, Signal]:
        """Turn a distance into shifts to the right and to the left, neither longer than matters."""
        right = Signal(range(limit + 1))
        left = Signal(range(_SATURATED))
        with m.If(distance > limit):
            m.d.comb += right.eq(limit)
        with m.Elif(distance >= 0):
            m.d.comb += right.eq(distance)
        with m.Elif(distance > -_SATURATED):
            m.d.comb += left.eq(-distance)
        with m.Else():
            m.d.comb += left.eq(_SATURATED - 1)
        return right, left

    @staticmethod
    def _tie_correction(m: Module, product: Signal, right: Signal) -> Value:
        """Return g if the quotient is odd (or not rounded), else -g - 1."""
        # g is the leading one, 24 places down: fill up the ones below it, keep the topmost.
        filled = (product ^ product[-1].replicate(len(product)).as_signed())[_SIGNIFICANT:55]
        for distance in (1, 2, 4, 8, 16):
            step = Signal(31, name=f"filled_{distance}")
            m.d.comb += step.eq(filled | (filled >> distance))
            filled = step
        odd = (product >> right)[0] | (right == 0)
        return ((filled & ~(filled >> 1)) ^ (~odd).replicate(32)).as_signed()

    @staticmethod
    def _saturate(m: Module, doubled: Signal, *, whole: Value) -> Signal:
        result = Signal(signed(_SATURATED))
        sign = doubled[-1]
        above = doubled[_SATURATED - 1 :]
        with m.If(above.any() & ~above.all()):
            m.d.comb += result.eq(Cat((~sign).replicate(_SATURATED - 1), sign))
        with m.Else():
            m.d.comb += result.eq(Cat(doubled[0] & ~whole, doubled[1:_SATURATED]))
        return result
