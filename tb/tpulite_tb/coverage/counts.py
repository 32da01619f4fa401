"""What runs have reached: counts of points, read from Verilator's files, kept and merged."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tpulite_tb.coverage.constants import constant_bits
from tpulite_tb.coverage.points import Point
from tpulite_tb.coverage.verilog import line_points, points_of

__all__ = ["Counts", "keep", "merged", "read_counts"]

Counts = Counter[Point]
"""How often each point was reached, 0 included: clock edges, of toggles changes."""

_RECORD = re.compile(r"^C '(.*)' (\d+)$", re.MULTILINE)
_FIELD = re.compile(r"\x01([^\x02]*)\x02([^\x01]*)")
_BIT = re.compile(r"(?:\[(\d+)\])?:([01]->[01])$")


def read_counts(data: str, source: str) -> Counts:
    """Return what a run has reached; bits that never change have no points.

    Parameters
    ----------
    data : str
        Verilator's ``coverage.dat``.
    source : str
        The Verilog that ran, from :func:`tpulite_tb.coverage.verilog.with_points`.

    Raises
    ------
    ValueError
        If a bit changed both ways that synthesis takes for a constant.
    """
    points, constant = points_of(source), constant_bits(source)
    counts: Counts = Counter()
    ways: Counter[tuple[int, int]] = Counter()
    for record, number in _RECORD.findall(data):
        fields = dict(_FIELD.findall(record))
        line = int(fields["l"])
        point = points.get(line)
        if point is None:
            continue
        if point.kind == "toggle":
            change = _BIT.search(fields["o"])
            if change is None:
                continue
            bit = "" if change[1] is None else f"[{change[1]}]"
            point = replace(point, detail=f"{point.detail}{bit} {change[2]}")
            if (index := int(change[1] or 0)) in constant[line]:
                ways[line, index] += number != "0"  # one way is how it becomes what it is
                if ways[line, index] > 1:
                    raise ValueError(f"Synthesis takes a bit for a constant that changes: {point}")
                continue
        counts[point] += int(number)
    for statement, branches in line_points(source).items():
        counts[statement] += sum(counts[each] for each in branches) if branches else 1
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
