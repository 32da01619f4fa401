"""Products from the carry chains of a Lattice ECP5, which have a lookup table before each bit."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Instance, Module, Signal, Value

__all__ = ["product_sum"]

_BOTH = 0x7888
"""Table of ``(A & B) + (C & D)``; as always, what the carry does not pass on is the table of A and
B with the other inputs low."""
_DIFFERENCE = 0x8777
"""Of ``~(A & B) + (C & D)``, the complement of a difference: no carry need come in."""
_SUM = 0x96AA
"""Of ``A + B`` if C is low and D high, and of ``A + ~B`` if both are high: as Yosys makes them."""

_PAIR = 2

_Half = tuple[Value, Value, Value, Value]
"""What enters a bit of a chain: A, B, C, D."""


def product_sum(m: Module, a: Value, b: Value, c: Value) -> Value:
    """Return ``a * b + c`` of signed values, as wide as ``c``, of chains of ``CCU2C``.

    A chain multiplies by two bits of ``b`` as it adds both multiples, which synthesis cannot: its
    chains have a table before each bit instead. The sums of pairs of bits are added up as a tree,
    ``c`` last. Of 9 and 8 bits and 20 that is 106 tables, four chains one after another.

    Parameters
    ----------
    m : Module
        Gets the logic.
    a, b, c : Value
        Signed; ``c`` is at least as wide as the product.
    """
    bits = [*b, *([b[-1]] if len(b) % 2 else [])]
    product = _product(m, a, bits, top=True)
    return _added(m, c, product, 0, len(c), complement=len(bits) == _PAIR)


def _product(m: Module, a: Value, bits: Sequence[Value], *, top: bool) -> Value:
    """Return ``a`` times some bits, the last of which counts negative at the top.

    Of a pair at the top it is the complement.
    """
    if len(bits) == _PAIR:
        low, high = bits
        wide = [*a, a[-1], a[-1]]
        halves = zip(wide, [Const(0, 1), *wide[:-1]], strict=True)
        return _chain(m, _DIFFERENCE if top else _BOTH, [(x, low, y, high) for x, y in halves])
    place = (len(bits) + 2) // 4 * 2
    low = _product(m, a, bits[:place], top=False)
    high = _product(m, a, bits[place:], top=top)
    complement = top and len(bits) - place == _PAIR
    return _added(m, low, high, place, place + len(high), complement=complement)


def _added(m: Module, a: Value, b: Value, place: int, width: int, *, complement: bool) -> Value:
    """Return ``a + (b << place)`` of signed values, ``b`` given as its complement or as it is."""
    xs = [a[min(i, len(a) - 1)] for i in range(place, width)]
    ys = [b[min(i, len(b) - 1)] for i in range(width - place)]
    inverts = Const(int(complement), 1)
    halves = [(x, y, inverts, Const(1, 1)) for x, y in zip(xs, ys, strict=True)]
    return Cat(a[:place], _chain(m, _SUM, halves))


def _chain(m: Module, table: int, halves: Sequence[_Half]) -> Value:
    """Return what a carry chain makes of its bits, from the lowest on; no carry comes in."""
    total = Signal(len(halves))
    carry: Value = Const(0, 1)
    for place in range(0, len(halves), 2):
        pins: dict[str, object] = {"i_CIN": carry}
        for half in range(2):
            entering = [Const(0, 1)] * 4
            if place + half < len(halves):
                entering = halves[place + half]
                pins[f"o_S{half}"] = total[place + half]
            pins |= {f"i_{pin}{half}": bit for pin, bit in zip("ABCD", entering, strict=True)}
            pins |= {f"p_INIT{half}": Const(table, 16), f"p_INJECT1_{half}": "NO"}
        if place + 2 < len(halves):
            carry = Signal()
            pins["o_COUT"] = carry
        m.submodules += Instance("CCU2C", **pins)
    return total
