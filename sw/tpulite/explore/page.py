"""A page about a study for the browser: each objective against the first, and a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulite.explore.limits import Limits, machine_name
from tpulite.explore.point import OBJECTIVES, Point, pareto
from tpulite.report.html.shell import Head, Section, whole_page

_FRONT, _BEATEN, _EXCLUDED = "Pareto front", "dominated", "exceeds a limit"

_TITLES = {
    "cycles": "cycles of a run",
    "ms": "time of a run, ms",
    "area": "area, LUT (estimate)",
    "gates": "area, NAND2 gates (estimate)",
    "bram": "block RAMs",
    "dsp": "DSP blocks",
    "energy": "energy of a run, µJ (estimate)",
    "traffic": "DRAM traffic of a run, bytes",
    "buffer": "unified buffer, bytes",
    "multipliers": "multipliers",
}
"""What axes and columns call objectives; sums over all networks."""

_DECADE = 8
"""An axis is logarithmic if its largest value is so many times its least."""


@dataclass(frozen=True)
class Shown:
    """What a page shows of a study."""

    #: All of them, and those on the Pareto front.
    points: Sequence[Point]
    best: Sequence[Point]
    limits: Limits  #: What points must not exceed.
    objectives: Sequence[str]  #: What was to be small; figures have the first one upwards.
    said: str  #: Which machine to take.

    @property
    def able(self) -> list[Point]:
        """Points that run all networks."""
        return [point for point in self.points if not point.trouble]

    def kind(self, point: Point) -> str:
        """Return what a point that runs all networks is."""
        if any(point is each for each in self.best):
            return _FRONT
        return _EXCLUDED if self.limits.broken(point) else _BEATEN


def write_study(path: Path, study: Shown) -> None:
    """Write a page that any browser shows, without a network."""
    networks = ", ".join(study.points[0].outcomes or ["no network"]) if study.points else ""
    goal = ", ".join(study.objectives)
    tiles = {"points": f"{len(study.points):,}", "on the Pareto front": f"{len(study.best):,}"}
    lines = [study.said, f"objectives: {goal}"]
    head = Head(networks, "explore", lines, tiles, things="machines")
    keys = {id(point): str(number) for number, point in enumerate(study.points)}
    sections = [*_figures(study, keys), _table(study, keys)]
    path.write_text(whole_page(head, sections, _items(study, keys)), encoding="utf-8")


def _figures(study: Shown, keys: dict[int, str]) -> Iterator[Section]:
    first, *others = study.objectives
    hint = (
        "Each point is a machine. Green: no other machine is as good in all objectives and better "
        "in one. The line is the Pareto front of the two objectives of a figure."
    )
    for other in others or ("area" if first != "area" else "cycles",):
        yield Section(
            f"{_TITLES[first].capitalize()} against {_TITLES[other]}",
            hint,
            [("scatter", _scatter(study, keys, first, other))],
        )
        hint = ""  # once is enough


def _scatter(study: Shown, keys: dict[int, str], first: str, other: str) -> dict[str, Any]:
    points = [
        {
            "x": point.objective(other),
            "y": point.objective(first),
            "name": machine_name(point),
            "kind": study.kind(point),
            "size": 6,
            "key": keys[id(point)],
            "tip": [study.limits.broken(point) or study.kind(point)],
        }
        for kind in (_BEATEN, _EXCLUDED, _FRONT)  # the last ones in front
        for point in study.able
        if study.kind(point) == kind
    ]
    within = [point for point in study.able if not study.limits.broken(point)]
    both = pareto(within, [first, other])
    front = sorted({(point.objective(other), point.objective(first)) for point in both})
    return {
        "axes": [
            _axis([point[name] for point in points], objective)
            for name, objective in (("x", other), ("y", first))
        ],
        "lines": [{"name": "Pareto front of these two objectives", "points": front, "steps": True}]
        * bool(front),
        "points": points,
    }


def _axis(values: Sequence[float], objective: str) -> dict[str, Any]:
    log = bool(values) and 0 < _DECADE * min(values) <= max(values)
    title = f"{_TITLES[objective]}, log scale" if log else _TITLES[objective]
    return {"title": title, "unit": OBJECTIVES[objective], "log": log}


def _table(study: Shown, keys: dict[int, str]) -> Section:
    fields = list(study.points[0].values) if study.points else []
    columns = [("", "text"), *((name, "number") for name in fields)]
    kinds = {"traffic": "bytes", "buffer": "bytes", "energy": "real", "ms": "real"}
    columns += [(_TITLES[name], kinds.get(name, "count")) for name in OBJECTIVES]
    rows = []
    for point in study.points:
        kind = study.limits.broken(point) or study.kind(point)
        known = point.scores
        scores = [round(known[x], 3) if x in known else None for x in OBJECTIVES]
        rows.append([kind, *(_plain(point.values[name]) for name in fields), *scores])
    data = {
        "columns": [{"title": title, "kind": kind} for title, kind in columns],
        "rows": rows,
        "keys": [keys[id(point)] for point in study.points],
    }
    hint = "Each row is a machine; a click on a heading sorts."
    return Section("All points", hint, [("table", data)])


def _items(study: Shown, keys: dict[int, str]) -> dict[str, Any]:
    """Return what the panel shows of each machine."""
    return {keys[id(point)]: _item(study, point) for point in study.points}


def _item(study: Shown, point: Point) -> dict[str, Any]:
    rows = [(name, str(_plain(value))) for name, value in point.values.items()]
    if not point.trouble:
        rows += [
            (_TITLES[name], point.shown(name)) for name in point.scores if name not in point.values
        ]
    rows += [(f"cycles of {name}", f"{x.cycles:,}") for name, x in point.counts.items()]
    name = machine_name(point) if point.config is not None else "no such machine"
    return {
        "name": name,
        "operator": "machine",
        "where": "" if point.trouble else study.kind(point),
        "facts": rows,
        "notes": list(filter(None, [study.limits.broken(point)])),
        **{key: [] for key in ("attributes", "tensors", "layers")},
    }


def _plain(value: object) -> object:
    return "+".join(value) if isinstance(value, tuple) else value
