"""What each block may take: a table that only a decision changes."""

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

__all__ = ["Budget", "excesses", "read_budgets", "write_budgets"]

_PATH = 0.03, 1.0
_GATES = 0.02, 20.0
"""Growth that is noise, in parts and in FO4 or gates: a small edit makes synthesis choose anew."""


@dataclass(frozen=True)
class Budget:
    """Longest path that ends in a block, in FO4, and gates of all its instances."""

    block: str
    fo4: float
    gates: int


def excesses(report: dict, budgets: Sequence[Budget]) -> list[str]:
    """Return a line for each block of a report that takes more than its budget, or has none."""
    allowed = {budget.block: budget for budget in budgets}
    lines = []
    for block in report["blocks"]:
        name = block["name"]
        if name not in allowed:
            lines.append(f"{name} has no budget: {block['fo4']} FO4, {block['gates']:,} gates")
            continue
        if block["fo4"] > _limit(allowed[name].fo4, _PATH):
            lines.append(
                f"{name}: a path of {block['fo4']} FO4, {allowed[name].fo4} is its budget, "
                f"from {block['start']} to {block['end']}"
            )
        if block["gates"] > _limit(allowed[name].gates, _GATES):
            lines.append(f"{name}: {block['gates']:,} gates, {allowed[name].gates:,} is its budget")
    return lines


def write_budgets(report: dict) -> str:
    """Return the table in which each block may take what it takes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Budget))
    for block in sorted(report["blocks"], key=lambda block: block["name"]):
        writer.writerow(astuple(Budget(block["name"], block["fo4"], block["gates"])))
    return text.getvalue()


def read_budgets(text: str) -> list[Budget]:
    """Return the rows of a table."""
    rows = csv.DictReader(io.StringIO(text))
    return [Budget(row["block"], float(row["fo4"]), int(row["gates"])) for row in rows]


def _limit(budget: float, noise: tuple[float, float]) -> float:
    return budget * (1 + noise[0]) + noise[1]
