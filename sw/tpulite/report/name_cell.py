"""Names in the cells of tables."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_SHORTEST = 10
"""Columns below which a name says nothing."""


@dataclass(frozen=True)
class NameCell:
    """A name of one line, which gives way where others of the row must not.

    Names of exporters begin alike (``/layer1/layer1.0/conv1/Conv``) or end alike
    (``conv1/Conv2D;bias/ReadVariableOp``), so what does not fit is left out in the middle.

    Attributes
    ----------
    name : str
        The name; it is no markup.
    """

    name: str

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        width, name = options.max_width, self.name
        if len(name) > width:
            front = (width - 1) // 2
            name = f"{name[:front]}…{name[len(name) - width + 1 + front :]}"
        yield Text(name, no_wrap=True)

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> Measurement:
        return Measurement(min(len(self.name), _SHORTEST), len(self.name))
