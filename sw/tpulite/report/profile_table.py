"""The table of a profile, in 80 columns."""

from typing import TYPE_CHECKING

from rich import box
from rich.bar import Bar
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tpulite.report.name_cell import NameCell
from tpulite.report.spending import Cause

if TYPE_CHECKING:
    from tpulite.report.profile import LayerProfile, Profile

_BAR = 8
"""Characters of the longest bar."""

_COLORS = {
    Cause.MULTIPLIERS: "green",
    Cause.WEIGHTS: "cyan",
    Cause.DEPTHWISE: "cyan",
    Cause.VECTOR: "magenta",
}
"""Work is green if it fills the array; waiting is yellow."""


def profile_table(profile: "Profile") -> Table:
    """Return a row for each layer, and the sum."""
    machine = [layer for layer in profile.layers if layer.where == "machine"]
    hides = any(not layer.cycles and layer.n for layer in machine)
    table = Table(
        title=escape(f"{profile.network}: cycles ({profile.counted_by})"),
        caption="hidden: runs in parallel with other layers; DRAM: bytes moved" if hides else None,
        show_footer=True,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,
    )
    table.add_column("layer", "total")  # names give way, numbers do not
    table.add_column("cycles", f"{profile.cycles:,}", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", width=_BAR, no_wrap=True)
    table.add_column("util", f"{profile.utilization:.1%}", justify="right", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    moved = sum(map(_moved, machine))
    table.add_column("DRAM", f"{moved:,}", justify="right", no_wrap=True)
    longest = max((layer.cycles for layer in machine), default=0)
    for layer in profile.layers:
        table.add_row(*_cells(layer, profile.cycles, longest))
    return table


def _cells(
    layer: "LayerProfile", cycles: int, longest: int
) -> tuple[str | Bar | Text | NameCell, ...]:
    name = NameCell(layer.name)
    if layer.where != "machine":
        return name, "", "", "", "", "CPU", ""
    has = layer.cycles > 0
    color = _COLORS.get(layer.bound or Cause.WAITING, "yellow")
    ends = layer.name in ("start", "end") and not layer.n
    return (
        name,
        f"{layer.cycles:,}" if has else "",
        f"{layer.cycles / cycles:.1%}" if has else "",
        Bar(longest, 0, layer.cycles, width=_BAR, color=color) if has else "",
        f"{layer.utilization:.1%}" if has and layer.macs else "",
        Text(str(layer.bound), color) if layer.bound else "" if ends else "hidden",
        f"{_moved(layer):,}" if _moved(layer) else "",
    )


def _moved(layer: "LayerProfile") -> int:
    return layer.traffic.read_bytes + layer.traffic.written_bytes
