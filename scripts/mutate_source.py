"""Mutants of the compiler's sources against its tests, by mutmut.

`[tool.mutmut]` in pyproject.toml says which sources and which tests; MODULEs, as
tpulite.compiler.geometry.cut, are tried alone. What became of each mutant is
kept in build/mutate_source, so that an interrupted run goes on. --again tries those again that
live, after tests have changed. --write puts the table, a module a line, into docs/trust.md.
sw/tests/mutants_excused.csv has the reason why one may live:

    module,function,mutated,reason

where `mutated` is what the lines say that the mutant has changed. The exit code is 1 if one lives
that is not excused, or has not been tried.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from contextlib import chdir
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_ROOT = Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / "build/mutate_source"
_EXCUSED = _ROOT / "sw/tests/mutants_excused.csv"
_PAGE = _ROOT / "docs/trust.md"
_BEGIN, _END = "<!-- written by scripts/mutate_source.py -->\n", "<!-- end of the sources -->\n"
_LIVES = (0, 5, 33)  # survived; no tests
_UNTRIED = (None, 2, 34, 35)  # not yet; stopped; skipped; suspicious
_COLUMNS = ("mutants", "tried", "killed", "excused", "lives")


@dataclass
class Row:
    """What became of the mutants of a module."""

    module: str
    mutants: int
    fates: list[int | None]
    excused: int = 0
    lives: list[str] = field(default_factory=list)

    def figures(self) -> list[int]:
        """Return the columns of the table."""
        tried = sum(fate not in _UNTRIED for fate in self.fates)
        lives = len(self.lives)
        return [self.mutants, tried, tried - self.excused - lives, self.excused, lives]


def run(*names: str) -> None:
    """Run mutmut in a folder where `src` is `sw`: on some mutants, or on all not tried yet."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if not (_FOLDER / "src").exists():
        (_FOLDER / "src").symlink_to(_ROOT / "sw")
    shutil.copy(_ROOT / "pyproject.toml", _FOLDER)
    program = [str(Path(sys.executable).parent / "mutmut"), "run", "--max-children", "1", *names]
    # Plugins of pytest that come with packages cost half of a second a mutant.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run(program, cwd=_FOLDER, env=environment, check=True)


def change(name: str, source: Path) -> str:
    """Return the lines that a mutant has instead of those of the source."""
    diff = import_module("mutmut.mutation.diff_apply").get_diff_for_mutant  # not in `dev`
    with chdir(_FOLDER):
        lines = diff(name, path=source).splitlines()
    added = [x[1:].strip() for x in lines if x.startswith("+") and not x.startswith("+++")]
    return " ".join(added)


def rows(modules: list[str]) -> list[Row]:
    """Count what became of all mutants of some modules, or of each."""
    with _EXCUSED.open() as file:
        excused = {(r["module"], r["function"], r["mutated"]) for r in csv.DictReader(file)}
    found = []
    for path in sorted((_FOLDER / "mutants/src").rglob("*.py.meta")):
        fates: dict[str, int | None] = json.loads(path.read_text())["exit_code_by_key"]
        source = path.relative_to(_FOLDER / "mutants").with_suffix("")
        module = ".".join(source.with_suffix("").parts[1:])
        if modules and module not in modules:
            continue
        row = Row(module, len(fates), list(fates.values()))
        for name in (name for name, fate in fates.items() if fate in _LIVES):
            function = name.rpartition(".")[2].partition("__mutmut_")[0]
            function = function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
            if (row.module, function, mutated := change(name, source)) in excused:
                row.excused += 1
            else:
                row.lives.append(name)
                print(f"{row.module},{function},{mutated}\n  {name}")
        found += [row] if fates else []
    return found


def with_total(lines: list[list[str]]) -> list[list[str]]:
    """Return lines of modules, and one with their sums."""
    figures = zip(*(map(int, line[1:]) for line in lines), strict=True)
    return [*lines, ["all", *(str(sum(column)) for column in figures)]]


def write(lines: list[list[str]]) -> None:
    """Write the page's table, where modules that were not tried keep their lines."""
    head, rest = _PAGE.read_text().split(_BEGIN)
    old, tail = rest.split(_END)
    known = [[cell.strip() for cell in row.strip("|").split("|")] for row in old.split("\n") if row]
    kept = {line[0]: line for line in [*known, *lines] if line[0].startswith("tpulite.")}
    marks = ["---", *["---:"] * len(_COLUMNS)]
    table = [["module", *_COLUMNS], marks, *with_total([kept[name] for name in sorted(kept)])]
    text = "\n".join("| " + " | ".join(line) + " |" for line in table)
    _PAGE.write_text(f"{head}{_BEGIN}\n{text}\n\n{_END}{tail}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="whose mutants; default: all")
    parser.add_argument("--again", action="store_true", help="try those again that live")
    parser.add_argument("--look", action="store_true", help="try none, print what became of them")
    parser.add_argument("--write", action="store_true", help="write the table of the page")
    options = parser.parse_args()
    if options.again and (again := [n for row in rows(options.modules) for n in row.lives]):
        run(*again)
    elif not options.look:
        run(*(f"{module}.*" for module in options.modules))
    found = rows(options.modules)
    if not found:
        sys.exit("no mutants: run `make mutate-source` first")
    lines = [[row.module, *map(str, row.figures())] for row in found]
    table = Table(title="Mutants of the compiler's sources", box=SIMPLE_HEAD)
    for name in ("module", *_COLUMNS):
        table.add_column(name, justify="right" if name != "module" else "left")
    for line in with_total(lines):
        table.add_row(*line)
    Console().print(table)
    if options.write:
        write(lines)
    sys.exit(int(any(row.lives or row.figures()[1] < row.mutants for row in found)))


if __name__ == "__main__":
    main()
