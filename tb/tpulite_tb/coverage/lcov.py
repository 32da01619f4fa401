"""Coverage as a trace file of lcov, which ``genhtml``, editors and services for reviews read."""

from collections import defaultdict
from pathlib import Path

import tpulite_rtl
from tpulite_tb.coverage.counts import Counts
from tpulite_tb.coverage.points import Point

__all__ = ["write_lcov"]

_RTL = Path(tpulite_rtl.__file__).parent


def write_lcov(counts: Counts, path: Path) -> None:
    """Write lines and branches; lcov knows no toggles."""
    files: dict[str, list[Point]] = defaultdict(list)
    for point in sorted(counts):
        if point.kind in ("line", "branch"):
            files[point.file].append(point)
    rows: list[str] = []
    for file, points in files.items():
        rows += ["TN:", f"SF:{_RTL / file}"]
        branches: dict[int, int] = defaultdict(int)
        for point in points:
            if point.kind == "line":
                rows.append(f"DA:{point.line},{counts[point]}")
            else:
                rows.append(f"BRDA:{point.line},0,{branches[point.line]},{counts[point]}")
                branches[point.line] += 1
        rows.append("end_of_record")
    path.write_text("\n".join(rows) + "\n")
