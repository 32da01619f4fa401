"""Pieces of text that dumps share."""

from collections.abc import Collection, Iterable, Sequence

_NAME = 40
"""Characters of a name, at most."""


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


def short(name: str, most: int = _NAME) -> str:
    """Return a name without its middle, if it is long: files join names of what was fused.

    Parameters
    ----------
    name : str
        The name.
    most : int
        Characters, at most; at least 10.

    Examples
    --------
    >>> short("stem")
    'stem'
    >>> short("model/activation/Relu;model/batch_normalization/FusedBatchNormV3")
    'model/activation/R...n/FusedBatchNormV3'
    """
    if len(name) <= most:
        return name
    half = (most - 3) // 2
    return f"{name[:half]}...{name[-half:]}"
