"""Write the table of docs/dashboard.md: what each component of the RTL has been through.

From committed tables: tb/coverage.csv (`make coverage RECORD=1`), docs/proofs.md (`make prove`),
tb/unit/mutants.csv (`make mutate`), and tb/stale.csv, of those of their rows whose RTL has changed
since (`make refresh-evidence`). A dash is what was not run. With --check nothing is written, and
the exit code is 1 if the page is stale.
"""

import argparse
import ast
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

from tpulite_tb.coverage.record import read_record
from tpulite_tb.coverage.summary import KINDS, Share, Shares, total
from tpulite_tb.coverage.waivers import WAIVERS, read_waivers

ROOT = Path(__file__).resolve().parents[1]
PAGE, PROOFS = ROOT / "docs/dashboard.md", ROOT / "docs/proofs.md"
RTL, UNIT = ROOT / "rtl/tpulite_rtl", ROOT / "tb/unit"
COVERAGE, MUTANTS = ROOT / "tb/coverage.csv", ROOT / "tb/unit/mutants.csv"
EVIDENCE, STALE = ROOT / "tb/evidence.csv", ROOT / "tb/stale.csv"
_BEGIN = "<!-- written by scripts/dashboard.py -->\n"
_END = "<!-- end of the table -->\n"
_BEGIN_STALE = "<!-- stale rows, written by scripts/dashboard.py -->\n"
_END_STALE = "<!-- end of stale rows -->\n"
_COMMANDS = {
    "proof": "make prove PAGE=1",
    "mutants": "make mutate",
    "coverage": "make coverage FULL=1 RECORD=1",
    "flips": "make flips",
}
"""What measures all rows of each table."""
_NOTHING = "—"
_WIDTH = 120
_MUTANT_FATES = ("tried", "killed", "equivalent", "excused", "lives", "undecided")


def components(covered: Iterable[str]) -> list[str]:
    """Return the components of the chip: files that hold hardware, or have points of coverage."""
    files = [path for path in RTL.rglob("*.py") if _is_hardware(path)]
    names = {".".join(path.relative_to(RTL).with_suffix("").parts) for path in files}
    return sorted(names | set(covered))


def _is_hardware(path: Path) -> bool:
    classes = [x for x in ast.parse(path.read_text()).body if isinstance(x, ast.ClassDef)]
    bases = {ast.unparse(base) for each in classes for base in each.bases}
    return bool(bases & {"wiring.Component", "Elaboratable"})


def benches(known: Sequence[str]) -> dict[str, list[str]]:
    """Return the benches of each component: its own, or else those of components that use it."""
    users: dict[str, set[str]] = defaultdict(set)
    for name in known:
        for other in _imports(RTL / f"{name.replace('.', '/')}.py"):
            users[other].add(name)
    found: dict[str, list[str]] = {}
    for name in known:
        near, seen = {name}, {name}
        while near:
            tests = sorted(t for n in near if (t := n.rpartition(".")[2]) and _bench(t).exists())
            if tests:
                found[name] = tests
                break
            near = {user for each in near for user in users[each]} - seen
            seen |= near
    return found


def _bench(name: str) -> Path:
    return UNIT / f"test_{name}.py"


def _imports(path: Path) -> set[str]:
    nodes = [x for x in ast.walk(ast.parse(path.read_text())) if isinstance(x, ast.ImportFrom)]
    modules = [x.module or "" for x in nodes]
    return {m.removeprefix("tpulite_rtl.") for m in modules if m.startswith("tpulite_rtl.")}


def proofs() -> dict[str, Counter[str]]:
    """Return how many properties of each block are proven, by method."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for line in PROOFS.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) >= 5 and cells[0] not in ("block", "---"):
            method = cells[3].split()[0]
            kind = {"BMC": "bounded", "cover": "cover"}.get(method, "proven")
            found[cells[0]][kind] += 1
    return found


def mutants() -> dict[str, Counter[str]]:
    """Return what became of the mutants of each component, over its benches."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    if MUTANTS.exists():
        with MUTANTS.open(newline="") as file:
            for row in csv.DictReader(file):
                found[row["component"]].update({x: int(row[x]) for x in _MUTANT_FATES})
    return found


def rows() -> list[list[str]]:
    """Return the cells of the table, the sums last."""
    shares: Shares = read_record(COVERAGE) if COVERAGE.exists() else {}
    none = dict.fromkeys(KINDS, Share())
    known = components(shares)
    of_proofs, of_mutants, of_benches = proofs(), mutants(), benches(known)
    table = []
    for name in known:
        own = of_benches.get(name, [])
        bench = ", ".join(own) if own != [name.rpartition(".")[2]] else "yes"
        table.append(
            [
                f"`{name}`",
                bench if bench == "yes" else f"in {bench or 'those of the chip'}",
                *_shares(shares.get(name, none)),
                _proven(of_proofs.get(name, Counter())),
                *_killed(of_mutants.get(name, Counter())),
            ]
        )
    proven = sum(of_proofs.values(), Counter())
    met = sum(of_mutants.values(), Counter())
    table.append(["all", "", *_shares(total(shares)), _proven(proven), *_killed(met)])
    return table


def _shares(shares: dict[str, Share]) -> list[str]:
    waived = sum(share.waived for share in shares.values())
    return [*map(str, shares.values()), f"{waived:,}" if waived else _NOTHING]


def _proven(counts: Counter[str]) -> str:
    if not counts:
        return _NOTHING
    bounded = f" + {counts['bounded']} bounded" if counts["bounded"] else ""
    return f"{counts['proven']}{bounded}"


def _killed(counts: Counter[str]) -> list[str]:
    if not counts["tried"]:
        return [_NOTHING] * 2
    left = counts["lives"] + counts["undecided"]
    relevant = counts["tried"] - counts["equivalent"]
    return [f"{counts['killed']} of {relevant}", str(left + counts["excused"])]


def page_text() -> str:
    """Return the page with the table as it should be."""
    headings = ["component", "bench", *KINDS.values(), "waived", "proofs", "mutants killed", "live"]
    lines = [headings, ["---", "---", *["---:"] * (len(headings) - 2)], *rows()]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    text = _replaced(PAGE.read_text(), _BEGIN, _END, f"{sums()}\n\n{table}")
    return _replaced(text, _BEGIN_STALE, _END_STALE, "\n".join(stale_lines()))


def sums() -> str:
    """Say how many points of coverage all components have, and what waivers rest on."""
    texts = []
    for kind, share in total(read_record(COVERAGE)).items():
        counts = f"{share.waived:,} waived, {share.points - share.waived - share.reached:,} missed"
        texts.append(f"{share.points:,} {KINDS[kind]} ({counts})")
    every = read_waivers(WAIVERS)
    proofs = Counter("component" if waiver.property else waiver.proof for waiver in every)
    waivers = (
        f"Of {proofs.total()} waivers, no run of a 4x4 chip reaches the points of {proofs['chip']},"
        f" and {proofs['absent']} are about names that only benches of components have (`make"
        f" prove-waivers`); {proofs['component']} follow from what is [proven](proofs.md) of a"
        " component."
    )
    return fill(f"Points of all components: {', '.join(texts)}. {waivers}", width=_WIDTH)


def stale_lines() -> list[str]:
    """Return the table of how many rows are of older RTL, by the command that measures them."""
    lines = ["| table | command | rows | stale |", "| --- | --- | ---: | ---: |"]
    for table, command in _COMMANDS.items():
        stale = _names(STALE, table)
        known = _names(EVIDENCE, table) | stale
        lines.append(f"| {table} | `{command}` | {len(known)} | {len(stale)} |")
    return lines


def _names(path: Path, table: str) -> set[str]:
    with path.open(newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    return {name for name in names if name.startswith(f"{table} ")}


def _replaced(text: str, begin: str, end: str, inside: str) -> str:
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{inside}\n\n{end}{rest.partition(end)[2]}"


def main() -> None:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether it is fresh")
    options = parser.parse_args()
    text = page_text()
    if options.check:
        if text != PAGE.read_text():
            sys.exit("docs/dashboard.md is not what the tables say: run scripts/dashboard.py")
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
