"""Run networks on the chip as synthesis leaves it, and compare every bit and every cycle.

The first run of a machine synthesizes it and builds a simulator of its cells, which takes minutes.
"""

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from tpulite.arch.build import Build
from tpulite.configs import CONFIGS, named_chip
from tpulite_tb.cells import Cells, chip_cells
from tpulite_tb.gates import WORKLOADS, compare
from tpulite_tb.machines import SMALL


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "config",
        nargs="?",
        help=f"one of {', '.join(CONFIGS)}, perhaps with other sizes; the smallest by default",
    )
    parser.add_argument("--cells", choices=list(Cells), type=Cells, default=Cells.GATES)
    parser.add_argument("--only", choices=WORKLOADS, help="this workload alone")
    options = parser.parse_args()
    try:
        config, build = named_chip(options.config) if options.config else (SMALL, Build())
    except ValueError as error:
        sys.exit(str(error))

    console = Console(width=80)
    begin = time.monotonic()
    try:
        with console.status("elaborating") as status:
            netlist = chip_cells(
                config,
                options.cells,
                lambda done, total: status.update(f"block {done + 1} of {total}"),
                build,
            )
    except ValueError as error:  # a cell, or a mode of it, without a model
        sys.exit(f"{options.config or 'the smallest'} as {options.cells}: {error}")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in netlist.cells.most_common())
    console.print(f"{netlist.cells.total():,} cells: {kinds}", highlight=False)
    print(f"Synthesized in {time.monotonic() - begin:.0f} s")

    table = Table(width=80)
    table.add_column("workload", overflow="fold")
    for column in ("memory", "cycles", "cycles/s", "bits", "counters"):
        table.add_column(column, justify="right")
    failed = False
    for workload in [options.only] if options.only else WORKLOADS:
        for stalls in (False, True):
            with console.status(f"{workload}, {len(table.rows)} runs done"):
                found = compare(config, netlist, workload, stalls=stalls)
            failed |= not found.equal
            table.add_row(
                workload,
                "stalls" if stalls else "steady",
                f"{found.counters['cycles']:,}",
                f"{found.speed:,.0f}",
                "exact" if found.exact else "WRONG",
                "as RTL" if found.counters == found.expected else "OTHER",
            )
    console.print(table)
    sys.exit(failed)


if __name__ == "__main__":
    main()
