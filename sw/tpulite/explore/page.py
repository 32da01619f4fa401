"""A page about a study for the browser: each objective against the first, and a table."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, DataTable, Div, TableColumn, UIElement
from bokeh.plotting import figure
from bokeh.resources import INLINE

from tpulite.explore.limits import Limits, machine_name
from tpulite.explore.point import OBJECTIVES, Point
from tpulite.report.html.style import chart, heading, legend_above, tell

__all__ = ["write_study"]

_FRONT, _BEATEN, _EXCLUDED = "best", "beaten", "exceeds a limit"
_COLORS = {_BEATEN: "#b8b8b8", _EXCLUDED: "#f0a03c", _FRONT: "#2e9e5b"}


def write_study(
    path: Path,
    points: Sequence[Point],
    best: Sequence[Point],
    limits: Limits,
    objectives: Sequence[str],
    said: str,
) -> None:
    """Write a page that any browser shows, without a network.

    Parameters
    ----------
    path : Path
        File to write.
    points, best : sequence of Point
        All of them, and those on the front.
    limits : Limits
        What points must not exceed.
    objectives : sequence of str
        What was to be small; figures have the first one upwards.
    said : str
        Which machine to take.
    """
    chosen = {id(point) for point in best}
    able = [point for point in points if not point.trouble]
    first, *others = [*objectives, *(["area"] if len(objectives) == 1 else [])]
    networks = ", ".join(points[0].outcomes or ["no network"]) if points else ""
    parts: list[UIElement] = [
        Div(text=f"<h1>{escape(networks)}</h1><p>{escape(said)}</p>", name="head"),
    ]
    for other in others:
        parts.append(heading(f"{OBJECTIVES[first]} by {OBJECTIVES[other]}", _READ))
        parts.append(_scatter(able, chosen, limits, first, other))
    parts.append(heading("All points", "A click on the head of a column sorts."))
    parts.append(_table(points, chosen, limits))
    page = column(*parts, sizing_mode="stretch_width", margin=(0, 16, 0, 16))
    path.write_text(file_html(page, INLINE, title=f"{networks}: tpulite explore"), "utf-8")


_READ = (
    "Each point is a machine; the mouse says which. Green: no other beats it in all objectives "
    "of the study, which may be more than the two of this figure. Both axes are logarithmic."
)


def _kind(point: Point, chosen: set[int], limits: Limits) -> str:
    if id(point) in chosen:
        return _FRONT
    return _EXCLUDED if limits.broken(point) else _BEATEN


def _scatter(
    points: Sequence[Point], chosen: set[int], limits: Limits, first: str, other: str
) -> figure:
    plot = chart(
        420,
        "pan,box_zoom,wheel_zoom,reset,save",
        x_axis_type="log",
        y_axis_type="log",
        name=f"{first} by {other}",
    )
    drawn = []
    for kind, color in _COLORS.items():
        some = [point for point in points if _kind(point, chosen, limits) == kind]
        if not some:
            continue
        data = {
            "x": [point.objective(other) for point in some],
            "y": [point.objective(first) for point in some],
            "name": [machine_name(point) for point in some],
            "x_shown": [point.shown(other) for point in some],
            "y_shown": [point.shown(first) for point in some],
        }
        source = ColumnDataSource(data, name=f"{first} by {other}: {kind}")
        drawn.append(plot.scatter("x", "y", size=10, color=color, legend_label=kind, source=source))
    tips = [("", "@name"), (OBJECTIVES[first], "@y_shown"), (OBJECTIVES[other], "@x_shown")]
    tell(plot, tips, *drawn)
    plot.xaxis.axis_label, plot.yaxis.axis_label = OBJECTIVES[other], OBJECTIVES[first]
    if drawn:
        legend_above(plot)
    return plot


def _table(points: Sequence[Point], chosen: set[int], limits: Limits) -> DataTable:
    fields = list(points[0].values) if points else []
    data: dict[str, Any] = {name: [_plain(x.values[name]) for x in points] for name in fields}
    for name in OBJECTIVES:
        data[name] = [None if point.trouble else point.objective(name) for point in points]
    data["is"] = [limits.broken(point) or _kind(point, chosen, limits) for point in points]
    columns = [TableColumn(field=name, title=OBJECTIVES.get(name, name)) for name in data]
    source = ColumnDataSource(data, name="points")
    return DataTable(source=source, columns=columns, height=400, sizing_mode="stretch_width")


def _plain(value: object) -> object:
    return "+".join(value) if isinstance(value, tuple) else value
