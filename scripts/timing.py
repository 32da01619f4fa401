"""Measure the longest paths of the chip, in FO4, and its gates, in a generic library.

Writes build/timing/CONFIG.json. Blocks are synthesized once, so that a change costs only what it
touches. --budgets also writes the table that a test compares with.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tpulite.configs import CONFIGS, named_chip
from tpulite_silicon.budget import write_budgets
from tpulite_silicon.design import chip_design
from tpulite_silicon.report import identity, measure, write_report

BUDGETS = Path(__file__).resolve().parents[1] / "tb/system/silicon_budgets.csv"


def paths_table(name: str, found: dict, rows: int) -> Table:
    """Return the longest paths, one for each way through the blocks."""
    table = Table(title=f"tpulite {name}: longest paths, with the gates in each block", width=80)
    for column in ("FO4", "levels"):
        table.add_column(column, justify="right")
    table.add_column("from, through, to", overflow="fold")
    for path in found["paths"][:rows]:
        way = "\n".join([path["start"], ", ".join(path["through"]), path["end"]])
        table.add_row(f"{path['fo4']:.1f}", str(path["levels"]), way)
    return table


def blocks_table(found: dict) -> Table:
    """Return the longest path that ends in each block, and its gates."""
    table = Table(title="Blocks: the longest path that ends in each", width=80)
    table.add_column("block", overflow="fold")
    for column in ("count", "FO4", "levels", "gates", "share"):
        table.add_column(column, justify="right")
    for block in found["blocks"]:
        table.add_row(
            block["name"],
            str(block["count"]),
            f"{block['fo4']:.1f}",
            str(block["levels"]),
            f"{block['gates']:,}",
            f"{block['gates'] / found['chip']['gates']:.1%}",
        )
    return table


def main() -> None:
    """Measure a configuration, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}, perhaps with other sizes")
    parser.add_argument("--paths", type=int, default=12, help="how many to print")
    parser.add_argument("--budgets", action="store_true", help=f"write {BUDGETS.name}")
    options = parser.parse_args()
    try:
        config, build = named_chip(options.config)
    except ValueError as error:
        sys.exit(str(error))

    console = Console(width=80)
    begin = time.monotonic()
    with console.status("elaborating") as status:
        found = measure(
            chip_design(config, replace(build, target="gates")),
            lambda done, total: status.update(f"block {done + 1} of {total}"),
        )
    path = write_report("timing", options.config, identity(options.config) | found)
    if options.budgets:
        BUDGETS.write_text(write_budgets(found))

    chip = found["chip"]
    console.print(paths_table(options.config, found, options.paths), blocks_table(found))
    console.print(
        f"{options.config}: {chip['fo4']:.1f} FO4, {chip['gates']:,} gates without memory macros, "
        f"processing elements {chip['gates_array'] / chip['gates']:.1%}"
    )
    for name, way in found["ports"].items():
        console.print(f"{name}: {way['fo4']:.1f} FO4 from {way['start']} to {way['end']}")
    print(f"{path}, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
