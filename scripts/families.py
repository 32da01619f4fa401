"""Synthesize configurations for families of FPGAs and record what they take.

Writes sw/tpulite/families.csv, and the table of docs/fpga.md. Each chip is one block for Yosys:
minutes, and gigabytes of memory for 16x16. Rows of what is not asked for stay.
"""

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from tpulite.cli.common import save_csv
from tpulite.configs import CONFIGS, named_chip
from tpulite.parts import FAMILY_PARTS, FAMILY_SIZES, FamilySize
from tpulite_silicon.design import chip_design
from tpulite_silicon.families import FAMILIES, part_of

ROOT = Path(__file__).resolve().parents[1]
TABLE, PAGE = ROOT / "sw/tpulite/families.csv", ROOT / "docs/fpga.md"
BEGIN, END = "<!-- written by scripts/families.py -->\n", "<!-- end of families -->\n"


def measured(family: str, name: str) -> FamilySize:
    """Return what a configuration takes."""
    config, build = named_chip(name)
    target = FAMILIES[family].target
    design = chip_design(config, replace(build, target=target))
    taken = asdict(part_of(design, FAMILIES[family]))
    return FamilySize(family=family, config=name, hash=f"{config.hash:#010x}", **taken)


def as_markdown(sizes: list[FamilySize]) -> str:
    """Return the table of the page, with shares of the largest part of each family."""
    lines = ["| part | `CONFIG` | LUT | FF | multipliers | block RAM |"]
    lines.append("|---|---|---|---|---|---|")
    for size in sizes:
        name, part = list(FAMILY_PARTS[size.family].items())[-1]
        cells = [
            f"{getattr(size, what):,} ({getattr(size, what) / getattr(part, what):.1%})"
            for what in ("lut", "ff", "dsp", "bram")
        ]
        lines.append(f"| {' | '.join([name, f'`{size.config}`', *cells])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="*", metavar="CONFIG", help=f"of {', '.join(CONFIGS)}")
    parser.add_argument("--family", choices=tuple(FAMILIES), help="only this one")
    options = parser.parse_args()
    if unknown := set(options.configs) - set(CONFIGS):
        print(f"{min(unknown)}: no such configuration; of {', '.join(CONFIGS)}", file=sys.stderr)
        sys.exit(2)
    console, found = Console(width=80), dict(FAMILY_SIZES)
    for name in options.configs:
        for family in [options.family] if options.family else FAMILIES:
            with console.status(f"{name} for {family}"):
                found[family, name] = size = measured(family, name)
            console.print(f"{family} {name}: {size.line}")
    known = [found[f, name] for f in FAMILIES for name in CONFIGS if (f, name) in found]
    save_csv(TABLE, [asdict(size) for size in known])
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + as_markdown(known) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
