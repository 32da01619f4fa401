"""Products in two halves that fit two cycles: summands, and their sum."""

from collections.abc import Iterator, Mapping

from amaranth.hdl import Cat, Const, Module, Signal, Value

from tpulite.arch.build import Build
from tpulite_rtl.lib import dsp48, gowin_product
from tpulite_rtl.lib.multiplier import STYLES

__all__ = ["summands"]

_DSP_BITS = 16  # of each operand, without a sign; ECP5 and others multiply 18 x 18

_Columns = list[list[Value]]
"""Bits to add up, by their weight."""


def summands(
    m: Module,
    a: Value,
    b: Value,
    *,
    carry: Value,
    bits: Mapping[int, Value],
    style: str,
    platform: object = None,
) -> list[Value]:
    """Return values of len(a) + len(b) bits whose sum is ``(a + carry) * b`` plus some bits.

    Parameters
    ----------
    m : Module
        Gets the logic.
    a, b : Value
        A signed and an unsigned operand.
    carry : Value
        One bit.
    bits : mapping of int to Value
        More bits to add, by their places, each at most once.
    style : str
        ``dsp``: products small enough for a DSP block each; ``logic``: two values, the digits of
        ``a`` times ``b`` (Booth, radix 4) after a tree of carry-save adders.
    platform : object, optional
        A :class:`tpulite.arch.build.Build`: for ``gw5a`` products are instances of a multiplier,
        for
        ``xilinx`` fewer of them are used if it saves multipliers.
    """
    if style not in STYLES:
        raise ValueError(f"Multiplier style must be one of {STYLES}, not {style!r}")
    width = len(a) + len(b)
    if style == "dsp":
        build = Build.of(platform)
        if build.target == "gw5a":
            rows = gowin_product.product_rows(m, a, b)
        elif build.target == "xilinx" and build.saves_multipliers:
            rows = dsp48.product_rows(m, a, b, platform=platform)
        else:
            rows = [product << place for place, product in _pieces(a, b)]
        extra = Cat(bits.get(place, Const(0, 1)) for place in range(width))
        # Nothing but the bits of an own summand: the carry's product is short of a sign.
        rows += [carry.replicate(len(b)) & b, extra]
    else:
        columns: _Columns = [[] for _ in range(width)]
        for place, bit in bits.items():
            columns[place].append(bit)
        _add_booth(m, columns, a, b, carry)
        columns = _reduced(m, columns)
        rows = [
            Cat(column[row] if row < len(column) else Const(0, 1) for column in columns)
            for row in range(2)
        ]
    return [row[:width] if len(row) >= width else row for row in rows]


def _pieces(a: Value, b: Value) -> Iterator[tuple[int, Value]]:
    """Yield the products of pieces of both operands, with their places."""
    for i in range(0, len(a), _DSP_BITS):
        piece = a[i : i + _DSP_BITS]
        top = i + _DSP_BITS >= len(a)
        for j in range(0, len(b), _DSP_BITS):
            yield i + j, (piece.as_signed() if top else piece) * b[j : j + _DSP_BITS]


def _add_booth(m: Module, columns: _Columns, a: Value, b: Value, carry: Value) -> None:
    """Add the bits of a digit -2 ... 2 of ``a`` times ``b`` each; the carry is in the first one."""
    digits = -(-len(a) // 2)
    places = Cat(carry, a, a[-1])
    constant = 0
    for digit in range(digits):
        below, low, high = places[2 * digit], places[2 * digit + 1], places[2 * digit + 2]
        single, double = Signal(), Signal()
        m.d.comb += [single.eq(low ^ below), double.eq((high ^ low) & ~single)]
        padded = Cat(Const(0, 1), b, Const(0, 1))
        for i in range(len(b) + 1):
            bit = ((padded[i + 1] & single) | (padded[i] & double)) ^ high
            _add(m, columns, 2 * digit + i, bit)
        # Minus x is the complement of x plus one. The sign's complement, less a constant, stands
        # for the sign in this and all higher places.
        _add(m, columns, 2 * digit, high)
        _add(m, columns, 2 * digit + len(b) + 1, ~high)
        constant -= 1 << (2 * digit + len(b) + 1)
    for place in range(len(columns)):
        if constant >> place & 1:
            columns[place].append(Const(1, 1))


def _add(m: Module, columns: _Columns, place: int, bit: Value) -> None:
    if place < len(columns):
        named = Signal()
        m.d.comb += named.eq(bit)
        columns[place].append(named)


def _reduced(m: Module, columns: _Columns) -> _Columns:
    """Add up until every column has at most two bits (Dadda: no sooner than necessary)."""
    heights = [2]
    while heights[-1] < max(map(len, columns)):
        heights.append(heights[-1] * 3 // 2)
    for height in reversed(heights[:-1]):
        reduced: _Columns = [[] for _ in range(len(columns) + 1)]
        for place, column in enumerate(columns):
            waiting, sums = column, reduced[place]  # which has the carries already
            while len(waiting) + len(sums) > height:
                count = 2 if len(waiting) + len(sums) == height + 1 else 3
                added, waiting = waiting[:count], waiting[count:]
                total, carry = Signal(), Signal()
                parity = added[0] ^ added[1]
                carries = added[0] & added[1]
                if count == 3:
                    half = Signal()
                    m.d.comb += half.eq(parity)
                    parity, carries = half ^ added[2], carries | (half & added[2])
                m.d.comb += [total.eq(parity), carry.eq(carries)]
                sums.append(total)
                reduced[place + 1].append(carry)
            sums += waiting
        columns = reduced[:-1]
    return columns
