"""Products over cycles: digit by digit, by addition alone."""

from dataclasses import dataclass
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

__all__ = ["DIGITS", "Digit", "accumulate", "horner", "less_one"]

DIGITS = 6
"""Digits of weight four of a factor: fields of a command have at most eleven bits.

Cycles are given one-hot. The first one may last any number of cycles, of which the last counts.
Digits and sums of products with them take ``1 + DIGITS`` cycles."""


@dataclass(frozen=True)
class Digit:
    """What a step multiplies with, -1 to 2: registers."""

    minus: Signal
    one: Signal
    two: Signal

    def times(self, value: Value) -> tuple[Value, Value]:
        """Return two summands that make the product with an unsigned value."""
        size = Mux(self.one | self.minus, value, 0) | Mux(self.two, value << 1, 0)
        bits = Cat(size, Const(0, 1))
        return (bits ^ self.minus.replicate(len(bits))).as_signed(), self.minus


def less_one(m: Module, name: str, factor: Value, cycles: Value) -> Digit:
    """Return an unsigned factor less one, digit by digit, the lowest first.

    A digit is there in the cycle after its own, so the last cycle has the last one. The
    subtraction is a carry of -1 into the first digit; a digit of 3 is -1 and a carry.

    Raises
    ------
    ValueError
        If the factor has too many bits: the last digit must not carry.
    """
    if len(factor) >= 2 * DIGITS:
        raise ValueError(f"Factor must have fewer than {2 * DIGITS} bits, not {len(factor)}")
    pairs = [factor[low : low + 2] for low in range(0, len(factor), 2)]
    pair, carry = Signal(2, name=f"{name}_pair"), Signal(name=f"{name}_carry", reset_less=True)
    total = Signal(3, name=f"{name}_total")  # this digit and the carry into it, plus one
    minus, one, two = (
        Signal(name=f"{name}_{part}", reset_less=True) for part in ("minus", "one", "two")
    )
    chosen = [Mux(cycle, bits, 0) for cycle, bits in zip(cycles, pairs, strict=False)]
    m.d.comb += [
        pair.eq(reduce(or_, chosen)),
        total.eq(pair + (carry & ~cycles[0]) + ~cycles[0]),
    ]
    m.d.sync += [
        minus.eq((total == 0) | (total == 4)),
        one.eq(total == 2),
        two.eq(total == 3),
        carry.eq(total >= 4),
    ]
    return Digit(minus, one, two)


def accumulate(
    m: Module, name: str, cycles: Value, initial: Value, *products: tuple[Digit, Value]
) -> Value:
    """Return an unsigned value plus one or two products; complete after the last cycle.

    Each step adds at the low end and moves what is complete out of the way of the adder, which is
    so only as wide as the second factors. They are unsigned, and the sum must not be negative.
    """
    width = max(len(initial), *(len(value) + len(products) - 1 for _, value in products)) + 1
    high = Signal(signed(width), name=f"{name}_high", reset_less=True)
    low = Signal(2 * DIGITS, name=f"{name}_low", reset_less=True)
    total = Signal(signed(width + 2), name=f"{name}_total")
    m.d.comb += total.eq(
        sum((part for digit, value in products for part in digit.times(value)), high)
    )
    with m.If(cycles[0]):
        m.d.sync += high.eq(initial)
    with m.Elif(cycles[1:].any()):
        m.d.sync += [high.eq(total >> 2), low.eq(Cat(low[2:], total[:2]))]
    return Cat(low, high[:-1])


def horner(
    m: Module,
    result: Signal,
    cycles: Value,
    factors: tuple[Value, Value],
    *summands: Value,
) -> None:
    """Set a register to the product of two unsigned factors plus signed summands, modulo its width.

    Takes a cycle to begin, one for each bit of the first factor, the highest first, and one for
    each summand.
    """
    factor, value = factors
    bits, steps = len(factor), 1 + len(factor) + len(summands)
    if steps > len(cycles):
        raise ValueError(f"Product must take at most {len(cycles)} cycles, not {steps}")
    # Bits are chosen a cycle before they count.
    chosen = Signal(name=f"{result.name}_bit", reset_less=True)
    m.d.sync += chosen.eq(
        Cat(cycle & bit for cycle, bit in zip(cycles, reversed(factor), strict=False)).any()
    )
    addends = [Mux(chosen, value, 0)]
    for index, summand in enumerate(summands):
        extended = Signal(len(result), name=f"{result.name}_summand_{index}")
        m.d.comb += extended.eq(summand)
        addends.append(Mux(cycles[1 + bits + index], extended, 0))
    before = Mux(cycles[2 : 1 + bits].any(), result << 1, result)
    with m.If(cycles[1]):
        m.d.sync += result.eq(addends[0])
    with m.Elif(cycles[2:steps].any()):
        m.d.sync += result.eq(before + reduce(or_, addends))
