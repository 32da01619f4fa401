"""Points as tables: for people, and a row each for other programs."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from tpulite.explore.chip import Counted
from tpulite.explore.families import FAMILIES
from tpulite.explore.limits import Limits
from tpulite.explore.point import OBJECTIVES, Point


def points_table(
    points: Sequence[Point], best: Sequence[Point], limits: Limits, objectives: Sequence[str]
) -> Table:
    """Return a row for each point: with a star if none beats it, or the number of its reason.

    Parameters
    ----------
    points : sequence of Point
        What to show, at least one.
    limits : Limits
        What points must not exceed.
    objectives : sequence of str
        Columns, of :data:`tpulite.explore.point.OBJECTIVES`.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in points[0].values:
        table.add_column(name, justify="right", overflow="fold")
    for name in objectives:
        table.add_column(OBJECTIVES[name], justify="right", no_wrap=True)
    chosen = {id(point) for point in best}
    notes = {reason: number for number, reason in enumerate(_reasons(points, limits), start=1)}
    for point in points:
        scores = [point.shown(name) for name in objectives if not point.trouble]
        mark = "*" if id(point) in chosen else str(notes.get(limits.broken(point), ""))
        table.add_row(mark, *map(point.shown, point.values), *scores)
    return table


def chip_table(counted: Sequence[Counted]) -> Table:
    """Return what the chip has counted beside what the cycle model says, at least one."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in counted[0].machine:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("network", overflow="fold")
    for name in ("model", "chip", "model error"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in counted:
        shown = f"{each.model:,}", f"{each.chip:,}", f"{each.off:+.2%}"
        table.add_row(*each.machine.values(), each.network, *shown)
    return table


def reasons(points: Sequence[Point], limits: Limits) -> list[str]:
    """Return the reasons why points are none to take, numbered as in the table."""
    return [f"{number}: {reason}" for number, reason in enumerate(_reasons(points, limits), 1)]


def _reasons(points: Sequence[Point], limits: Limits) -> list[str]:
    return list(dict.fromkeys(filter(None, map(limits.broken, points))))


def rows_of(points: Sequence[Point], best: Sequence[Point], limits: Limits) -> list[dict[str, Any]]:
    """Return a flat record for each point, all with the same fields."""
    chosen = {id(point) for point in best}
    names = {name: None for point in points for name in point.outcomes}
    rows = []
    for point in points:
        scores = point.scores
        cycles = {name: counts.cycles for name, counts in point.counts.items()}
        rows.append(
            {name: point.shown(name) for name in point.values}
            | {"best": id(point) in chosen}
            | {name: scores.get(name, "") for name in OBJECTIVES}
            | {"mhz": point.clock or ""}
            | _sizes(point)
            | {f"cycles_{name}": cycles.get(name, "") for name in names}
            | {"why_not": limits.broken(point)}
        )
    return rows


def _sizes(point: Point) -> dict[str, Any]:
    """Return what a point takes of each family, by resource and family."""
    known = {} if point.config is None else point.sizes
    return {
        f"{what}_{family}": getattr(known[family], what) if known else ""
        for family in FAMILIES
        for what in ("lut", "ff", "dsp", "bram")
    }
