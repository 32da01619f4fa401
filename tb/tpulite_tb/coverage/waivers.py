"""Points that need not be reached, each with its reason: a table beside the benches."""

import csv
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import tpulite_rtl
from tpulite_tb.coverage.counts import Counts
from tpulite_tb.coverage.points import Point

__all__ = ["PROOFS", "WAIVERS", "Waiver", "read_waivers", "source_line", "waive"]

WAIVERS = Path(__file__).resolve().parents[2] / "coverage_waivers.csv"

PROOFS = ("", "absent", "chip")
"""See `Waiver.proof`; others name a property of a component."""

_RTL = Path(tpulite_rtl.__file__).parent


@dataclass(frozen=True)
class Waiver:
    """Points that cannot be reached, or need not be."""

    #: Those of the points.
    kind: str
    file: str
    source: str  #: The line of the source, without the space around it: numbers of lines change.
    detail: str  #: What of the line; ``*`` is anything, ``[[]`` a bracket.
    #: How it is proven (`tpulite_formal.unreachable`): ``chip``: no run of the chip reaches such a
    #: point; ``absent``: the chip has none, only benches of components have;
    #: ``COMPONENT: PROPERTY``: it follows from one that is proven (`docs/proofs.md`). Empty: not
    #: proven.
    proof: str
    reason: str  #: Why.

    def covers(self, point: Point) -> bool:
        """Tell whether it is about a point."""
        return (
            (self.kind, self.file) == (point.kind, point.file)
            and fnmatchcase(point.detail, self.detail)
            and self.source == source_line(point)
        )

    @property
    def property(self) -> tuple[str, str] | None:
        """The component and its property from which it follows, if it does from one."""
        component, separator, name = self.proof.partition(": ")
        return (component, name) if separator else None

    def __str__(self) -> str:
        return f"{self.kind} of {self.file}, `{self.source}`, {self.detail}"


def source_line(point: Point) -> str:
    """Return the line of the source that a point stands in."""
    return linecache.getline(str(_RTL / point.file), point.line).strip()


def read_waivers(path: Path) -> list[Waiver]:
    """Return the waivers of a table.

    Raises
    ------
    ValueError
        If one gives no reason, or another proof than there is.
    """
    with path.open(newline="") as file:
        waivers = [Waiver(**row) for row in csv.DictReader(file)]
    for waiver in waivers:
        if not waiver.reason:
            raise ValueError(f"{path}: no reason for {waiver}")
        if waiver.proof not in PROOFS and not waiver.property:
            raise ValueError(
                f"{path}: {waiver}: proof {waiver.proof!r}; there are chip, absent and "
                "COMPONENT: PROPERTY"
            )
    return waivers


def waive(
    counts: Counts, waivers: Sequence[Waiver], *, complete: bool = True
) -> tuple[dict[Point, str], list[str]]:
    """Return the points that are waived, with their reasons, and what is wrong with waivers.

    A waiver is wrong if one of its points is reached, or if its file has points and none is its.
    The latter is asked only if all sizes of the file have run (``complete``).
    """
    waived: dict[Point, str] = {}
    wrong: list[str] = []
    by_file: dict[str, list[Point]] = {}
    for point in counts:
        by_file.setdefault(point.file, []).append(point)
    for waiver in waivers:
        found = [point for point in by_file.get(waiver.file, []) if waiver.covers(point)]
        if reached := [point for point in found if counts[point]]:
            wrong.append(f"{waiver}: reached, {len(reached)} of {len(found)} points")
        elif complete and not found and waiver.file in by_file:
            wrong.append(f"{waiver}: there is no such point")
        waived |= dict.fromkeys(found, waiver.reason)
    return waived, wrong
