"""Names in tables lose their middle, never a number its digits."""

import pytest
from rich.console import Console
from rich.table import Table

from tpulite.report.name_cell import NameCell


@pytest.mark.parametrize(
    ("width", "shown"),
    [(30, "/layer1/[0]/conv1/Conv 1,234"), (20, "/layer…v1/Conv 1,234")],
)
def test_a_name_gives_way_in_its_middle(width, shown):
    table = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_row(NameCell("/layer1/[0]/conv1/Conv"), "1,234")
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    assert capture.get().splitlines() == [shown]
