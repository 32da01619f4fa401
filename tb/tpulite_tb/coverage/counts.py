"""What runs have reached: counts of points, read from Verilator's files, kept and merged."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tpulite_tb.coverage.points import Point
from tpulite_tb.coverage.verilog import line_points, points_of

__all__ = ["Counts", "keep", "merged", "read_counts"]

Counts = Counter[Point]
"""How often each point was reached, 0 included: clock edges, of toggles changes."""

_RECORD = re.compile(r"^C '(.*)' (\d+)$", re.MULTILINE)
_FIELD = re.compile(r"\x01([^\x02]*)\x02([^\x01]*)")
_BIT = re.compile(r"(\[\d+\])?:([01]->[01])$")


def read_counts(data: str, source: str) -> Counts:
    """Return what a run has reached.

    Parameters
    ----------
    data : str
        Verilator's ``coverage.dat``.
    source : str
        The Verilog that ran, from :func:`tpulite_tb.coverage.verilog.with_points`.
    """
    points = points_of(source)
    counts: Counts = Counter()
    for record, number in _RECORD.findall(data):
        fields = dict(_FIELD.findall(record))
        point = points.get(int(fields["l"]))
        if point is None:
            continue
        if point.kind == "toggle":
            change = _BIT.search(fields["o"])
            if change is None:
                continue
            point = replace(point, detail=f"{point.detail}{change[1] or ''} {change[2]}")
        counts[point] += int(number)
    for line, ways in line_points(source).items():
        counts[line] += sum(counts[way] for way in ways) if ways else 1
    return counts


def keep(counts: Counts, path: Path) -> None:
    """Write counts."""
    rows = [[p.kind, p.file, p.line, p.detail, n] for p, n in sorted(counts.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))


def merged(paths: Iterable[Path]) -> Counts:
    """Return the sum of what was written."""
    counts: Counts = Counter()
    for path in paths:
        for *point, number in json.loads(path.read_text()):
            counts[Point(*point)] += number
    return counts
