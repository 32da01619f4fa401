"""Tables of the page, which a click on the head of a column sorts."""

from collections.abc import Iterable

from bokeh.models import CellFormatter, ColumnDataSource, DataTable, TableColumn

__all__ = ["make_table"]

_ROW = 25
"""Pixels of a row; the heading is one, too."""

_MOST_ROWS = 40


def make_table(
    data: ColumnDataSource, rows: int, columns: Iterable[tuple[str, str, int, CellFormatter]]
) -> DataTable:
    """Return a table as wide as the page; of many rows it shows some and scrolls.

    Parameters
    ----------
    data : ColumnDataSource
        The rows.
    rows : int
        How many there are.
    columns : iterable of (str, str, int, CellFormatter)
        Field, heading, width and looks of each column.
    """
    return DataTable(
        source=data,
        columns=[
            TableColumn(field=field, title=title, width=width, formatter=formatter)
            for field, title, width, formatter in columns
        ],
        height=_ROW * (1 + min(rows, _MOST_ROWS)) + 5,
        row_height=_ROW,
        index_position=None,
        reorderable=False,
        sizing_mode="stretch_width",
    )
