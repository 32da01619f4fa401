"""Synthesize the chip with Yosys and say how large each block is: on a Lattice ECP5, or in cells.

Writes build/synth/CONFIG.json. Blocks are synthesized once, so that a change costs only what it
touches. --liberty takes the standard cells of a process instead of an ECP5: areas are in the file's
unit then, square micrometers as a rule, and the report is build/synth/LIBRARY/CONFIG.json.
"""

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from tpulite.configs import CONFIGS, named_chip, part_for
from tpulite.parts import PARTS
from tpulite_silicon.design import chip_design
from tpulite_silicon.ecp5 import sizes
from tpulite_silicon.report import identity, write_report
from tpulite_silicon.sizes import cell_sizes
from tpulite_silicon.standard_cells import read_library
from tpulite_silicon.timed import LibraryError

_TITLES = {"um2": "µm²", "cells": "cells", "macros": "macros"}


def sizes_table(title: str, found: dict, part: str = "") -> Table:
    """Return the blocks, largest first, their sum, and its share of a part."""
    resources = list(found["chip"])
    table = Table(title=f"tpulite {title}, blocks synthesized alone", width=80)
    table.add_column("block", overflow="fold")
    for column in ("count", *resources):
        table.add_column(_TITLES.get(column, column.upper()), justify="right")
    for block in found["blocks"]:
        numbers = [f"{block[resource]:,}" for resource in resources]
        table.add_row(block["name"], str(block["count"]), *numbers)
    for line, key in (("all", "chip"), ("all as one block", "flat")):
        if size := found.get(key):
            table.add_section()
            table.add_row(line, "", *[f"{size[resource]:,}" for resource in resources])
            if part:
                shares = [f"{size[r] / getattr(PARTS[part], r):.1%}" for r in resources]
                table.add_row(f"of an {part}", "", *shares)
    return table


def refuse(error: ValueError) -> NoReturn:
    """Say what is wrong with an option."""
    print(error, file=sys.stderr)
    sys.exit(2)


def main() -> None:
    """Synthesize a named configuration, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}, perhaps with other sizes")
    parser.add_argument("--part", choices=("25", "45", "85"), help="LFE5U to compare with")
    parser.add_argument("--flat", action="store_true", help="also the chip as one block: minutes")
    parser.add_argument("--liberty", type=Path, help="Liberty file of standard cells")
    options = parser.parse_args()
    try:
        if options.liberty and options.part:
            raise ValueError(f"PART={options.part}: not with LIBERTY; leave one of both out")
        config, build = named_chip(options.config)
        library = read_library(options.liberty) if options.liberty else None
    except ValueError as error:
        refuse(error)
    if library:
        measure, target = partial(cell_sizes, library=library), "gates"
        kind, title, part = f"synth/{library.name}", f"in {library.name}", ""
    else:
        measure, target = sizes, "ecp5"
        kind, title = "synth", "on an ECP5"
        part = f"LFE5U-{options.part}" if options.part else part_for(options.config)

    console = Console(width=80)
    with console.status("elaborating") as status:
        design = chip_design(config, replace(build, target=target))
        try:
            found = measure(
                design, progress=lambda done, total: status.update(f"block {done + 1} of {total}")
            )
            if options.flat:
                status.update("the chip as one block")
                found["flat"] = measure(design.flat())["chip"]
        except LibraryError as error:
            refuse(error)
    path = write_report(kind, options.config, identity(options.config) | found)
    console.print(sizes_table(f"{options.config} {title}", found, part))
    print(path)


if __name__ == "__main__":
    main()
