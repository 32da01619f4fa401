"""Run benches on Verilator with coverage points in the RTL; print and draw what they reach.

Models with points lie in build/coverage, with what each run has reached; pages for the browser in
build/coverage/html, lines and branches for other tools in build/coverage/lcov.info. Without
arguments the benches of components and small ones of the chip run; arguments are those of pytest
instead. The exit code is 1 if a test fails, a waiver of tb/coverage_waivers.csv is wrong, or a
component of --only is not recorded.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tpulite_tb.coverage.counts import merged
from tpulite_tb.coverage.functional import Functional
from tpulite_tb.coverage.lcov import write_lcov
from tpulite_tb.coverage.page import write_pages
from tpulite_tb.coverage.record import read_record, write_record
from tpulite_tb.coverage.summary import Shares, component_shares, functional_table, summary_table
from tpulite_tb.coverage.waivers import WAIVERS, read_waivers, waive

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/coverage"
COUNTS, FUNCTIONAL = FOLDER / "counts", FOLDER / "functional"
RECORD = ROOT / "tb/coverage.csv"
BENCHES = (
    "tb/unit",
    "tb/system/test_random_programs.py",
    "tb/system/test_faults.py",
    "tb/system/test_end.py",
    "tb/system/test_combinations.py",
    "tb/system/test_chip_registers.py",
    "tb/system/test_full_counters.py",
    "tb/system/test_turns.py",
    "tb/system/test_waiting.py",
    "tb/system/test_networks.py::test_every_simulator_counts_the_same",
    *("-k", "not icarus and not silicon and not verilog and not test_tb_ and not default"),
)
"""What runs by default: each bench in its first size, and the chip of 4x4 and of 8x8."""
LONG = ("tb/unit/test_requantizer.py", "tb/system/test_long_program.py")
"""What runs beside it if all sizes do, and has parts that only `make regress` runs."""


def run(arguments: Sequence[str], jobs: int, **variables: str) -> int:
    """Run tests with points and variables, and return the exit code of pytest."""
    folders = {"TPULITE_BUILD": str(FOLDER), "TPULITE_FUNCTIONAL": str(FUNCTIONAL)}
    environment = os.environ | folders | variables
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tpulite_tb.coverage.plugin"]
    command += ["-n", str(jobs), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def incomplete(shares: Shares) -> list[str]:
    """Return components with points that are neither reached nor waived.

    Tests of one component alone may miss what those of the chip reach.
    """
    return [
        name
        for name, each in shares.items()
        if any(share.reached + share.waived < share.points for share in each.values())
    ]


def main() -> None:
    """Run, merge, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--sizes", action="store_true", help="every size of each bench")
    parser.add_argument("--report", action="store_true", help="run nothing, report what has run")
    parser.add_argument("--add", action="store_true", help="add to what earlier runs have reached")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.relative_to(ROOT)}")
    parser.add_argument(
        "--only", default="", help="record these components alone (A,B), if all of them is reached"
    )
    parser.add_argument("tests", nargs="*", help="arguments of pytest, behind --")
    options = parser.parse_args()
    status = 0
    if not options.report:
        # It knows the sources of the RTL, but not those of the points.
        shutil.rmtree(FOLDER / "verilog_cache", ignore_errors=True)
        if not options.add:
            shutil.rmtree(COUNTS, ignore_errors=True)
            shutil.rmtree(FUNCTIONAL, ignore_errors=True)
        sizes = {"SIM": "verilator"} if options.sizes else {}
        status = run(options.tests or BENCHES, options.jobs, **sizes)
        if options.sizes and not options.tests:
            status |= run(LONG, options.jobs, **sizes, TPULITE_REGRESS="1")
    files = list(COUNTS.glob("*.json"))
    if not files:
        sys.exit("Nothing has run with coverage points yet")
    counts, crosses = merged(files), Functional.merged(FUNCTIONAL).crosses
    complete = options.sizes and not options.tests
    waived, wrong = waive(counts, read_waivers(WAIVERS), complete=complete)
    shares = component_shares(counts, waived)
    console = Console()
    console.print(summary_table(shares))
    console.print(functional_table(crosses))
    for line in wrong:
        print(f"Waiver: {line}")
    page = write_pages(counts, waived, crosses, FOLDER / "html")
    write_lcov(counts, FOLDER / "lcov.info")
    if options.record:
        new = {name: shares[name] for name in options.only.split(",") if name}
        if short := incomplete(new):
            sys.exit(f"Not recorded: these tests do not reach all of {', '.join(short)}")
        write_record(dict(sorted((read_record(RECORD) | new).items())) if new else shares, RECORD)
    print(f"{page.relative_to(ROOT)}: {len(files)} runs on Verilator")
    sys.exit(status or int(bool(wrong)))


if __name__ == "__main__":
    main()
