"""Figures of the pages: each stands in a committed output, or has a stated source."""

import csv
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS, RECORDED = ROOT / "docs", ROOT / "docs/recorded"
COMMANDS = tomllib.loads((RECORDED / "commands.toml").read_text())

PAGES = (
    *("README.md", "CONTRIBUTING.md"),
    *(
        f"docs/{name}.md"
        for name in (
            *("index", "tutorial", "networks", "frameworks", "quantizing", "check", "web"),
            *("firmware", "explore"),
            *("architecture", "study", "glossary", "numerics", "recipes", "release"),
            *("silicon", "fpga", "soc", "trust", "exactness", "evaluate", "reading"),
        )
    ),
    *(f"docs/learn/{path.name}" for path in (ROOT / "docs/learn").glob("*.md")),
)
"""Pages that people write; those that a script writes whole are compared with it."""

FIGURE = re.compile(r"(?<![\w.,/#-])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+)(?![\w]|[.,]\d)")
"""A number of four digits or more, or with decimals; not a version within a word or a link."""

WRITTEN = re.compile(
    r"<!-- tables?: .*?<!-- end -->|<!-- written by .*?<!-- end of .*?-->", re.DOTALL
)
ONCE = re.compile(r"<!-- once: (?P<source>[^>]*) -->.*?<!-- end of once -->", re.DOTALL)
"""A table that takes too long to measure for each version; the marker says what measured it."""

EXAMPLES = re.compile(r"<!-- \[\[\[cog.*?\[\[\[end\]\]\] -->", re.DOTALL)
LINK = re.compile(r"\]\([^)]*\)|`[^`\n]+`")
TABLES = ("sw/tpulite/parts.csv", "tb/coverage.csv", "tb/system/silicon_budgets.csv")
SCRIPTS_PAGES = ("bench", "ablation", "dashboard", "zoo", "conformance", "reached", "isa")


def figures_of_outputs() -> set[str]:
    """Return all figures of committed outputs: of commands, and of pages that scripts write."""
    texts = [path.read_text() for path in RECORDED.glob("*.txt")]
    texts += [(DOCS / f"{name}.md").read_text() for name in SCRIPTS_PAGES]
    texts += [x for path in DOCS.rglob("*.md") for x in WRITTEN.findall(path.read_text())]
    texts += [x for path in DOCS.rglob("*.md") for x in EXAMPLES.findall(path.read_text())]
    tables = "".join((ROOT / name).read_text() for name in TABLES)
    numbers = {f"{int(digits):,}" for digits in re.findall(r"\b\d{4,}\b", tables)}
    return numbers.union(*map(FIGURE.findall, (*texts, tables)))


def stated() -> set[tuple[str, str]]:
    """Return the pages and figures that docs/recorded/stated.csv gives a source for."""
    with (RECORDED / "stated.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(row["source"] for row in rows)
    return {(row["page"], figure) for row in rows for figure in row["figure"].split()}


def figures_of_page(page: str) -> set[str]:
    text = (ROOT / page).read_text()
    for each in (ONCE, EXAMPLES, WRITTEN, LINK):
        text = each.sub("", text)
    return set(FIGURE.findall(text))


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_comes_from_an_output(page):
    known = figures_of_outputs() | {figure for where, figure in stated() if where == page}
    assert sorted(figures_of_page(page) - known) == []


def test_every_stated_figure_is_in_its_page():
    assert [(x, y) for x, y in sorted(stated()) if y not in figures_of_page(x)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_table_measured_once_names_what_measured_it(page):
    text = (ROOT / page).read_text()
    assert text.count("<!-- once") == len(sources := ONCE.findall(text))
    assert [source for source in sources if "`" not in source] == []


def recorded_cycles(config: str) -> dict[str, str]:
    """Return the cycles of each workload in the recorded output of ``tpulite bench``."""
    lines = (RECORDED / f"bench-{config}.txt").read_text().splitlines()
    rows = (line.split() for line in lines)
    return {row[0]: row[2] for row in rows if len(row) > 6 and row[0] != "workload"}


def rows_of(page: str, first: str) -> list[list[str]]:
    """Return the rows of the page's tables whose first cell begins so, as cells."""
    lines = (DOCS / page).read_text().splitlines()
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [row for row in rows if row[0].startswith(first) and len(row) > 1]


@pytest.mark.parametrize(
    ("title", "workload"),
    [
        ("ResNet-8", "resnet8"),
        ("keywords", "kws"),
        ("visual wake words", "vww"),
        ("anomaly detection", "ad"),
    ],
)
def test_latencies_on_parts_are_recorded_cycles_over_the_recorded_clock(title, workload):
    with (ROOT / "sw/tpulite/parts.csv").open() as file:
        clocks = {row["config"]: row["fmax_mhz"] for row in csv.DictReader(file)}
    header, row = rows_of("fpga.md", "network")[0], rows_of("fpga.md", title)[0]
    for config, at in (("ecp5-25", 1), ("ecp5-45", 3), ("ecp5-85", 5)):
        cycles = recorded_cycles(config)[workload]
        ms = int(cycles.replace(",", "")) / float(clocks[config]) / 1000
        assert header[at : at + 2] == [f"`{config}`, cycles", f"ms at {clocks[config]} MHz"]
        assert row[at] == cycles
        assert row[at + 1] == f"{ms:#.3g}".rstrip(".")


@pytest.mark.parametrize(("title", "workload"), [("ResNet-8", "resnet8"), ("keywords", "kws")])
def test_cycles_of_fewer_lanes_are_compared_with_those_recorded(title, workload):
    [row] = rows_of("fpga.md", f"{title}, cycles (N x N")
    cells = (
        (few, full) for few, full in zip(("25", "45", "85"), ("4x4", "8x8", "8x8"), strict=True)
    )
    assert row[2:] == [
        f"{recorded_cycles(f'ecp5-{few}')[workload]} ({recorded_cycles(full)[workload]})"
        for few, full in cells
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[] if entry.get("quick") else [pytest.mark.regress("half a minute each")]
        )
        for name, entry in COMMANDS.items()
        if not entry.get("timed")
    ],
)
def test_commands_print_what_is_recorded(name):
    command = [sys.executable, ROOT / "scripts/recorded.py", "--check", name]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
