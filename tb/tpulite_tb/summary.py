"""Coverage of random programs, summed over all tests of a session and printed at its end."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

__all__ = ["coverage_lines", "random_programs"]

Point = tuple[str, str, str, str]


def random_programs(reports: Iterable[pytest.TestReport]) -> tuple[int, Counter[Point]]:
    """Sum what tests have recorded as ``random_programs`` and ``coverage``.

    Returns
    -------
    programs : int
        Programs that ran.
    coverage : Counter of (opcode, title, value, fault)
        Programs that exercise each point.
    """
    programs = 0
    coverage: Counter[Point] = Counter()
    for report in reports:
        properties = dict(report.user_properties)
        programs += int(str(properties.get("random_programs", 0)))
        for opcode, title, value, fault, count in json.loads(str(properties.get("coverage", "[]"))):
            coverage[opcode, title, value, fault] += count
    return programs, coverage


def coverage_lines(coverage: Counter[Point]) -> list[str]:
    """Return a line for each opcode with each title, and for each opcode with its faults.

    Examples
    --------
    >>> points = Counter({("LOAD", "flip", "yes", "-"): 3, ("LOAD", "-", "-", "BUFFER"): 1})
    >>> coverage_lines(points)
    ['LOAD faults                   BUFFER 1', 'LOAD flip                     yes 3']
    """
    rows: dict[str, list[str]] = defaultdict(list)
    for (opcode, title, value, fault), count in sorted(coverage.items()):
        opcode = "any" if opcode == "-" else opcode
        if fault != "-":
            rows[f"{opcode} faults"].append(f"{fault} {count}")
        else:
            title = opcode if title == "-" else f"{opcode} {title}"
            rows[title].append(f"{value} {count}")
    return [f"{title:<30}{', '.join(points)}" for title, points in rows.items()]
