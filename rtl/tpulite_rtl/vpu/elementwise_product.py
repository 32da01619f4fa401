"""An operand times its factor, cut in two stages: two addends here, their sum in the next one."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from tpulite.arch.build import Build
from tpulite_rtl.lib.gowin_product import product_rows

__all__ = ["OPERAND_BITS", "product_addends"]

OPERAND_BITS = 8
"""Width of an unsigned operand."""

_DSP_BITS = 17  # an unsigned factor of an 18 x 18 multiplier
_DIGIT_BITS = 3


def product_addends(
    m: Module, x: Value, factor: Value, triple: Value, *, style: str, platform: object = None
) -> tuple[Value, Value]:
    """Return two signed values whose sum is ``x * factor``, modulo 2**(9 + bits of the factor).

    Bit 0 of the second one is 0.

    Parameters
    ----------
    m : Module
        Gets the logic.
    x : Value
        Unsigned, of :data:`OPERAND_BITS`.
    factor, triple : Value
        Signed factor, and three times that.
    style : str
        ``dsp``: two multiplications that fit into DSP blocks. ``logic``: each digit of -4 ... 4
        selects a multiple of the factor (Booth, radix 8); all of them are known before.
    platform : object, optional
        A :class:`tpulite.arch.build.Build`: for ``gw5a`` products are instances of a multiplier.
    """
    if style == "dsp" and Build.of(platform).target == "gw5a":
        first, second = product_rows(m, x, factor)
        return first, second
    if style == "dsp":
        return x * factor[:_DSP_BITS], (x * factor[_DSP_BITS:].as_signed()) << _DSP_BITS

    multiples = (factor, factor << 1, triple, factor << 2)
    bits = Cat(Const(0, 1), x, Const(0, 2))
    width = OPERAND_BITS + len(factor) + 1
    partials = [Signal(width, name=f"partial_{i}") for i in range(3)]
    ones = []
    for number, partial in enumerate(partials):
        start = _DIGIT_BITS * number
        window = bits[start : start + _DIGIT_BITS + 1]
        terms = [
            Mux(_has_size(m, window, size, f"{number}"), multiple, 0)
            for size, multiple in enumerate(multiples, start=1)
        ]
        multiple = Signal(signed(len(factor) + 2), name=f"multiple_{number}")
        m.d.comb += multiple.eq(terms[0] | terms[1] | terms[2] | terms[3])
        # Minus a multiple is its complement plus one. The last digit is never negative, and below
        # it there is a place for the ones of the others.
        negative = window[-1].replicate(len(multiple)).as_signed()
        shifted = (multiple ^ negative if number < 2 else multiple) << start
        ones += [window[-1], Const(0, _DIGIT_BITS - 1)]
        m.d.comb += partial.eq(shifted if number < 2 else shifted | Cat(*ones[:-2]))
    first, second, third = partials
    carry = (first & second) | (first & third) | (second & third)
    return (first ^ second ^ third).as_signed(), Cat(Const(0, 1), carry)[:width].as_signed()


def _has_size(m: Module, window: Value, size: int, name: str) -> Signal:
    """Tell whether four bits are a digit of plus or minus some size."""
    weights = (1, 1, 2, -4)
    patterns = [
        pattern
        for pattern in range(16)
        if abs(sum(w for bit, w in enumerate(weights) if pattern >> bit & 1)) == size
    ]
    result = Signal(name=f"digit_{name}_is_{size}")
    m.d.comb += result.eq(window.matches(*patterns))
    return result
