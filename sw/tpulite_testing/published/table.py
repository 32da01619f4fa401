"""The table of published networks, and its page."""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tpulite.atomic import write_whole
from tpulite.bench.measured import NetworkRecord
from tpulite_testing.published.catalog import NETWORKS

__all__ = ["PATH", "Row", "page", "read_rows", "worse", "write_rows"]

PATH = Path(__file__).resolve().parents[2] / "tests" / "sweep" / "published.csv"
"""The table that is recorded."""

_COLUMNS = (
    *("network", "macs", "cycles", "layers", "bound", "ratio", "on the CPU"),
    *("Vela", "Vela on the CPU"),
)

_INTRODUCTION = """# Published networks

Networks as their papers describe them, as int8 TFLite files with random weights
(`sw/tpulite_testing/published`): cycles depend on layers and shapes, not on training. They are
compiled with default options for 16x16 with the reference memory, and measured with the
[cycle model](decisions/0004-the-cycle-model.md).

- **layers**: cycles if the layers ran one after the other, each at its
  [bound](operator-bounds.md): the largest of multipliers, vector path and weights, with
  activations on chip
- **ratio**: cycles / layers; it can be below 1, because layers overlap
- **bound**: cycles if all layers overlapped
- **on the CPU**: operators that tpulite leaves to the CPU, whose cycles are not counted
- **Ethos-U85-256**: what Arm's compiler Vela 5.2 estimates for the same file with its default
  system (`pip install ethos-u-vela`, then `python scripts/published.py --write --vela vela`), and
  how many operators it leaves to the CPU, whose cycles it does not count

`make published WRITE=1` writes this page and its table, `sw/tests/sweep/published.csv`;
`tpulite bench --published PATTERN` measures the networks that match, on any machine.
"""


@dataclass(frozen=True)
class Row:
    """A network, and what Vela estimates for the same file."""

    record: NetworkRecord
    vela: int | None = None
    vela_host: int = 0


def read_rows() -> dict[str, Row]:
    """Return the recorded rows by their names."""
    if not PATH.exists():
        return {}
    with PATH.open(newline="") as file:
        return {row["network"]: _parse(row) for row in csv.DictReader(file)}


def _parse(row: Mapping[str, str]) -> Row:
    figures = (int(row[name]) for name in _COLUMNS[1:5])
    record = NetworkRecord(row["network"], *figures, host=row["on the CPU"])
    vela = int(row["Vela"]) if row["Vela"] else None
    return Row(record, vela, int(row["Vela on the CPU"] or 0))


def write_rows(rows: Iterable[Row]) -> None:
    """Record rows, in the order of the catalog."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    by_name = {row.record.network: row for row in rows}
    for row in (by_name[name] for name in NETWORKS if name in by_name):
        it = row.record
        vela = ("", "") if row.vela is None else (row.vela, row.vela_host)
        figures = (it.macs, it.cycles, it.layers, it.bound, f"{it.ratio:.2f}")
        writer.writerow((it.network, *figures, it.host, *vela))
    write_whole(PATH, lambda temporary: temporary.write_text(text.getvalue()))


def worse(recorded: Mapping[str, Row], records: Iterable[NetworkRecord]) -> list[str]:
    """Return what became worse, a line each: more cycles, or more on the CPU."""
    found = []
    for now in records:
        before = recorded[now.network].record
        moved = set(now.host.split()) - set(before.host.split())
        if moved or (now.cycles > before.cycles and now.host == before.host):
            where = f", on the CPU: {now.host}" if now.host else ""
            found.append(f"{now.network}: {now.cycles:,} cycles{where}; were {before.cycles:,}")
    return found


def page(rows: Iterable[Row]) -> str:
    """Return docs/published.md."""
    rows = list(rows)
    ratios = [row.record.ratio for row in rows]
    worst = max(rows, key=lambda row: row.record.ratio)
    head = (
        *("network", "source", "MACs", "cycles", "layers", "ratio", "bound", "on the CPU"),
        *("Ethos-U85-256", "on the CPU"),
    )
    lines = [_line(head), _line(["---"] * len(head)), *(_line(_cells(row)) for row in rows)]
    summary = (
        f"{len(rows)} networks: the median ratio is {median(ratios):.2f}, the worst "
        f"{worst.record.ratio:.2f} ({worst.record.network})."
    )
    return f"{_INTRODUCTION}\n{summary}\n\n{''.join(lines)}"


def _cells(row: Row) -> list[str]:
    it, made = row.record, NETWORKS[row.record.network]
    source, _, _ = (made.__doc__ or "").partition("\n")
    return [
        f"`{it.network}`",
        source.removeprefix("Build ").rstrip("."),
        *(f"{n:,}" for n in (it.macs, it.cycles, it.layers)),
        f"{it.ratio:.2f}",
        f"{it.bound:,}",
        it.host,
        "" if row.vela is None else f"{row.vela:,}",
        str(row.vela_host or ""),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
