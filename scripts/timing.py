"""Measure the longest paths of the chip, in FO4, and its gates, in a generic library.

Writes build/timing/CONFIG.json. Blocks are synthesized once, so that a change costs only what it
touches. --budgets also writes the table that a test compares with. --liberty takes the standard
cells of a process: paths are in nanoseconds then, areas in the file's unit, square micrometers as
a rule, and the report is build/timing/LIBRARY/CONFIG.json.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from tpulite.configs import CONFIGS, named_chip
from tpulite_silicon.budget import write_budgets
from tpulite_silicon.design import chip_design
from tpulite_silicon.library import FO4
from tpulite_silicon.report import identity, measure, write_report
from tpulite_silicon.standard_cells import read_library
from tpulite_silicon.timed import Library, LibraryError

BUDGETS = Path(__file__).resolve().parents[1] / "tb/system/silicon_budgets.csv"


_TITLES = {"fo4": "FO4", "ns": "ns", "gates": "gates", "um2": "µm²"}


def paths_table(name: str, found: dict, rows: int, library: Library) -> Table:
    """Return the longest paths, one for each way through the blocks."""
    table = Table(title=f"tpulite {name}: longest paths, with the gates in each block", width=80)
    for column in (_TITLES[library.unit], "levels"):
        table.add_column(column, justify="right")
    table.add_column("from, through, to", overflow="fold")
    for path in found["paths"][:rows]:
        way = "\n".join([path["start"], ", ".join(path["through"]), path["end"]])
        table.add_row(_length(path, library), str(path["levels"]), way)
    return table


def blocks_table(found: dict, library: Library) -> Table:
    """Return the longest path that ends in each block, and its area."""
    table = Table(title="Blocks: the longest path that ends in each", width=80)
    table.add_column("block", overflow="fold")
    area = library.area_unit
    for column in ("count", _TITLES[library.unit], "levels", _TITLES[area], "share"):
        table.add_column(column, justify="right")
    for block in found["blocks"]:
        table.add_row(
            block["name"],
            str(block["count"]),
            _length(block, library),
            str(block["levels"]),
            f"{block[area]:,}",
            f"{block[area] / found['chip'][area]:.1%}",
        )
    return table


def summary(name: str, found: dict, library: Library) -> str:
    """Return what the whole chip takes, and in which library."""
    chip, area = found["chip"], library.area_unit
    text = (
        f"{name}: {_length(chip, library)} {_TITLES[library.unit]}, {chip[area]:,} "
        f"{_TITLES[area]} without memory macros, "
        f"processing elements {chip[area + '_array'] / chip[area]:.1%}"
    )
    for port, way in found["ports"].items():
        length = f"{_length(way, library)} {_TITLES[library.unit]}"
        text += f"\n{port}: {length} from {way['start']} to {way['end']}"
    if library is not FO4:
        fo4 = library.fo4 * library.scale
        text += (
            f"\n{library.name} ({library.corner}): one FO4 is {fo4:.3f} ns. "
            "With setup and fanout, without wires, clock skew and jitter."
        )
    return text


def refuse(error: ValueError) -> NoReturn:
    """Say what is wrong with an option."""
    print(error, file=sys.stderr)
    sys.exit(2)


def _length(path: dict, library: Library) -> str:
    return f"{path[library.unit]:.{library.digits}f}"


def main() -> None:
    """Measure a configuration, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}, perhaps with other sizes")
    parser.add_argument("--paths", type=int, default=12, help="how many to print")
    parser.add_argument("--budgets", action="store_true", help=f"write {BUDGETS.name}")
    parser.add_argument("--liberty", type=Path, help="Liberty file of standard cells")
    options = parser.parse_args()
    if options.budgets and options.liberty:
        parser.error("--liberty: budgets are of the generic library; leave one of both out")
    try:
        config, build = named_chip(options.config)
        library = read_library(options.liberty) if options.liberty else FO4
    except ValueError as error:
        refuse(error)

    console = Console(width=80)
    begin = time.monotonic()
    with console.status("elaborating") as status:
        design = chip_design(config, replace(build, target="gates"))
        try:
            found = measure(
                design,
                lambda done, total: status.update(f"block {done + 1} of {total}"),
                library,
            )
        except LibraryError as error:
            refuse(error)
    kind = f"timing/{library.name}" if options.liberty else "timing"
    path = write_report(kind, options.config, identity(options.config) | found)
    if options.budgets:
        BUDGETS.write_text(write_budgets(found))

    console.print(
        paths_table(options.config, found, options.paths, library), blocks_table(found, library)
    )
    console.print(summary(options.config, found, library))
    print(f"{path}, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
