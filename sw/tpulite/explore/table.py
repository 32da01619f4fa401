"""Points as tables: for people, and a row each for other programs."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from tpulite.explore.point import OBJECTIVES, Point

__all__ = ["points_table", "reasons", "rows_of", "shown"]

_UNITS = {"traffic": "DRAM bytes", "buffer": "buffer bytes"}


def points_table(
    points: Sequence[Point], best: Sequence[Point], objectives: Sequence[str]
) -> Table:
    """Return a row for each point: with a star if none beats it, or the number of its reason.

    Parameters
    ----------
    points : sequence of Point
        What to show, at least one.
    best : sequence of Point
        Those on the front.
    objectives : sequence of str
        Columns, of :data:`tpulite.explore.point.OBJECTIVES`.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in points[0].values:
        table.add_column(name, justify="right", overflow="fold")
    for name in objectives:
        table.add_column(_UNITS.get(name, name), justify="right", no_wrap=True)
    chosen = {id(point) for point in best}
    notes = {reason: number for number, reason in enumerate(_reasons(points), start=1)}
    for point in points:
        scores = [f"{point.objective(name):,}" for name in objectives if not point.trouble]
        mark = "*" if id(point) in chosen else str(notes.get(point.trouble, ""))
        table.add_row(mark, *map(shown, point.values.values()), *scores)
    return table


def reasons(points: Sequence[Point]) -> list[str]:
    """Return the reasons why points do not run all networks, numbered as in the table."""
    return [f"{number}: {reason}" for number, reason in enumerate(_reasons(points), start=1)]


def _reasons(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(point.trouble for point in points if point.trouble))


def rows_of(points: Sequence[Point], best: Sequence[Point]) -> list[dict[str, Any]]:
    """Return a flat record for each point, all with the same fields."""
    chosen = {id(point) for point in best}
    names = {name: None for point in points for name in point.outcomes}
    rows = []
    for point in points:
        scores = {} if point.trouble else {x: point.objective(x) for x in OBJECTIVES}
        cycles = {name: counts.cycles for name, counts in point.counts.items()}
        rows.append(
            {name: shown(value) for name, value in point.values.items()}
            | {"best": id(point) in chosen}
            | {name: scores.get(name, "") for name in OBJECTIVES}
            | {f"cycles_{name}": cycles.get(name, "") for name in names}
            | {"trouble": point.trouble}
        )
    return rows


def shown(value: Any) -> str:
    """Return a value of a field as people type it."""
    return "+".join(value) if isinstance(value, tuple) else str(value)
