"""Compile single operators at shapes of published networks, and compare with the recorded table.

Prints what takes more cycles than recorded, then a summary; the exit code is 1 if anything does and
nothing is written. ``--page`` writes docs/operator-bounds.md from the table.
"""

import argparse
import itertools
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tpulite.bench.measured import OperatorRecord, measure_operator
from tpulite_testing.sweep.cases import measurements
from tpulite_testing.sweep.page import page, summary
from tpulite_testing.sweep.table import read_rows, worse, write_rows

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operator-bounds.md"

_EVERY = list(measurements())

_SAVED = 20
"""Rows after which the table is written, so that a run that is ended can be continued."""


def _measured(number: int) -> OperatorRecord:
    return measure_operator(*_EVERY[number])


def _turns(numbers: list[int]) -> list[int]:
    """Let operators take turns, so that a run that is ended has some rows of each."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number in numbers:
        case = _EVERY[number][1]
        groups.setdefault((case.operator, case.mode), []).append(number)
    turns = itertools.zip_longest(*groups.values())
    return [number for turn in turns for number in turn if number is not None]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the cycles, and the page")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows that match")
    parser.add_argument("--missing", action="store_true", help="only rows that the table lacks")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    arguments = parser.parse_args()
    keys = [(machine, *case.key) for machine, case in _EVERY]
    recorded = read_rows()
    if arguments.page:
        PAGE.write_text(page(recorded.values()), encoding="utf-8")
        return 0
    chosen = [
        number
        for number, key in enumerate(keys)
        if re.search(arguments.only, " ".join(key)) and not (arguments.missing and key in recorded)
    ]
    chosen = _turns(chosen)
    rows: dict[tuple[str, ...], OperatorRecord] = {}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for number, row in enumerate(pool.map(_measured, chosen), 1):
            rows[row.key] = row
            if sys.stderr.isatty():
                print(f"\r{number} of {len(chosen)}", end="", file=sys.stderr)
            if arguments.write and (number % _SAVED == 0 or number == len(chosen)):
                known = recorded | rows
                write_rows([known[key] for key in keys if key in known])
    print(summary(rows.values()))
    if arguments.write:
        PAGE.write_text(page(read_rows().values()), encoding="utf-8")
        return 0
    found = worse(recorded, [row for row in rows.values() if row.key in recorded])
    for line in found:
        print(f"WORSE {line}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
