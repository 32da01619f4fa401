"""How much of each component is covered."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tpulite.report.name_cell import NameCell
from tpulite_tb.coverage.counts import Counts
from tpulite_tb.coverage.cross import Cross
from tpulite_tb.coverage.points import Point

__all__ = [
    "KINDS",
    "Share",
    "Shares",
    "component_shares",
    "functional_table",
    "summary_table",
    "total",
]

KINDS = {"line": "lines", "branch": "branches", "toggle": "toggles", "state": "states"}
"""Columns of tables; states and the steps between them are one."""


@dataclass(frozen=True)
class Share:
    """Points that were reached, those that need not be, and all."""

    reached: int = 0
    waived: int = 0
    points: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(
            self.reached + other.reached, self.waived + other.waived, self.points + other.points
        )

    @property
    def percent(self) -> float | None:
        """Percent of what must be reached, rounded down to a tenth; None of nothing."""
        needed = self.points - self.waived
        return 1000 * self.reached // needed / 10 if needed else None

    def __str__(self) -> str:
        return "—" if self.percent is None else f"{self.percent:.1f}"


Shares = dict[str, dict[str, Share]]
"""By component and kind."""


def component_shares(counts: Counts, waived: Mapping[Point, str]) -> Shares:
    """Return what was reached of each component, by kind.

    Parameters
    ----------
    counts : Counts
        What was reached.
    waived : mapping of Point to str
        Points that need not be, and why.
    """
    shares: Shares = defaultdict(lambda: dict.fromkeys(KINDS, Share()))
    for point, count in counts.items():
        kind = "state" if point.kind == "arc" else point.kind
        shares[point.component][kind] += Share(bool(count), point in waived and not count, 1)
    return dict(sorted(shares.items()))


def total(shares: Shares) -> dict[str, Share]:
    """Return the sums over all components."""
    return {kind: sum((each[kind] for each in shares.values()), Share()) for kind in KINDS}


def summary_table(shares: Shares) -> Table:
    """Return percents of each component, and how many points are not reached."""
    table = Table(title="Percent of the RTL that the benches reach", box=SIMPLE_HEAD)
    table.add_column("component")
    for heading in (*KINDS.values(), "missing", "waived"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, each in [*shares.items(), ("all", total(shares))]:
        whole = sum(each.values(), Share())
        missing = whole.points - whole.waived - whole.reached
        cells = [*map(str, each.values()), f"{missing:,}", f"{whole.waived:,}"]
        table.add_row(NameCell(name), *cells, style="bold" if name == "all" else "")
    return table


def functional_table(crosses: Mapping[str, Cross]) -> Table:
    """Return how many combinations of each cross occurred."""
    table = Table(title="Combinations that occurred", box=SIMPLE_HEAD)
    table.add_column("of")
    for heading in ("occurred", "expected", "percent"):
        table.add_column(heading, justify="right", no_wrap=True)
    for title, cross in crosses.items():
        share = Share(cross.expected() - len(cross.holes()), 0, cross.expected())
        cells = (f"{share.reached:,}", f"{share.points:,}", str(share))
        table.add_row(f"{title}: {' x '.join(cross.axes)}", *cells)
    return table
