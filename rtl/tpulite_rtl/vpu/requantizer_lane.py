"""One channel of the requantizer: arithmetic alone, no control."""

from collections.abc import Collection

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
from tpulite.arch.build import Build
from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import Rounding
from tpulite_rtl.lib.apart import apart
from tpulite_rtl.lib.carry_save import summands
from tpulite_rtl.lib.layout import struct_layout

__all__ = ["STAGES", "RequantizerLane"]

STAGES = timing.REQUANTIZER_LANE
"""Stages of the lane. The last one has no register at its end."""

_DOUBLING = frozenset({Rounding.TFLITE, Rounding.RUY})
_SIGNIFICANT = 24  # bits of a float32 significand
_RECORD = struct_layout(RECORD).members


class RequantizerLane(wiring.Component):
    """Requantize one sum a cycle, bit for bit as :func:`tpulite.arch.numerics.requantize`.

    All inputs named for a stage belong to the sum that entered that many cycles ago; the result
    appears in stage 6, six cycles after its sum.

    All roundings share one product P and end alike: shift right by t, half up but for ties. What
    distinguishes them:

    - ``TFLITE`` and ``RUY`` round twice. The first rounding adds 2**30 to P; its result need not
      be cut at bit 31, because floors nest. ``TFLITE`` rounds a tie of a negative number down;
      bits 0 ... 30 do not count.
    - ``SINGLE`` shifts P itself, ``AWAY`` rounds a tie of a negative number down.
    - ``FLOAT32`` rounds P to 24 significant bits and then to an integer, half to even both times.
      Let g be half a unit of the first rounding. It moves all P within g of a tie onto the tie,
      which goes up if the quotient is odd. (If the first rounding reaches bit t, the result
      saturates anyway.)

    Parameters
    ----------
    roundings : collection of Rounding
        Roundings that are built.
    int16 : bool
        Whether results, and what they are clamped to, have 16 bits instead of 8.
    """

    def __init__(self, roundings: Collection[Rounding], *, int16: bool = False) -> None:
        self.roundings = frozenset(roundings)
        bits = 16 if int16 else 8
        # Bits of twice a result that is saturated just outside every clamp, and places by which a
        # scale shifts left at most: further on, whatever is not 0 saturates.
        self._saturated, self._left = bits + 2, bits + 1
        super().__init__(
            {
                # Bit s: stage s holds a sum. Registers behind empty stages keep their values.
                "valid": In(STAGES - 1),
                # Stage 0.
                "sum": In(signed(32)),
                "bias": In(_RECORD["bias"]),
                # Stage 1.
                "shift": In(_RECORD["shift"]),
                "rounding": In(_RECORD["rounding"]),
                # Stage 2.
                "multiplier": In(_RECORD["multiplier"]),
                # Stage 5.
                "zero_point": In(_RECORD["zero_point"]),
                # Stage 6.
                "low": In(signed(bits)),
                "high": In(signed(bits)),
                # Stage 6: the result.
                "o": Out(signed(bits)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        is_doubling = self._is_one_of(_DOUBLING)
        is_float = self._is_one_of({Rounding.FLOAT32})
        only_doubling = self.roundings <= _DOUBLING

        def register(stage: int, value: Value, name: str) -> Signal:
            """Hand a value on to the next stage."""
            result = Signal(value.shape(), name=f"{name}_{stage + 1}", reset_less=True)
            with m.If(self.valid[stage]):
                m.d.sync += result.eq(value)
            return result

        # Stage 0: bias.
        acc = register(0, (self.sum + self.bias)[:32].as_signed(), "acc")

        # Stage 1: the multiplicand, and how far the product will be shifted.
        operand, carry, exponent = acc, Const(0, 1), Const(0, 1)
        if self.roundings & _DOUBLING:
            operand = self._shift_left(m, acc, is_doubling)
        if Rounding.FLOAT32 in self.roundings:
            significand, carry, exponent = self._significand(m, acc)
            carry, exponent = carry & is_float, Mux(is_float, exponent, 0)
            only_float = len(self.roundings) == 1
            operand = significand if only_float else Mux(is_float, significand, operand)
        whole = is_doubling & (self.shift >= 0)  # no second rounding
        distance = Signal(signed(9))
        m.d.comb += distance.eq(
            (0 if only_doubling else Mux(is_float, 0, 31)) - Mux(whole, 0, self.shift)
        )
        is_tflite = self._is_one_of({Rounding.TFLITE})
        is_away = is_tflite | self._is_one_of({Rounding.AWAY})
        operand, carry = register(1, operand, "operand"), register(1, carry, "carry")
        exponent = register(1, exponent, "exponent")
        distance = register(1, distance, "distance")
        flags = register(1, Cat(is_float, is_tflite, is_away, whole, is_doubling), "flags")

        # Stage 2: summands of the product, with the half that the first of two roundings adds.
        rows = summands(
            m,
            operand,
            self.multiplier,
            carry=carry,
            bits={30: flags[4]} if self.roundings & _DOUBLING else {},
            style=Build.of(platform).wide_style,
            platform=platform,
        )
        rows = [register(2, row, f"row_{index}") for index, row in enumerate(rows)]
        # Machines that only double drop bits 0 ... 30 after the first rounding.
        dropped = 31 if only_doubling else 0
        width = len(operand) + len(self.multiplier) - dropped
        right = register(
            2, self._limited(m, distance - exponent + self._left, width + self._left), "right"
        )
        flags = register(2, flags[:4], "flags")

        # Stage 3: the product.
        product = Signal(signed(width + dropped))
        apart(product)
        m.d.comb += product.eq(sum(rows))
        product = register(3, product[dropped:].as_signed(), "product")
        right, flags = register(3, right, "right"), register(3, flags, "flags")

        # Stage 4: shift right to twice the result, saturate; does that round up?
        doubled = self._shift_right(m, product, right)
        up = self._rounds_up(m, product, right, doubled, flags)
        doubled = register(4, doubled, "doubled")
        up = register(4, up, "up")

        # Stage 5: round; zero point.
        total = Signal(signed(self._saturated + 1))
        m.d.comb += total.eq((doubled >> 1) + self.zero_point + up)
        total = register(5, total, "total")

        # Stage 6: clamp; ``high`` has the last word. All compare at once.
        below, is_high = total < self.low, Signal()
        m.d.comb += [
            is_high.eq((total > self.high) | (below & (self.low > self.high))),
            self.o.eq(Mux(is_high, self.high, Mux(below, self.low, total))),
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

    def _significand(self, m: Module, acc: Signal) -> tuple[Value, Value, Signal]:
        """Round to 24 significant bits, half to even: quotient, whether to add 1, exponent."""
        # Complement instead of magnitude: they differ for powers of two alone, which are exact.
        complement = acc ^ acc[-1].replicate(32).as_signed()
        exponent = Signal(range(32 - _SIGNIFICANT))
        for i in range(_SIGNIFICANT, 31):
            with m.If(complement[i]):
                m.d.comb += exponent.eq(i + 1 - _SIGNIFICANT)
        quotient, remainder = Signal(signed(_SIGNIFICANT + 1)), Signal(7)
        m.d.comb += [
            quotient.eq(acc >> exponent),
            remainder.eq(acc[:7] << ~exponent),  # in units of 1/128
        ]
        return quotient, remainder[-1] & (remainder[:-1].any() | quotient[0]), exponent

    @staticmethod
    def _limited(m: Module, distance: Value, limit: int) -> Signal:
        """Return a distance to shift right, none longer than matters."""
        right = Signal(range(limit + 1))
        with m.If(distance > limit):
            m.d.comb += right.eq(limit)
        with m.Elif(distance >= 0):
            m.d.comb += right.eq(distance)
        return right

    def _shift_right(self, m: Module, product: Signal, right: Signal) -> Signal:
        """Return the product * 2**(_left + 1) >> ``right``, saturated just outside every clamp."""
        sign = product[-1]
        # Complements of negative numbers have zeros on the left, as the others.
        bits = product[:-1] ^ sign.replicate(len(product) - 1)
        rest = Cat(sign.replicate(self._left + 1), bits)
        above = []
        for step in reversed(range(len(right))):
            most = self._saturated - 1 + (1 << step) - 1  # bits that the steps below may shift down
            shifted = Signal(len(rest), name=f"shifted_{step}")
            m.d.comb += shifted.eq(Mux(right[step], rest >> (1 << step), rest))
            above.append(shifted[most:].any())
            rest = shifted[:most]
        saturates = Cat(above).any().replicate(self._saturated - 1)
        result = Signal(signed(self._saturated))
        m.d.comb += result.eq(Cat((rest | saturates) ^ sign.replicate(self._saturated - 1), sign))
        return result

    def _rounds_up(
        self, m: Module, product: Signal, right: Signal, doubled: Signal, flags: Signal
    ) -> Value:
        """Whether to add 1 to the quotient, half of ``doubled`` without its last bit.

        Every rounding adds the half, the last bit of ``doubled``, unless the remainder is a tie
        that it rounds down. ``TFLITE`` and ``AWAY`` round ties of negative numbers down, ``RUY``
        and ``SINGLE`` none, ``FLOAT32`` those of even quotients.
        """
        is_float, is_tflite, is_away, whole = flags
        half, negative = doubled[0], product[-1]
        bits = product.as_unsigned()
        # Bits of the remainder below the half, and those that a rounding before took away.
        below = Cat(right > self._left + 1 + place for place in range(len(bits)))
        taken = Signal.like(bits)
        if Rounding.TFLITE in self.roundings and not self.roundings <= _DOUBLING:
            m.d.comb += taken.eq(is_tflite.replicate(31))
        if Rounding.FLOAT32 not in self.roundings:
            tie = ~(bits & below & ~taken).any()
            return half & ~whole & ~(tie & is_away & negative)

        # The first rounding of FLOAT32 took away all of ``filled``, whose topmost one is half of
        # its unit. It may have made a tie of what lay just above or just below.
        odd = doubled[1]
        filled = self._filled(m, bits, negative, is_float)
        tie = ~(bits & below & ~(taken | filled)).any()
        lower = (filled >> 1)[: len(bits)]
        # Just above: unless more than half a unit above, as it went up then.
        went_up = (bits & filled & ~lower).any() & (bits & lower).any()
        # Just below, by half a unit at most: all bits that count are ones.
        became_tie = is_float & filled[0] & (bits | ~below | lower).all()
        ties_down = Mux(is_float, ~odd & ~went_up, is_away & negative)
        return Mux(half, ~whole & ~(tie & ties_down), became_tie & odd)

    @staticmethod
    def _filled(m: Module, bits: Value, negative: Value, is_float: Value) -> Signal:
        """Return ones from the leading one, 24 places down, to the right."""
        filled = Signal(len(bits))
        part = bits[_SIGNIFICANT : _SIGNIFICANT + 31]
        part = (part ^ negative.replicate(len(part))) & is_float.replicate(len(part))
        for distance in (1, 2, 4, 8, 16):
            step = Signal(31, name=f"filled_{distance}")
            m.d.comb += step.eq(part | (part >> distance))
            part = step
        m.d.comb += filled.eq(part)
        return filled
