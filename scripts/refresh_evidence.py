"""Which rows of recorded evidence are stale, and what measures them again.

Evidence that takes hours is recorded: mutants (tb/unit/mutants.csv), coverage (tb/coverage.csv),
proofs (docs/proofs.md) and flipped bits (docs/trust.md). tb/evidence.csv has a digest for each row:
of the RTL that it was measured on, of the bench or proof that judged it, and of the row itself.
A row is stale if that is no longer its digest. tb/stale.csv

    name,digest,reason

lists rows that are stale for now; the digest is that of the current RTL, so that the next change
asks again. --defer REASON lists the chosen rows there; listed ones keep their reasons, and rows
that are not stale lose their lines. Rows are measured one after the other, but for rows of coverage
of the same tests, which one run measures. They are recorded at once: an interrupted run goes on
with the next one. The exit code is 1 if a row could not be measured; of --check, if one is stale
and not listed, or listed and not stale.
"""

import argparse
import ast
import csv
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dashboard import COVERAGE, MUTANTS, STALE, UNIT, benches, components
from tpulite.collector import collector_paused
from tpulite_formal.proofs import Proof, contents_of
from tpulite_formal.table import PROOFS
from tpulite_tb.designs import Design, designs
from tpulite_tb.mutants import CHIP
from tpulite_testing.evidence import EVIDENCE, code_of, digest_of, read_evidence, record

ROOT = Path(__file__).resolve().parents[1]
TRUST = ROOT / "docs/trust.md"
_TB = ROOT / "tb/tpulite_tb"
_FLIPS = re.compile(r"^<!-- once: `make flips .*?^<!-- end of once -->$", re.MULTILINE | re.DOTALL)
_DECIDES_NOTHING = tuple(
    _TB / name for name in ("harness.py", "coverage", "machines.py", "effort.py", "simulators.py")
)
"""What starts benches, counts what they execute, names machines, which the RTL shows, and says
where benches draw a part: what is recorded draws all."""
_SYSTEM = (
    "tb/system/test_random_programs.py",
    "tb/system/test_faults.py",
    "tb/system/test_turns.py",
    "tb/system/test_waiting.py",
)
"""What reaches components that only the chip has."""
_JOBS = {"prove.py": "--jobs", "coverage.py": "--jobs", "flips.py": "--workers"}
"""Options of scripts that run several processes."""


@dataclass(frozen=True)
class Row:
    """A row of a table, or a block of rows of one component.

    Attributes
    ----------
    name : str
        The table and the row: ``mutants fifo``.
    digest : str
        What it would have if it were measured now.
    command : tuple of str
        Script and arguments that measure it again.
    """

    name: str
    digest: str
    command: tuple[str, ...]

    @property
    def table(self) -> str:
        """The first word of its name."""
        return self.name.partition(" ")[0]


def rows(table: str = "") -> list[Row]:
    """Return all rows of recorded evidence, or those of a table, with their digests."""
    if table == "proof":  # which asks for no other RTL
        return list(_proofs())
    mutants, coverage = grouped(MUTANTS), grouped(COVERAGE)
    found = designs(name for name in mutants if name != CHIP)
    known = [*mutants_rows(mutants, found), *_coverage(coverage, found), *_flips(found)]
    return [row for row in known if row.table == table] if table else [*_proofs(), *known]


def grouped(table: Path) -> dict[str, str]:
    """Return the lines of a table by their first column."""
    lines: dict[str, str] = {}
    for line in table.read_text().splitlines()[1:]:
        name = line.partition(",")[0]
        lines[name] = lines.get(name, "") + line + "\n"
    return lines


@cache
def _proofs() -> tuple[Row, ...]:
    """Return the rows of proofs, whose digests do not depend on what is recorded."""
    return tuple(_proof_row(proof) for proof in PROOFS)


def _proof_row(proof: Proof) -> Row:
    with collector_paused():
        digest = digest_of(*contents_of(proof))
    return Row(f"proof {proof.name}", digest, ("prove.py", "--page", "--only", proof.name))


def mutants_rows(lines: Mapping[str, str], found: Mapping[str, Design]) -> Iterator[Row]:
    """Yield the rows of lines of the table of mutants."""
    for name, line in lines.items():
        bench, _, size = name.partition(" ")
        judge = _TB / "chip_mutants.py" if bench == CHIP else UNIT / f"test_{bench}.py"
        command = ("mutate.py", bench, "--write", "--count", line.split(",")[2])
        if size:
            command += ("--size", size)
        yield Row(f"mutants {name}", digest_of(found[name].digest, _judges([judge]), line), command)


def _coverage(lines: Mapping[str, str], found: Mapping[str, Design]) -> Iterator[Row]:
    users = benches(components(lines))
    for name, line in lines.items():
        own = {digest for each in found.values() for digest in each.modules.get(name, ())}
        if not own:
            own = {digest for each in found.values() for digest in each.mentions.get(name, ())}
        own = own or {found[CHIP].digest}
        judges = [UNIT / f"test_{bench}.py" for bench in users.get(name, [])]
        tests = [str(path.relative_to(ROOT)) for path in judges] or _SYSTEM
        contents = (*sorted(own), _judges(judges or [ROOT / test for test in _SYSTEM]), line)
        command = ("coverage.py", "--sizes", "--record", "--only", name, "--", *tests)
        yield Row(f"coverage {name}", digest_of(*contents), command)


def _flips(found: Mapping[str, Design]) -> Iterator[Row]:
    (table,) = _FLIPS.findall(TRUST.read_text())
    (count,) = re.findall(r"COUNT=(\d+)", table)
    contents = (found[CHIP].digest, _judges([_TB / "flips.py"]), table)
    yield Row(f"flips {CHIP}", digest_of(*contents), ("flips.py", "--write", "--count", count))


def _judges(paths: Iterable[Path]) -> str:
    """Return the code of benches, and of what they import below ``tb``."""
    todo, seen = list(paths), set(paths)
    while todo:
        new = _imported(todo.pop()) - seen
        seen |= new
        todo += new
    return "\0".join(_code(path) for path in sorted(seen))


@cache
def _imported(path: Path) -> set[Path]:
    """Return the files below ``tb`` that one imports, but for those that decide nothing."""
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
    names = {name for n in nodes for name in (n.module, *(f"{n.module}.{a.name}" for a in n.names))}
    files = [f"{str(name).replace('.', '/')}.py" for name in names]
    found = {folder / file for file in files for folder in (UNIT, _TB.parent)}
    judges = {path for path in found if path.exists()}
    return {p for p in judges if not any(p.is_relative_to(each) for each in _DECIDES_NOTHING)}


@cache
def _code(path: Path) -> str:
    return code_of(path.read_text())


def listed(path: Path) -> dict[str, tuple[str, str]]:
    """Return the digests of rows that are listed as stale, and why they are, by name."""
    with path.open(newline="") as file:
        return {row["name"]: (row["digest"], row["reason"]) for row in csv.DictReader(file)}


def write_listed(entries: Mapping[str, tuple[str, str]], path: Path) -> None:
    """Write what :func:`listed` returns."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "digest", "reason"))
        writer.writerows((name, *entry) for name, entry in sorted(entries.items()))


def faults(known: Iterable[Row], evidence: Mapping[str, str], exceptions: Path) -> list[str]:
    """Return what is wrong with the records, a line each."""
    excepted = {name: digest for name, (digest, reason) in listed(exceptions).items() if reason}
    said = []
    for row in known:
        fresh = evidence.get(row.name) == row.digest
        if not fresh and excepted.get(row.name) != row.digest:
            said.append(f"{row.name} is stale: make refresh-evidence ONLY={row.name!r} [DEFER=WHY]")
        if fresh and row.name in excepted:
            said.append(f"{row.name} is not stale: remove its line from {exceptions.name}")
    gone = sorted((set(evidence) | set(excepted)) - {row.name for row in known})
    tables = {row.table for row in known}
    said += [f"{name} is no row: remove its line" for name in gone if name.split()[0] in tables]
    return said


def batches(chosen: Iterable[Row]) -> list[list[Row]]:
    """Return rows in lists that one command measures: rows of coverage, of the same tests."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in chosen:
        tests = row.command[row.command.index("--") :] if row.table == "coverage" else (row.name,)
        found.setdefault(tests, []).append(row)
    return list(found.values())


def measure(batch: Sequence[Row], place: str, jobs: int = 0) -> bool:
    """Measure the rows of a batch again and record them; tell whether that went well."""
    script, *arguments = batch[0].command
    if jobs and script in _JOBS:
        arguments = [_JOBS[script], str(jobs), *arguments]
    if len(batch) > 1:
        names = ",".join(row.name.partition(" ")[2] for row in batch)
        arguments[arguments.index("--only") + 1] = names
    called = [row.name for row in batch]
    print(
        f"[{place}] {', '.join(called)}: python scripts/{script} {' '.join(arguments)}", flush=True
    )
    command = [sys.executable, str(ROOT / "scripts" / script), *arguments]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code and not (script == "mutate.py" and code == 1):  # then some live, as the row says
        return False
    changed = rows(batch[0].table)  # as their texts have
    record({row.name: row.digest for row in changed if row.name in called})
    write_listed({k: entry for k, entry in listed(STALE).items() if k not in called}, STALE)
    return True


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--only", default="", help="rows whose names a regular expression matches")
    parser.add_argument("--jobs", type=int, default=0, help="processes, where a script has several")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="only list stale rows")
    group.add_argument("--defer", metavar="REASON", help=f"list them in {STALE.name}")
    group.add_argument("--check", action="store_true", help="only say what is wrong")
    parser.add_argument("--evidence", type=Path, default=EVIDENCE, help="table of digests")
    parser.add_argument("--stale", type=Path, default=STALE, help="table of stale rows")
    options = parser.parse_args()
    evidence, known = read_evidence(options.evidence), rows()
    if options.check:
        said = faults(known, evidence, options.stale)
        print(*said, sep="\n", end="\n" * bool(said))
        sys.exit(bool(said))
    stale = [row for row in known if evidence.get(row.name) != row.digest]
    chosen = [row for row in stale if re.search(options.only, row.name)]
    if options.list:
        for row in chosen:
            print(f"{row.name}: python scripts/{' '.join(row.command)}")
        counts = Counter(row.table for row in known)
        for table, count in counts.items():
            print(f"{table}: {sum(row.table == table for row in stale)} of {count} stale")
        return
    if options.defer:
        names = {row.name for row in stale}
        entries = {name: e for name, e in listed(options.stale).items() if name in names}
        for row in chosen:  # a row that is listed keeps the reason of its first change
            reason = entries.get(row.name, ("", options.defer))[1]
            entries[row.name] = (row.digest, reason)
        write_listed(entries, options.stale)
        return
    todo = batches(chosen)
    failed = [
        row.name
        for number, batch in enumerate(todo, 1)
        if not measure(batch, f"{number}/{len(todo)}", options.jobs)
        for row in batch
    ]
    if failed:
        sys.exit(f"Not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
