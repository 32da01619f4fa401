"""Mutants of compiled programs, and what notices each: a table, a kind of change a line."""

import argparse
from collections import Counter

from tpulite_testing.mutants.judges import Verdict, verdicts
from tpulite_testing.mutants.programs import KINDS


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="seed of the first network")
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--each", type=int, default=4, help="mutants of a kind and network")
    arguments = parser.parse_args()
    counts: Counter[tuple[str, Verdict]] = Counter()
    for seed in range(arguments.first, arguments.first + arguments.networks):
        for kind, _, verdict in verdicts(seed, arguments.each):
            counts[kind, verdict] += 1
    print("| change | mutants |", " | ".join(Verdict), "|")
    print("| --- |" + " ---: |" * (1 + len(Verdict)))
    for kind in (*KINDS, "all"):
        row = [
            sum(n for (k, v), n in counts.items() if kind in (k, "all") and v == verdict)
            for verdict in Verdict
        ]
        print(f"| {kind} | {sum(row):,} |", " | ".join(f"{n:,}" for n in row), "|")


if __name__ == "__main__":
    main()
