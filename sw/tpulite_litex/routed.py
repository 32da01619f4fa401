"""What nextpnr says of a system: cells, clocks, and what is wrong with them."""

import re
from collections.abc import Sequence

from rich.table import Table

__all__ = ["Routed", "routed_tables"]

_CELLS = re.compile(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%", re.MULTILINE)
_CLOCK = re.compile(
    r"Max frequency for clock\s+'([^']+)': ([\d.]+) MHz \((PASS|FAIL) at ([\d.]+) MHz\)"
)
_GLOBAL = "$glbnet$"
_TABLE = "TRELLIS_COMB"


class Routed:
    """What became of a seed.

    Parameters
    ----------
    seed : int
        Of the placement.
    log : str
        Output of nextpnr.
    blocked : int
        Lookup tables that are only there to keep others away.
    unrouted : str
        Why the router was given up, if so.

    Attributes
    ----------
    cells : dict of str to (int, int)
        How many of each kind are taken, and how many there are.
    clocks : dict of str to (float, float)
        MHz that a clock can have, after routing, and that it must have.
    """

    def __init__(self, seed: int, log: str, blocked: int = 0, unrouted: str = "") -> None:
        self.seed = seed
        self.unrouted = unrouted
        self.cells = {name: (int(used), int(there)) for name, used, there in _CELLS.findall(log)}
        if blocked and _TABLE in self.cells:
            used, there = self.cells[_TABLE]
            self.cells[_TABLE] = used - blocked, there
        found = _CLOCK.findall(log)
        self.clocks = {
            name.removeprefix(_GLOBAL): (float(is_), float(due)) for name, is_, _, due in found
        }

    @property
    def fits(self) -> bool:
        """Whether the part has so many cells of each kind."""
        return all(used <= there for used, there in self.cells.values())

    @property
    def margin(self) -> float:
        """How often the slowest clock reaches its frequency: 1 is just enough, 0 is unknown."""
        if self.unrouted:
            return 0.0  # the log has estimates
        return min((mhz / due for mhz, due in self.clocks.values()), default=0.0)

    @property
    def problem(self) -> str:
        """What is wrong, in words; nothing if the design fits and meets its clocks."""
        for name, (used, there) in self.cells.items():
            if used > there:
                return f"the part has {there:,} {name}, not {used:,}"
        if self.unrouted:
            return self.unrouted
        for name, (mhz, due) in self.clocks.items():
            if mhz < due:
                return f"clock {name} reaches {mhz:g} MHz, not {due:g} MHz"
        return "" if self.clocks else "nextpnr has said nothing of the clock"


def routed_tables(title: str, found: Sequence[Routed]) -> tuple[Table, Table]:
    """Return the cells, and what each seed reaches."""
    cells = Table(title=title)
    for column in ("", "is", "of"):
        cells.add_column(column, justify="right" if column else "left")
    for name, (used, there) in found[0].cells.items():
        if used:
            cells.add_row(name, f"{used:,}", f"{there:,}")
    clocks = Table(title="MHz by seed")
    clocks.add_column("clock")
    clocks.add_column("due", justify="right")
    for routed in found:
        clocks.add_column(str(routed.seed), justify="right")
    for name, (_, due) in found[0].clocks.items():
        each = (
            "not routed" if routed.unrouted else f"{routed.clocks[name][0]:.1f}" for routed in found
        )
        clocks.add_row(name, f"{due:.1f}", *each)
    return cells, clocks
