"""Compare programs compiled for a shape with programs bound to it, and with the recorded ratios.

Prints what became worse, then a summary of both directions; the exit code is 1 if anything did and
nothing is written.
"""

import argparse
import re
import sys

from tpulite_testing.two_way.cases import pairs
from tpulite_testing.two_way.table import (
    PATH,
    measure,
    read_rows,
    summary,
    worse,
    write_rows,
)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the ratios")
    parser.add_argument("--only", default="", metavar="REGEX", help="only what matches")
    arguments = parser.parse_args()
    every = list(pairs())
    recorded = read_rows() if PATH.exists() else {}
    rows = []
    for number, pair in enumerate(every, 1):
        if not re.search(arguments.only, " ".join(pair.key)):
            continue
        if sys.stderr.isatty():
            print(f"\r{number} of {len(every)}: {' '.join(pair.key):<60}", end="", file=sys.stderr)
        try:
            rows.append(measure(pair))
        except RuntimeError as error:
            print(f"SKIPPED {' '.join(pair.key)}: {error}")
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
