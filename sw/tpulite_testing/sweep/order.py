"""What a table of cycles must not have: more cycles for less work, or for more memory."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tpulite.bench.measured import OperatorRecord as Row
from tpulite_testing.sweep.cases import cases
from tpulite_testing.sweep.table import PATH

__all__ = ["KNOWN_PATH", "Inversion", "inversions", "read_known"]

KNOWN_PATH: Path = PATH.with_name("known.csv")
"""Inversions that are known, each with a reason; the list may only become shorter."""


@dataclass(frozen=True)
class Inversion:
    """A row that takes more cycles than another one, and must not."""

    more: Row  #: A smaller problem, or the same one on a machine with a larger buffer.
    less: Row  #: What contains it, or a machine with a smaller buffer.

    @property
    def key(self) -> tuple[str, str]:
        """Both rows, as in the list of those that are known."""
        return " ".join(self.more.key), " ".join(self.less.key)

    def line(self) -> str:
        """Return it in a line."""
        more, less = self.key
        return f"{more} takes {self.more.cycles:,} cycles, {less} only {self.less.cycles:,}"


def inversions(rows: Iterable[Row]) -> list[Inversion]:
    """Return for each row that takes too many cycles the one that shows it best.

    Rows with a part on the CPU are left out.
    """
    whole = [row for row in rows if not row.host]
    found = []
    for group in _groups(whole):
        for row in group:
            others = [x for x in group if x.cycles < row.cycles and _should_be_more(x, row)]
            if others:
                found.append(Inversion(row, min(others, key=lambda x: (x.cycles, x.key))))
    return found


def _groups(rows: list[Row]) -> Iterable[list[Row]]:
    """Return rows that may be compared: of one form, or of one case."""
    forms: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    same: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        case = cases().get(row.key[1:])
        if case is not None:
            forms[row.machine, row.operator, row.mode, case.form].append(row)
        same[row.key[1:]].append(row)
    return [*forms.values(), *(group for group in same.values() if len(group) > 1)]


def _should_be_more(large: Row, small: Row) -> bool:
    if large.key[1:] == small.key[1:]:
        return _buffer(large) < _buffer(small)
    one, other = (cases()[row.key[1:]].extents for row in (large, small))
    return len(one) == len(other) and all(a >= b for a, b in zip(one, other, strict=True))


def _buffer(row: Row) -> int:
    """Rows of the buffer; that of a machine without a figure is the largest."""
    found = re.search(r"ub_rows=(\d+)", row.machine)
    return int(found[1]) if found else 1 << 30


def read_known() -> dict[tuple[str, str], str]:
    """Return the reasons of inversions that are known."""
    with KNOWN_PATH.open(newline="") as file:
        return {(row["more"], row["less"]): row["reason"] for row in csv.DictReader(file)}
