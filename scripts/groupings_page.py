"""Write docs/sources/layer-groups-networks.md: what groups of both kinds cost on real networks.

python scripts/groupings_page.py

It takes minutes, and fetches the networks of the zoo. With names it prints lines for these networks
and writes nothing: `python scripts/groupings_page.py resnet8 mobilenet_v2_1.0_224`.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from tpulite.bench.workloads import find_workload
from tpulite.compiler.options import Options
from tpulite.configs import named_config
from tpulite.models.architectures import ARCHITECTURES
from tpulite.report import CompilationReport, report_programs
from tpulite.runtime.model import Model
from tpulite.zoo import find_network
from tpulite.zoo_table import ENTRIES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/sources/layer-groups-networks.md"

SMALL = 2048
"""Rows of a buffer that is too small for most of the zoo; all of it fits the default one."""

WAYS = {
    "document": Options(groups="document", allocator="longest"),
    "by cost": Options(),
    "none": Options().ungrouped,
}

TEXT = """# Layer groups of real networks

Cycles are predicted by the
[cycle model](../decisions/0004-the-cycle-model.md) for 16x16; bytes are those that one run reads
from DRAM, commands included, and writes. Each line is printed by

    tpulite compile NETWORK --config 16x16,ub_rows=ROWS --grouping document --report

for the networks of the zoo, and at the end for networks of `tpulite bench` with random weights.
`scripts/groupings_page.py` writes this page. With {rows:,} rows nothing has to leave the chip, so
all groupings move about the same bytes. The document takes the longest group that fits regardless
of its cost, so its groups are often slower than none. Groups by cost minimize cycles first and may
move more bytes; `--optimize memory` minimizes bytes first.

"""


def main() -> None:
    """Write the page, or print lines of some networks."""
    parser = argparse.ArgumentParser(description="Compare groups of both kinds on real networks.")
    parser.add_argument("networks", nargs="*", help="networks; all of them if none is given")
    names = parser.parse_args().networks
    every = [(entry.name, rows) for rows in (SMALL, 16384) for entry in ENTRIES]
    every += [(name, 16384) for name in ARCHITECTURES]
    cases = [case for case in every if not names or case[0] in names]
    lines = []
    for line in _table(cases):
        print(line, flush=True)
        lines.append(line)
    if not names:
        PAGE.write_text(TEXT.format(rows=16384) + "\n".join(lines) + "\n", encoding="utf-8")


def _table(cases: Iterable[tuple[str, int]]) -> Iterator[str]:
    heads = ["network", "rows"]
    heads += [f"{way}: {what}" for way in WAYS for what in ("cycles", "read + written")]
    yield _line(heads)
    yield _line(["---"] * 2 + ["---:"] * (len(heads) - 2))
    for name, rows in cases:
        cells = [f"`{name}`", f"{rows:,}"]
        for options in WAYS.values():
            report = _report(name, rows, options)
            cells += [f"{report.cycles:,}", f"{report.read_bytes:,} + {report.written_bytes:,}"]
        yield _line(cells)


def _report(name: str, rows: int, options: Options) -> CompilationReport:
    config = named_config(f"16x16,ub_rows={rows}")
    if name in ARCHITECTURES:
        programs = find_workload(name)(config).compile(options)
    else:
        model = Model.load(find_network(name), config=config, options=options)
        programs = model.programs
    return report_programs(programs, cycles=True)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
