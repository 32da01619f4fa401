"""Multiplication that synthesis maps to DSP blocks, or cannot."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

__all__ = ["STYLES", "product"]

STYLES = ("dsp", "logic")
"""``dsp`` leaves the choice to synthesis, which takes a DSP block if it has one; ``logic`` adds
partial products, in which no tool finds a multiplier."""


def product(m: Module, a: Value, b: Value, *, style: str) -> Value:
    """Return the exact product of two signed values, combinationally.

    Parameters
    ----------
    m : Module
        Gets the logic, if any.
    a, b : Value
        Signed operands. In ``logic`` the adders are as many as half the bits of ``b``: make it the
        narrower one.
    style : str
        One of :data:`STYLES`.

    Raises
    ------
    ValueError
        If the style is unknown or an operand is unsigned.
    """
    if style not in STYLES:
        raise ValueError(f"Multiplier style must be one of {STYLES}, not {style!r}")
    for operand in (a, b):
        if not operand.shape().signed:
            raise ValueError(f"Operand of a product must be signed, not {operand.shape()!r}")
    return a * b if style == "dsp" else _booth(m, a, b)


def _booth(m: Module, a: Value, b: Value) -> Value:
    """Add up a quarter-weight digit -2 ... 2 of ``b`` times ``a`` each (Booth, radix 4)."""
    digits = -(-len(b) // 2)
    bits = Cat(Const(0, 1), b, b[-1])  # the digit before the first; the sign, if b is odd
    total = Signal(signed(len(a) + len(b)))
    partials, negations = [], []
    for digit in range(digits):
        below, low, high = bits[2 * digit], bits[2 * digit + 1], bits[2 * digit + 2]
        single, double = low ^ below, (high ^ low) & ~(low ^ below)
        magnitude = Mux(single, a, 0) | Mux(double, a << 1, 0)
        # Minus x is the complement of x plus one; the ones of all digits make one more summand.
        partials.append((magnitude ^ high.replicate(len(magnitude)).as_signed()) << (2 * digit))
        negations += [high, Const(0, 1)]
    m.d.comb += total.eq(sum(partials, start=Cat(*negations)))
    return total
