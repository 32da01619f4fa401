"""What ``check`` says: figures beside those of the baseline."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from tpulite.report.baseline import Baseline, Figure, Verdict

_COLORS = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.ALLOWED: "yellow"}


def compared_table(figures: Sequence[Figure]) -> Table:
    """Return a row for each figure, with its verdict."""
    some = any(each.allowed.value for each in figures)
    table = _table("baseline", "now", "change", *(["allowed"] if some else []))
    table.add_column("verdict", no_wrap=True)
    for each in figures:
        values = [each.text(each.baseline), each.text(each.found), each.change]
        if some:
            values.append(str(each.allowed) if each.allowed.value else "")
        verdict = each.verdict
        style = _COLORS.get(verdict)
        table.add_row(each.title, *values, f"[{style}]{verdict}[/]" if style else verdict)
    return table


def figures_table(figures: Mapping[str, float]) -> Table:
    """Return a row for each figure of a new baseline."""
    table = _table("now")
    for name, value in figures.items():
        figure = Figure(name, value, value)
        table.add_row(figure.title, figure.text(value))
    return table


def verdict_lines(path: Path, before: Baseline, figures: Sequence[Figure]) -> Iterator[str]:
    """Yield what is said below the table."""
    counts = [(x, sum(each.verdict == x for each in figures)) for x in Verdict]
    said = ", ".join(f"{count} {x}" for x, count in counts if count)
    yield f"{path} (tpulite {before.version}): {said}"
    if any(each.verdict == Verdict.BETTER for each in figures):
        yield "--update keeps what is better"


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("figure", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table
