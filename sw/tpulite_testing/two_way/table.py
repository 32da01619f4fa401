"""A table of cycles on both roads, its file, its summary, and what became worse."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpulite.atomic import write_whole
from tpulite.golden.timing import predict_cycles
from tpulite.program import Program
from tpulite_testing.two_way.cases import Pair

__all__ = ["PATH", "SUMMARY_PATH", "Row", "measure", "read_rows", "summary", "worse", "write_rows"]

PATH = Path(__file__).resolve().parents[2] / "tests" / "bind" / "two_way.csv"
"""The table that is recorded."""

SUMMARY_PATH = PATH.with_suffix(".txt")
"""What :func:`summary` says of it."""

_COLUMNS = ("machine", "layer", "shape", "compiled", "bound", "ratio")

_CLOSE = 1.02
"""Ratios up to this, or down to its reciprocal, are close."""

_WORSE = 1.001
"""A ratio may move away from 1 by this factor."""


@dataclass(frozen=True)
class Row:
    """Cycles of a network at a shape, on both roads."""

    #: See :attr:`Pair.key`.
    machine: str
    layer: str
    shape: str
    #: Cycles of the program that is compiled for the shape, and of the one that is bound to it;
    #: None if it is refused.
    compiled: int | None
    bound: int | None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells rows apart."""
        return self.machine, self.layer, self.shape

    @property
    def family(self) -> str:
        """The first part of the layer's name."""
        return self.layer.partition("/")[0]

    @property
    def ratio(self) -> float | None:
        """Compiled by bound; None if one of them is refused."""
        return self.compiled / self.bound if self.compiled and self.bound else None

    @property
    def distance(self) -> float:
        """The ratio or its reciprocal, whichever is at least 1; 1 without a ratio."""
        return max(self.ratio, 1 / self.ratio) if self.ratio else 1.0

    def line(self) -> str:
        """Return the row in a line."""
        ratio = f", {self.ratio:.4f}" if self.ratio else ""
        numbers = f"compiled {_text(self.compiled)}, bound {_text(self.bound)}"
        return f"{self.machine} {self.layer} {self.shape}: {numbers}{ratio}"


def _text(cycles: int | None) -> str:
    return "refused" if cycles is None else f"{cycles:,}"


def measure(pair: Pair) -> Row:
    """Compile on both roads.

    Raises
    ------
    RuntimeError
        If a network of the zoo is not to be had.
    """
    return Row(*pair.key, *(_cycles(make) for make in (pair.compiled, pair.bound)))


def _cycles(make: Callable[[], Program]) -> int | None:
    try:
        program = make()
    except ValueError:
        return None
    return predict_cycles(program.commands, program.config)


def read_rows() -> dict[tuple[str, str, str], Row]:
    """Return the recorded rows by their keys."""
    with PATH.open(newline="") as file:
        rows = [
            Row(
                row["machine"],
                row["layer"],
                row["shape"],
                *(int(row[road]) if row[road] else None for road in ("compiled", "bound")),
            )
            for row in csv.DictReader(file)
        ]
    return {row.key: row for row in rows}


def write_rows(rows: Iterable[Row]) -> None:
    """Record rows, in their order, and the summary."""
    rows, text = list(rows), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        ratio = f"{row.ratio:.4f}" if row.ratio else ""
        writer.writerow((*row.key, row.compiled, row.bound, ratio))
    for path, content in ((PATH, text.getvalue()), (SUMMARY_PATH, summary(rows))):
        write_whole(path, lambda temporary, content=content: temporary.write_text(content))


def summary(rows: Iterable[Row]) -> str:
    """Say for layers and for networks how far the roads are from each other, in both directions."""
    rows = list(rows)
    groups = {"single layers": ("layer", "drawn"), "networks": ("network", "zoo")}
    lines = []
    for title, families in groups.items():
        chosen = [row for row in rows if row.family in families]
        slower = [row for row in chosen if row.ratio and row.ratio > 1]
        faster = [row for row in chosen if row.ratio and row.ratio < 1]
        lines.append(f"{title}: {len(chosen)}, on {len({row.machine for row in chosen})} machines")
        lines += _direction("the bound program is faster", slower)
        lines += _direction("the compiled program is faster", faster)
        lines += [f"  refused: {row.line()}" for row in chosen if row.ratio is None]
    return "\n".join(lines) + "\n"


def _direction(title: str, rows: list[Row]) -> list[str]:
    """Count the rows of a direction, and name the worst one."""
    far = sum(row.distance > _CLOSE for row in rows)
    lines = [f"  {title} in {len(rows)}, by more than {_CLOSE - 1:.0%} in {far}"]
    if rows:
        lines.append(f"    worst: {max(rows, key=lambda row: row.distance).line()}")
    return lines


def worse(recorded: Mapping[tuple[str, str, str], Row], rows: Iterable[Row]) -> list[str]:
    """Return what became worse, a line each: ratios farther from 1, and what is refused anew."""
    found = []
    for row in rows:
        before = recorded[row.key]
        refused = any(
            was is not None and now is None
            for was, now in ((before.compiled, row.compiled), (before.bound, row.bound))
        )
        if refused or row.distance > before.distance * _WORSE:
            found.append(f"{row.line()}; recorded: {before.line().partition(': ')[2]}")
    return found
