"""Prove properties of the RTL and break each with a mutant; write build/prove/proofs.json.

With --page also the table in docs/proofs.md.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tpulite.report.name_cell import NameCell
from tpulite_formal.proofs import Finding, run
from tpulite_formal.table import PROOFS
from tpulite_verilated.toolchain import build_root

PAGE = Path(__file__).resolve().parents[1] / "docs/proofs.md"
_BEGIN = "<!-- from here on written by scripts/prove.py --page -->\n"


def says(finding: Finding) -> str:
    """Return the status as a reader expects it."""
    if finding.method == "cover":
        return "reached" if finding.status == "high" else "not reached"
    return {"never": "holds", "not yet": "holds so far", "high": "fails"}.get(
        finding.status, finding.status
    )


def table(findings: list[Finding]) -> Table:
    """Return what was found: a row for each property below the name of its proof."""
    table = Table(
        title="Proofs",
        caption="mutant: cycles until one breaks it",
        box=SIMPLE_HEAD,
    )
    table.add_column("property")
    table.add_column("status", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for column in ("depth", "s", "mutant"):
        table.add_column(column, justify="right", no_wrap=True)
    for (block, case), group in groupby(findings, key=lambda f: (f.block, f.case)):
        table.add_row(NameCell(block), style="bold")
        table.add_row(NameCell(case), style="bold")
        for f in group:
            row = [says(f), f.method, str(f.depth), f"{f.seconds:.1f}"]
            cells = (NameCell(f"  {f.property}"), *row, str(f.mutant_cycles or "-"))
            table.add_row(*cells, style="" if f.good else "bold red")
    return table


def write_page(findings: list[Finding]) -> None:
    """Write the table of the page; proofs of which nothing is known now keep their lines."""
    head, _begin, old = PAGE.read_text().partition(_BEGIN)
    known = {(f.block, f.case) for f in findings}
    rows: dict[tuple[str, str], list[str]] = {(proof.block, proof.case): [] for proof in PROOFS}
    for line in old.splitlines():
        block, case, *_more = line.strip("| ").split(" | ") if line else ("", "")
        if (block, case) in rows.keys() - known:
            rows[block, case].append(line)
    for f in findings:
        broken = f"{f.mutant}, {f.mutant_cycles}" if f.mutant else ""
        text = f"reached: {f.text}" if f.method == "cover" else f.text
        line = f"| {f.block} | {f.case} | {text} | {f.method} | {f.depth} | {broken} |"
        rows[f.block, f.case].append(line)
    lines = [
        "| block | case | what holds | method | depth | broken by, in cycles |",
        "| --- | --- | --- | --- | --- | --- |",
        *(line for group in rows.values() for line in group),
    ]
    PAGE.write_text(head + _BEGIN + "\n" + "\n".join(lines) + "\n")


def main() -> None:
    """Prove, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="blocks or cases whose names contain this")
    parser.add_argument("--jobs", type=int, default=1, help="proofs at a time")
    parser.add_argument("--page", action="store_true", help="write docs/proofs.md, if all is good")
    options = parser.parse_args()
    chosen = [proof for proof in PROOFS if options.only in proof.name]
    if not chosen:
        names = ", ".join(proof.name for proof in PROOFS)
        sys.exit(f"{options.only}: no such proof; there are {names}")

    begin = time.monotonic()
    folder = build_root() / "prove"
    findings: list[Finding] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(lambda proof: run(proof, folder), chosen):
            findings += found
    path = folder / "proofs.json"
    kept = json.loads(path.read_text()) if path.exists() else []
    done = {(proof.block, proof.case) for proof in chosen}
    places = [(proof.block, proof.case) for proof in PROOFS]
    every = findings + [Finding(**f) for f in kept if (f["block"], f["case"]) in set(places) - done]
    every.sort(key=lambda finding: places.index((finding.block, finding.case)))
    path.write_text(json.dumps([finding.as_dict() for finding in every], indent=1) + "\n")

    Console().print(table(findings))
    bad = [f"{f.block} {f.case} {f.property}" for f in findings if not f.good]
    good = len(findings) - len(bad)
    print(f"{path}: {good} of {len(findings)} good, {time.monotonic() - begin:.0f} s")
    if bad:
        sys.exit("not proven, or not broken by a mutant: " + ", ".join(bad))
    if options.page:
        write_page(every)


if __name__ == "__main__":
    main()
