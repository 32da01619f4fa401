"""Compare what the compiler makes of the replay corpus with what is recorded, or record it anew.

Prints what differs, the largest loss first; the exit code is 1 if anything does and nothing is
written.
"""

import argparse
import re
import sys

from tpulite_testing.replay.compare import table
from tpulite_testing.replay.corpus import FULL, QUICK, Part, Replay
from tpulite_testing.replay.record import read_records, write_records


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the records")
    parser.add_argument("--full", action="store_true", help="all cases, not only the quick part")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose names match")
    arguments = parser.parse_args()
    parts = (QUICK, FULL) if arguments.full else (QUICK,)
    return max(_replay(part, arguments.only, arguments.write) for part in parts)


def _replay(part: Part, only: str, write: bool) -> int:
    """Compare or write a part; return the exit code."""
    every = part.cases()
    chosen = [case for case in every if re.search(only, case.name)]
    progress = f"{part.name}: {len(chosen)} cases" if sys.stderr.isatty() else ""
    replay = Replay.of(chosen, _Counter(progress) if progress else lambda _: None)
    found = replay.changes(part, chosen if only else None)
    print(f"{part.name}: {len(chosen)} of {len(every)} cases")
    for reason in dict.fromkeys(replay.skipped.values()):
        names = [name for name, why in replay.skipped.items() if why == reason]
        print(f"SKIPPED {len(names)} cases, not compared: {reason}")
    if found:
        print(table(found))
    if write:
        kept = read_records(part.path)
        stay = {case.name for case in every} - {record.case for record in replay.records}
        kept = [record for name, record in kept.items() if name in stay]
        write_records(part.path, [*kept, *replay.records])
        return 0
    return int(bool(found))


class _Counter:
    """Shows on a terminal which case is compiled."""

    def __init__(self, text: str) -> None:
        self._text, self._count = text, 0

    def __call__(self, name: str) -> None:
        self._count += 1
        print(f"\r{self._text}, {self._count}: {name:<60}", end="\r", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
