"""Products from the carry chains of a Xilinx 7-series part, with a lookup table before each bit."""

from amaranth.hdl import Cat, Const, Instance, Module, Signal, Value

__all__ = ["product_sum"]

_CELL = 4
"""Bits of a ``CARRY4``."""


def product_sum(m: Module, a: Value, b: Value, c: Value) -> Value:
    """Return ``a * b + c`` of signed values, as wide as ``c``, of chains of ``CARRY4``.

    A chain adds to the sum a multiple of ``a``: -2 ... 2 by two bits of ``b`` and the one below
    (Booth, radix 4). A bit depends on those three, two bits of ``a`` and one of the sum, which is
    one lookup table; synthesis would choose a multiple first and add then. Of 9 and 8 bits and 20
    that is 68 tables and what chooses multiples, four chains one after another.

    Parameters
    ----------
    m : Module
        Gets the logic.
    a, b, c : Value
        Signed; ``c`` is at least as wide as the product.
    """
    bits = Cat(Const(0, 1), b, b[-1])
    wide = Cat(Const(0, 1), a, a[-1].replicate(len(c) - len(a)))
    total: Value = c
    for place in range(0, len(b), 2):
        below, low, high = (bits[place + offset] for offset in range(3))
        single = low ^ below
        double = (high ^ low) & ~single
        multiple = [
            ((wide[i + 1] & single) | (wide[i] & double)) ^ high for i in range(len(c) - place)
        ]
        # Minus a multiple is its complement plus one.
        total = Cat(total[:place], _chain(m, total[place:], multiple, high))
    return total


def _chain(m: Module, a: Value, b: list[Value], carry: Value) -> Value:
    """Return ``a + b + carry``."""
    total = Signal(len(a))
    before: Value = Const(0, 1)
    for place in range(0, len(a), _CELL):
        count = min(_CELL, len(a) - place)
        unused = Const(0, _CELL - count)
        summed, carries = Signal(_CELL), Signal(_CELL)
        m.submodules += Instance(
            "CARRY4",
            i_CI=before,
            i_CYINIT=Const(0, 1) if place else carry,
            i_DI=Cat(a[place : place + count], unused),
            i_S=Cat(*(a[i] ^ b[i] for i in range(place, place + count)), unused),
            o_O=summed,
            o_CO=carries,
        )
        m.d.comb += total[place : place + count].eq(summed[:count])
        before = carries[-1]
    return total
