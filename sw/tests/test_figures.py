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
            *("index", "tutorial", "networks", "frameworks", "check", "web", "firmware", "explore"),
            *("architecture", "study", "glossary", "numerics", "recipes", "release"),
        )
    ),
    *(f"docs/learn/{path.name}" for path in (ROOT / "docs/learn").glob("*.md")),
)
"""Pages that people write; those that a script writes whole are compared with it."""

FIGURE = re.compile(
    r"(?<![\w.,/#-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,])|(?<![\w.,/#-])\d+\.\d+(?![\w.])"
)
"""A number of four digits or more, or with decimals; not a version within a word or a link."""

WRITTEN = re.compile(r"<!-- tables?: .*?<!-- end -->", re.DOTALL)
EXAMPLES = re.compile(r"<!-- \[\[\[cog.*?\[\[\[end\]\]\] -->", re.DOTALL)
LINK = re.compile(r"\]\([^)]*\)|`[^`\n]+`")
SCRIPTS_PAGES = ("bench", "ablation", "dashboard", "zoo", "conformance", "reached", "isa")


def figures_of_outputs() -> set[str]:
    """Return all figures of committed outputs: of commands, and of pages that scripts write."""
    texts = [path.read_text() for path in RECORDED.glob("*.txt")]
    texts += [(DOCS / f"{name}.md").read_text() for name in SCRIPTS_PAGES]
    texts += [x for path in DOCS.rglob("*.md") for x in WRITTEN.findall(path.read_text())]
    texts += [x for path in DOCS.rglob("*.md") for x in EXAMPLES.findall(path.read_text())]
    texts += [(ROOT / "sw/tpulite/parts.csv").read_text()]
    return {figure for text in texts for figure in FIGURE.findall(text)}


def stated() -> set[tuple[str, str]]:
    """Return the pages and figures that docs/recorded/stated.csv gives a source for."""
    with (RECORDED / "stated.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(row["source"] for row in rows)
    return {(row["page"], row["figure"]) for row in rows}


def figures_of_page(page: str) -> set[str]:
    text = (ROOT / page).read_text()
    return set(FIGURE.findall(LINK.sub("", WRITTEN.sub("", EXAMPLES.sub("", text)))))


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_comes_from_an_output(page):
    known = figures_of_outputs() | {figure for where, figure in stated() if where == page}
    assert sorted(figures_of_page(page) - known) == []


def test_every_stated_figure_is_in_its_page():
    assert [(x, y) for x, y in sorted(stated()) if y not in figures_of_page(x)] == []


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
