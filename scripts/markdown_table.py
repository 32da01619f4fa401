"""Tables in Markdown."""

from collections.abc import Iterable


def table(header: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """Return lines of a table, and an empty one; a vertical bar separates the column names."""
    columns = header.split("|")
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines] + [""]
