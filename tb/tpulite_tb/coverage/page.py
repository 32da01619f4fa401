"""Coverage as pages for the browser: one of all components, and the source of each."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

import tpulite_rtl
from tpulite_tb.coverage.counts import Counts
from tpulite_tb.coverage.cross import Cross
from tpulite_tb.coverage.points import Point
from tpulite_tb.coverage.summary import KINDS, Share, component_shares, total

__all__ = ["write_pages"]

_RTL = Path(tpulite_rtl.__file__).parent
_MOST_NOTES = 12
"""Missing points of a line that are told one by one."""


@dataclass
class _Line:
    number: int
    text: str
    looks: str = ""
    notes: list[str] = field(default_factory=list)
    waived: list[str] = field(default_factory=list)


def write_pages(
    counts: Counts, waived: Mapping[Point, str], crosses: Mapping[str, Cross], folder: Path
) -> Path:
    """Write the pages and return the first, ``index.html``.

    Parameters
    ----------
    counts : Counts
        What was reached.
    waived : mapping of Point to str
        Points that need not be, and why.
    crosses : mapping of str to Cross
        Functional coverage, by title.
    folder : Path
        Where to.
    """
    environment = Environment(
        loader=PackageLoader("tpulite_tb.coverage"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    shares = component_shares(counts, waived)
    index = folder / "index.html"
    rows = {name: _row(each) for name, each in shares.items()}
    text = environment.get_template("index.html").render(
        kinds=KINDS, rows=rows, total=_row(total(shares)), crosses=crosses
    )
    index.write_text(text)
    by_file: dict[str, list[Point]] = defaultdict(list)
    for point in sorted(counts):
        by_file[point.file].append(point)
    for file, points in by_file.items():
        name = points[0].component
        lines = _lines(file, points, counts, waived)
        text = environment.get_template("component.html").render(
            name=name, file=file, kinds=KINDS, row=_row(shares[name]), lines=lines
        )
        (folder / f"{name}.html").write_text(text)
    return index


def _row(shares: Mapping[str, Share]) -> dict[str, object]:
    whole = sum(shares.values(), Share())
    missing = whole.points - whole.waived - whole.reached
    return {"cells": list(shares.values()), "missing": missing, "waived": whole.waived}


def _lines(
    file: str, points: list[Point], counts: Counts, waived: Mapping[Point, str]
) -> list[_Line]:
    text = (_RTL / file).read_text().splitlines()
    lines = [_Line(number, each) for number, each in enumerate(text, 1)]
    missing: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        line = lines[point.line - 1]
        line.looks = line.looks or "reached"
        if not counts[point]:
            if point in waived:
                reason = waived[point]
                if reason not in line.waived:
                    line.waived.append(reason)
            else:
                missing[point.line].append(point)
    for number, found in missing.items():
        line = lines[number - 1]
        line.looks = "missing" if any(point.kind == "line" for point in found) else "partly"
        line.notes = [_told(point) for point in found[:_MOST_NOTES]]
        if len(found) > _MOST_NOTES:
            line.notes.append(f"and {len(found) - _MOST_NOTES} more")
    for line in lines:
        if line.waived and not line.notes:
            line.looks = "waived"
    return lines


def _told(point: Point) -> str:
    return "never executed" if point.kind == "line" else f"{point.kind} {point.detail}"
