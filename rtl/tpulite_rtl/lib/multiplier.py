"""Multiplication that synthesis maps to DSP blocks, or cannot."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from tpulite.arch.build import Build
from tpulite_rtl.lib import carry4_product, carry_chain, gowin_product

__all__ = ["STYLES", "multiply_add"]

STYLES = ("dsp", "logic")
"""``dsp`` leaves the choice to synthesis, which takes a DSP block if it has one; ``logic`` adds
partial products, in which no tool finds a multiplier."""


def multiply_add(
    m: Module, a: Value, b: Value, c: Value, *, style: str, platform: object = None
) -> Value:
    """Return ``a * b + c`` of signed values, as wide as ``c``, combinationally.

    Parameters
    ----------
    m : Module
        Gets the logic, if any.
    a, b : Value
        Signed operands. In ``logic`` the adders are as many as half the bits of ``b``: make it the
        narrower one.
    c : Value
        At least as wide as the product.
    style : str
        One of :data:`STYLES`.
    platform : object, optional
        A :class:`tpulite.arch.build.Build`: for ``ecp5`` and ``xilinx`` logic is carry chains of
        their cells, for ``gw5a`` a product is an instance of a multiplier.

    Raises
    ------
    ValueError
        If the style is unknown, an operand is unsigned, or ``c`` too narrow.
    """
    if style not in STYLES:
        raise ValueError(f"Multiplier style must be one of {STYLES}, not {style!r}")
    for operand in (a, b, c):
        if not operand.shape().signed:
            raise ValueError(f"Operand of a product must be signed, not {operand.shape()!r}")
    if len(c) < len(a) + len(b):
        raise ValueError(f"Product of {len(a) + len(b)} bits cannot be added to {len(c)}")
    total = Signal(signed(len(c)))
    target = Build.of(platform).target
    if style == "dsp" and target == "gw5a":
        m.d.comb += total.eq(gowin_product.product(m, a, b) + c)
    elif style == "dsp":
        m.d.comb += total.eq(a * b + c)
    elif target == "ecp5":
        m.d.comb += total.eq(carry_chain.product_sum(m, a, b, c))
    elif target == "xilinx":
        m.d.comb += total.eq(carry4_product.product_sum(m, a, b, c))
    else:
        m.d.comb += total.eq(_booth(a, b, c))
    return total


def _booth(a: Value, b: Value, c: Value) -> Value:
    """Add to ``c`` a quarter-weight digit -2 ... 2 of ``b`` times ``a`` each (Booth, radix 4)."""
    digits = -(-len(b) // 2)
    bits = Cat(Const(0, 1), b, b[-1])  # the digit before the first; the sign, if b is odd
    partials, negations, constant = [], [], 0
    for digit in range(digits):
        below, low, high = bits[2 * digit], bits[2 * digit + 1], bits[2 * digit + 2]
        single, double = low ^ below, (high ^ low) & ~(low ^ below)
        magnitude = Mux(single, a, 0) | Mux(double, a << 1, 0)
        # Minus x is the complement of x plus one; the ones of all digits make one more summand.
        multiple = magnitude ^ high.replicate(len(magnitude)).as_signed()
        negations += [high, Const(0, 1)]
        # A sign is its complement less one: the ones are a constant, instead of signs that go on
        # to the highest place.
        partials.append(Cat(multiple[:-1], ~multiple[-1]) << (2 * digit))
        constant -= 1 << (2 * digit + len(multiple) - 1)
    return sum(partials, start=Cat(*negations)) + Const(constant % (1 << len(c)), len(c)) + c
