"""Wide products of multipliers that are narrower: pieces of operands, and what they add up to."""

from collections.abc import Iterable, Iterator

from amaranth.hdl import Cat, Const, Value

__all__ = ["cut", "joined"]


def cut(value: Value, bits: int) -> Iterator[tuple[int, Value]]:
    """Yield the pieces of an operand, with their places.

    Parameters
    ----------
    value : Value
        Only its topmost piece may be signed.
    bits : int
        Of an unsigned piece; a signed one has at most one more.
    """
    place = 0
    is_signed = value.shape().signed
    while len(value) - place > bits + is_signed:
        yield place, value[place : place + bits]
        place += bits
    top = value[place:]
    yield place, top.as_signed() if is_signed else top


def joined(products: Iterable[tuple[int, Value]]) -> list[Value]:
    """Return summands of products at their places: side by side where these do not overlap."""
    rows: list[Value] = []
    for place, one in sorted(products, key=lambda product: product[0]):
        for index, row in enumerate(rows):
            # A signed product goes on to the left for ever.
            if not row.shape().signed and len(row) <= place:
                both = Cat(row, Const(0, place - len(row)), one)
                rows[index] = both.as_signed() if one.shape().signed else both
                break
        else:
            both = Cat(Const(0, place), one)
            rows.append(both.as_signed() if one.shape().signed else both)
    return rows
