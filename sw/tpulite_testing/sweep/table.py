"""The table of the sweep: its file, and what became worse."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from tpulite.atomic import write_whole
from tpulite.bench.measured import OperatorRecord

__all__ = ["PATH", "Key", "read_rows", "worse", "write_rows"]

PATH = Path(__file__).resolve().parents[2] / "tests" / "sweep" / "operators.csv"
"""The table that is recorded."""

Key = tuple[str, str, str, str]

_COLUMNS = (
    *("machine", "operator", "mode", "shape", "cycles", "multipliers", "vectors", "dram"),
    *("ratio", "on the CPU"),
)


def read_rows() -> dict[Key, OperatorRecord]:
    """Return the recorded rows by their keys."""
    if not PATH.exists():
        return {}
    with PATH.open(newline="") as file:
        rows = [_parse(row) for row in csv.DictReader(file)]
    return {row.key: row for row in rows}


def _parse(row: dict[str, str]) -> OperatorRecord:
    machine, operator, mode, shape = (row[name] for name in _COLUMNS[:4])
    cycles, *parts = (int(row[name]) for name in _COLUMNS[4:8])
    multipliers, vectors, dram = parts
    key = (machine, operator, mode, shape)
    return OperatorRecord(*key, cycles, multipliers, vectors, dram, row["on the CPU"])


def write_rows(rows: Iterable[OperatorRecord]) -> None:
    """Record rows, in their order."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        figures = (row.cycles, row.multipliers, row.vectors, row.dram)
        writer.writerow((*row.key, *figures, ratio, row.host))
    PATH.parent.mkdir(parents=True, exist_ok=True)
    write_whole(PATH, lambda temporary: temporary.write_text(text.getvalue()))


def worse(recorded: Mapping[Key, OperatorRecord], rows: Iterable[OperatorRecord]) -> list[str]:
    """Return what became worse, a line each: more cycles, or more on the CPU."""
    found = []
    for row in rows:
        before = recorded[row.key]
        moved = set(row.host.split()) - set(before.host.split())
        if moved or (row.cycles > before.cycles and row.host == before.host):
            found.append(f"{row.line()}; recorded: {before.line().partition(': ')[2]}")
    return found
