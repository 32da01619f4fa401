"""Try hostile files: mutants of small whole ones, by the commands that read them, under limits.

Prints what was wrong with each mutant that was not taken as it must, and keeps it in build/hostile;
the exit code is 1 if there was any. A number always means the same mutant.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from tpulite_testing.hostile.language import LANGUAGE
from tpulite_testing.hostile.trials import trials

_FOLDER = Path(__file__).parents[1] / "build" / "hostile"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument(
        "--kind", choices=LANGUAGE, default="", help="of files with language, states or floats"
    )
    parser.add_argument("numbers", type=int, nargs="*", help="only these")
    arguments = parser.parse_args()
    numbers = arguments.numbers or range(arguments.first, arguments.first + arguments.count)
    taken: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    found = 0
    folder = _FOLDER / f"{arguments.kind}{arguments.first}"
    for trial in trials(numbers, folder, arguments.kind):
        tried[trial.kind] += 1
        taken[trial.kind] += trial.taken
        if trial.problem:
            found += 1
            print(trial, flush=True)
    for kind, count in tried.items():
        print(f"{kind:11} {count:7,} mutants, {taken[kind]:7,} taken, the others refused")
    print(f"{sum(tried.values()):,} mutants, {found} findings")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
