"""Synthesize the chip for a Lattice ECP5 with Yosys and say how large each block is.

Writes build/synth/CONFIG.json. Blocks are synthesized once, so that a change costs only what it
touches.
"""

import argparse
import sys
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from tpulite.configs import CONFIGS, named_chip, part_for
from tpulite.parts import PARTS
from tpulite_silicon.design import chip_design
from tpulite_silicon.ecp5 import sizes
from tpulite_silicon.report import identity, write_report

_RESOURCES = ("lut", "ff", "dsp", "bram")


def sizes_table(name: str, found: dict, part: str) -> Table:
    """Return the blocks, largest first, and their sum."""
    table = Table(title=f"tpulite {name} on an ECP5, blocks synthesized alone", width=80)
    table.add_column("block", overflow="fold")
    for column in ("count", *_RESOURCES):
        table.add_column(column.upper(), justify="right")
    for block in found["blocks"]:
        numbers = [f"{block[resource]:,}" for resource in _RESOURCES]
        table.add_row(block["name"], str(block["count"]), *numbers)
    for title, key in (("all", "chip"), ("all as one block", "flat")):
        if size := found.get(key):
            table.add_section()
            table.add_row(title, "", *[f"{size[resource]:,}" for resource in _RESOURCES])
            shares = [f"{size[r] / getattr(PARTS[part], r):.1%}" for r in _RESOURCES]
            table.add_row(f"of an {part}", "", *shares)
    return table


def main() -> None:
    """Synthesize a named configuration, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}, perhaps with other sizes")
    parser.add_argument("--part", choices=("25", "45", "85"), help="LFE5U to compare with")
    parser.add_argument("--flat", action="store_true", help="also the chip as one block: minutes")
    options = parser.parse_args()
    try:
        config, build = named_chip(options.config)
    except ValueError as error:
        sys.exit(str(error))

    console = Console(width=80)
    with console.status("elaborating") as status:
        design = chip_design(config, replace(build, target="ecp5"))
        found = sizes(design, lambda done, total: status.update(f"block {done + 1} of {total}"))
        if options.flat:
            status.update("the chip as one block")
            found["flat"] = sizes(design.flat())["chip"]
    path = write_report("synth", options.config, identity(options.config) | found)
    part = f"LFE5U-{options.part}" if options.part else part_for(options.config)
    console.print(sizes_table(options.config, found, part))
    print(path)


if __name__ == "__main__":
    main()
