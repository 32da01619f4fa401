"""Compare programs compiled for a shape with programs bound to it, and with the recorded ratios.

Prints what became worse, then a summary of both directions; the exit code is 1 if anything did and
nothing is written.
"""

import argparse
import re
import sys
from concurrent.futures import ProcessPoolExecutor

from tpulite_testing.two_way.cases import Pair, pairs
from tpulite_testing.two_way.table import (
    PATH,
    Row,
    measure,
    read_rows,
    summary,
    worse,
    write_rows,
)

_EVERY: list[Pair] = []
"""All pairs, in a worker."""


def _measured(number: int) -> Row | str:
    """Measure a pair, or say why it cannot be had."""
    pair = _EVERY[number]
    try:
        return measure(pair)
    except RuntimeError as error:
        return f"{' '.join(pair.key)}: {error}"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the ratios")
    parser.add_argument("--only", default="", metavar="REGEX", help="only what matches")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    arguments = parser.parse_args()
    every = list(pairs())
    recorded = read_rows() if PATH.exists() else {}
    chosen = [i for i, x in enumerate(every) if re.search(arguments.only, " ".join(x.key))]
    rows = []
    with ProcessPoolExecutor(arguments.jobs, initializer=_EVERY.extend, initargs=(every,)) as pool:
        for number, found in enumerate(pool.map(_measured, chosen), 1):
            if sys.stderr.isatty():
                print(f"\r{number} of {len(chosen)}", end="", file=sys.stderr)
            if isinstance(found, str):
                print(f"SKIPPED {found}")
            else:
                rows.append(found)
    if arguments.write:
        known = recorded | {row.key: row for row in rows}
        rows = [known[pair.key] for pair in every if pair.key in known]
        write_rows(rows)
        print(summary(rows), end="")
        return 0
    found = worse(recorded, rows)
    for line in found:
        print(f"WORSE {line}")
    print(summary(rows), end="")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
