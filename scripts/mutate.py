"""Mutants of the RTL against the benches of its components, then against the solver.

A mutant is one small change of one bit of a cell, by Yosys. A bench that fails kills it. One that
lives meets the benches of the components inside, in all their sizes, in the cell that it is in. Of
one that still lives the solver says whether it is a mutant at all: whether its module ever gives
another output, and what is around that, up to the component. `chip` is the whole chip, in its
smallest size, against random programs, networks, faults and resets. What became of each is kept in
build/mutate/BENCH.DIGEST.jsonl, so that an interrupted run goes on (tpulite_tb.campaign has the
format). --write puts the newest campaign of each bench, a line each, into tb/unit/mutants.csv

    bench,component,drawn,tried,killed,equivalent,excused,lives,undecided

of which docs/trust.md has the table. tb/unit/mutants_excused.csv has the reason why one may live.
The exit code is 1 if one lives that is neither equivalent nor excused, and 2 if a bench fails
without a mutant.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pytest
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tpulite_formal.equivalence import differ
from tpulite_tb.campaign import Campaign, campaigns
from tpulite_tb.mutants import BENCH, BITS, CHIP, NAME, is_constant_kept
from tpulite_verilated.toolchain import build_root

_ROOT = Path(__file__).resolve().parents[1]
_UNIT, _RTL = _ROOT / "tb/unit", _ROOT / "rtl/tpulite_rtl"
_TABLE, _EXCUSED = _UNIT / "mutants.csv", _UNIT / "mutants_excused.csv"
_PAGE = _ROOT / "docs/trust.md"
_BEGIN, _END = "<!-- written by scripts/mutate.py --write -->\n", "<!-- end of mutants -->\n"
_LOOK_SECONDS = 5
_ALSO = {
    "matrix_unit": ("depthwise_layer",),
    "vector_engine": ("vector_faults", "vector_cycles", "vector_conflicts"),
}
"""Benches that are not called after a component, of which each has the machine of another one."""


@dataclass(frozen=True)
class Row:
    """What became of the mutants of a component; `excused` ones live, for a written reason."""

    bench: str
    component: str
    drawn: int
    tried: int
    killed: int
    equivalent: int
    excused: int
    lives: int
    undecided: int


def benches() -> list[str]:
    """Return the benches that are called after components, by the names of their files."""
    files = (path for path in sorted(_UNIT.glob("test_*.py")) if "simulate(" in path.read_text())
    names = [path.stem.removeprefix("test_") for path in files]
    others = {name for names in _ALSO.values() for name in names}
    return [name for name in names if not name.startswith("tb_") and name not in others]


def attack(bench: str, size: str, count: int, most: int, *, again: bool) -> bool:
    """Run a bench, in a size or its first, against mutants; tell whether it passes without one."""
    wanted = {"": count, "_MOST": most, "_AGAIN": int(again)}
    environment = {f"TPULITE_MUTANTS{name}": str(value) for name, value in wanted.items()}
    environment[BENCH] = bench
    every_size = {"TPULITE_REGRESS": "1"}
    own = [*_pytest([bench]), "-k", f"verilator-{size}" if size else "verilator"]
    if bench == CHIP:
        own = ["tpulite_tb.chip_mutants"]
    if not _passes(bench, own, environment | (every_size if size else {})):
        return False
    others = inside(bench)
    environment |= every_size | {"SIM": "verilator"}
    return not others or _passes(bench, _pytest(others), environment)


def inside(bench: str) -> list[str]:
    """Return the benches of the components in the one of a bench that has been attacked."""
    folder = dict(campaigns())[bench].folder
    sources = set(re.findall(r"(\w+)\.py:", (folder / "cells.il").read_text()))
    named = [name for name in benches() if name in sources]
    found = [*named, *(also for name in named for also in _ALSO.get(name, ()))]
    return [name for name in found if name != bench]


def _pytest(names: list[str]) -> list[str]:
    """Return what runs benches, in the same process."""
    files = [str(_UNIT / f"test_{name}.py") for name in names]
    return ["pytest", "-q", "-n", "0", "--no-header", *files]


def _passes(bench: str, program: list[str], environment: dict[str, str]) -> bool:
    """Run a module of Python, show what becomes of mutants, and tell whether it ends well."""
    command = [sys.executable, "-m", *program]
    with subprocess.Popen(
        command,
        cwd=_ROOT,
        env={**os.environ, "COCOTB_RANDOM_SEED": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        while True:
            try:
                output, _none = process.communicate(timeout=_LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if campaign := dict(campaigns()).get(bench):
                    counts = Counter(fate["fate"] for fate in campaign.fates.values())
                    print(f"\r{bench}: {dict(counts)}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 78 + "\r", end="", file=sys.stderr)
    if process.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        print(f"mutate.py: error: no test of {bench} has this size", file=sys.stderr)
        sys.exit(2)
    if process.returncode:
        print(f"{output}The bench of {bench} fails without a mutant", flush=True)
    return not process.returncode


def decide(bench: str, campaign: Campaign, seconds: int) -> None:
    """Ask the solver about mutants that live."""
    folder = build_root() / "mutate" / "miter" / bench  # of which several may run at once
    known = {n for n, fate in campaign.fates.items() if fate["fate"] != "survived"}
    large = {"dut"} if bench == CHIP else set()
    for number in sorted(set(campaign.fates) - known):
        place = campaign.mutants[number - 1]
        if is_constant_kept(campaign.folder, place):
            campaign.note(number=number, fate="equivalent", by="constant")
            continue
        fate, cycles = "undecided", 0
        for top in _around(place.module):
            if top in large:
                break
            try:
                source = campaign.folder / "mutated.il"
                verdict = differ(source, folder, NAME, BITS, number, seconds, top=top)
            except TimeoutError:
                large.add(top)
                break
            cycles = verdict.cycles
            if verdict.status == "never":
                fate = "equivalent"
            elif verdict.status == "high" and top == "dut":
                fate = "lives"
            if verdict.status != "high":  # it differs there: does what is around show it?
                break
        if place.clocked:
            fate = "undecided"  # the solver has no clock
        campaign.note(number=number, fate=fate, by="solver", cycles=cycles)
        if fate != "equivalent":
            after = f" after {cycles} cycles" if fate == "lives" else ""
            print(f"  {number}: {place.change}, {place.place}: {fate}{after}", flush=True)
    campaign.read()


def _around(module: str) -> list[str]:
    """Return a module and those that it is in, from the inside."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def excuses() -> dict[tuple[str, str, int], str]:
    """Return why mutants may live: by bench, digest of its component and number."""
    if not _EXCUSED.exists():
        return {}
    with _EXCUSED.open() as file:
        rows = list(csv.DictReader(file))
    return {(row["bench"], row["digest"], int(row["number"])): row["reason"] for row in rows}


def component_of(bench: str, module: str) -> str:
    """Return the component of a bench; one that is inside of the bench's own has its name."""
    if module.startswith(_RTL.name):
        return module.removeprefix(f"{_RTL.name}.")
    (path,) = _RTL.rglob(f"{bench}.py")
    return ".".join(path.relative_to(_RTL).with_suffix("").parts)


def row(bench: str, size: str, campaign: Campaign) -> Row:
    """Count what became of a component's mutants, in a size of its bench or in the first one."""
    reasons, digest = excuses(), campaign.folder.name[:12]
    counts: Counter[str] = Counter()
    for number, fate in campaign.fates.items():
        excused = fate["fate"] != "killed" and (bench, digest, number) in reasons
        counts["excused" if excused else fate["fate"]] += 1
    return Row(
        bench=f"{bench} {size}".strip(),
        component=component_of(bench, campaign.component),
        drawn=len(campaign.mutants),
        tried=len(campaign.fates),
        killed=counts["killed"],
        equivalent=counts["equivalent"],
        excused=counts["excused"],
        lives=counts["lives"],
        undecided=counts["undecided"] + counts["survived"],
    )


def table(rows: list[Row]) -> Table:
    """Return the table for the terminal."""
    table = Table(title="Mutants of the RTL", box=SIMPLE_HEAD)
    table.add_column("bench", overflow="fold")
    for name in ("tried", "killed", "equivalent", "excused", "lives", "undecided"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in rows:
        figures = (r.tried, r.killed, r.equivalent, r.excused, r.lives, r.undecided)
        style = "bold red" if r.lives else ""
        table.add_row(r.bench, *map(str, figures), style=style)
    return table


def write(rows: list[Row]) -> None:
    """Write the committed table, and the page's; benches that have not run keep their lines."""
    names = [field.name for field in fields(Row)]
    kept = {r.bench: {k: str(v) for k, v in asdict(r).items()} for r in rows}
    if _TABLE.exists():
        with _TABLE.open() as file:
            kept = {old["bench"]: old for old in csv.DictReader(file)} | kept
    places = {bench: place for place, bench in enumerate([*benches(), CHIP])}
    found = [name for name in kept if name.partition(" ")[0] in places]
    ordered = [kept[n] for n in sorted(found, key=lambda n: (places[n.partition(" ")[0]], n))]
    with _TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(ordered)
    shown = [name for name in names if name not in ("component", "drawn")]
    lines = ["| " + " | ".join(shown) + " |", "| --- |" + " ---: |" * (len(shown) - 1)]
    lines += ["| " + " | ".join(r[name] for name in shown) + " |" for r in ordered]
    total = [str(sum(int(r[name]) for r in ordered)) for name in shown[1:]]
    lines.append("| all | " + " | ".join(total) + " |")
    text = _PAGE.read_text()
    head, rest = text.split(_BEGIN)
    _PAGE.write_text(head + _BEGIN + "\n" + "\n".join(lines) + "\n\n" + _END + rest.split(_END)[1])


def main() -> None:
    """Run the command line."""
    known = [*benches(), CHIP]
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    names = ", ".join(known)
    parser.add_argument("benches", nargs="+", help=f"all of components, or some of: {names}")
    parser.add_argument("--size", default="", help="the size of the bench, as its test names it")
    parser.add_argument("--count", type=int, default=200, help="mutants drawn of each component")
    parser.add_argument("--most", type=int, default=0, help="mutants tried of each; all by default")
    parser.add_argument("--again", action="store_true", help="try those again that lived")
    parser.add_argument("--solver", type=int, default=30, help="its seconds; 0: do not ask it")
    parser.add_argument("--write", action="store_true", help=f"write {_TABLE.name} and the page")
    options = parser.parse_args()
    chosen = benches() if options.benches == ["all"] else options.benches
    if wrong := set(chosen) - set(known):
        parser.error(f"no bench named {', '.join(sorted(wrong))}; there are {names}")
    if options.size and CHIP in chosen:
        parser.error(f"{CHIP} has one size")

    rows, failing, size = [], [], options.size
    for bench in chosen:
        if not attack(bench, size, options.count, options.most, again=options.again):
            failing.append(bench)
            continue
        campaign = dict(campaigns())[bench]
        if options.solver:
            decide(bench, campaign, options.solver)
        rows.append(row(bench, size, campaign))
        r = rows[-1]
        print(f"{bench}: {r.killed} of {r.tried} killed, {r.equivalent} equivalent,", end=" ")
        print(f"{r.excused} excused, {r.lives} live, {r.undecided} undecided", flush=True)
    Console().print(table(rows))
    if options.write:
        write(rows)
    if failing:
        print(f"Benches that fail without a mutant: {', '.join(failing)}", file=sys.stderr)
        sys.exit(2)
    sys.exit(int(any(r.lives or r.undecided for r in rows)))


if __name__ == "__main__":
    main()
