"""Pieces of text that dumps share."""

from collections.abc import Collection, Iterable, Sequence

__all__ = ["columns", "extents"]


def columns(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[int] = ()
) -> str:
    """Return a table, without blanks at the ends of lines.

    Parameters
    ----------
    heads : sequence of str
        Headings.
    rows : iterable of sequence of str
        As many texts each.
    right : collection of int
        Columns that end, and do not begin, below each other.

    Examples
    --------
    >>> print(columns(("name", "rows"), [("x", "7"), ("image", "12")], right=(1,)), end="")
    name   rows
    x         7
    image    12
    """
    table = [heads, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(heads))]
    lines = []
    for row in table:
        cells = (
            text.rjust(width) if i in right else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def extents(shape: Iterable[int]) -> str:
    """Return a shape as text.

    Examples
    --------
    >>> extents((8, 8, 16))
    '8x8x16'
    """
    return "x".join(map(str, shape))
