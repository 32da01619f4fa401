"""The page that shows the table: ratios by operator, and where most cycles are lost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from tpulite.bench.measured import OperatorRecord as Row
from tpulite_testing.sweep.cases import MACHINE, cases
from tpulite_testing.sweep.reasons import FAR, pattern_of, read_reasons

__all__ = ["page", "summary"]

_INTRODUCTION = """# Operators and their bounds

Single operators and small blocks at shapes of published networks, each compiled from a TFLite file
as `tpulite compile` does by default; `make sweep WRITE=1` measures them with the
[cycle model](decisions/0004-the-cycle-model.md) and writes this page and its table,
`sw/tests/sweep/operators.csv`. `tpulite bench --operators PATTERN` measures those that match,
on any machine. Here it is 16x16 with the reference memory.

The **bound** is the largest of three figures for the whole file, and the 150 cycles of a program
that does nothing:

- multipliers: products of real operands / 256; a depthwise convolution multiplies 16 channels by up
  to 16 taps in a cycle
- vector path: 16 elements of operands in a cycle, for what the multipliers cannot do
- DRAM: bytes read, or bytes written if these are more, 16 in a cycle

A **ratio** is cycles / bound. Channels that are no multiple of 16 count against a ratio, because
the bound knows no padding. *Between* is with a 1x1 convolution before and behind the operator.
[Decision 0029](decisions/0029-operators.md) has the causes, and each shape above twice its bound
has a reason (`sw/tests/sweep/reasons.csv`).
"""


def page(rows: Iterable[Row]) -> str:
    """Return docs/operator-bounds.md."""
    rows = [row for row in rows if row.machine == MACHINE]
    whole = [row for row in rows if row.ratio is not None]
    reasons = read_reasons()
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in whole:
        groups[row.operator, row.mode].append(row)
    parts = [
        _INTRODUCTION,
        f"{summary(rows)}{_missing(len(rows))}\n",
        "## By operator\n",
        _table(
            "operator|mode|shapes|median|above 2|worst ratio|its shape|cycles|bound",
            (_group(*key, groups[key]) for key in sorted(groups)),
        ),
        "## Above twice the bound\n",
        _table(
            "operator|mode|shape|cycles|bound|ratio|lost|bound by|why",
            (
                _far(row, reasons)
                for row in sorted(whole, key=lambda x: -x.lost)
                if _ratio(row) > FAR
            ),
        ),
    ]
    if hosted := [(row.operator, row.mode, row.shape, row.host) for row in rows if row.host]:
        parts += ["## Partly on the CPU\n", _table("operator|mode|shape|on the CPU", hosted)]
    return "\n".join(parts)


def summary(rows: Iterable[Row]) -> str:
    """Return what the table says in a line or two."""
    rows = list(rows)
    ratios = [_ratio(row) for row in rows if not row.host]
    if not ratios:
        return f"{len(rows)} shapes."
    worst = max((row for row in rows if not row.host), key=_ratio)
    far = sum(ratio > FAR for ratio in ratios)
    hosted = len(rows) - len(ratios)
    return (
        f"{len(rows)} shapes{f', {hosted} of them partly on the CPU' if hosted else ''}: "
        f"the median ratio is {median(ratios):.2f}, {far} are above {FAR:g}, and the worst is\n"
        f"{_ratio(worst):.2f}, {worst.operator} {worst.mode} {worst.shape}."
    )


def _missing(recorded: int) -> str:
    missing = len(cases()) - recorded
    if not missing:
        return ""
    return (
        f"\n{missing} more shapes of the sweep are not recorded yet "
        "(`python scripts/sweep.py --write --missing`)."
    )


def _ratio(row: Row) -> float:
    return row.cycles / row.bound


def _group(operator: str, mode: str, rows: Sequence[Row]) -> Sequence[str]:
    worst = max(rows, key=_ratio)
    return (
        operator,
        mode,
        str(len(rows)),
        f"{median(map(_ratio, rows)):.2f}",
        str(sum(_ratio(row) > FAR for row in rows)),
        f"{_ratio(worst):.2f}",
        worst.shape,
        f"{worst.cycles:,}",
        f"{worst.bound:,}",
    )


def _far(row: Row, reasons: Mapping[str, str]) -> Sequence[str]:
    parts = {"multipliers": row.multipliers, "vector path": row.vectors, "DRAM": row.dram}
    return (
        row.operator,
        row.mode,
        row.shape,
        f"{row.cycles:,}",
        f"{row.bound:,}",
        f"{_ratio(row):.2f}",
        f"{row.lost:,}",
        max(parts, key=lambda name: parts[name]),
        reasons.get(pattern_of(row, reasons) or "", ""),
    )


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    columns = head.split("|")
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
