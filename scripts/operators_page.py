"""Write docs/operators.md: which operators run where, and why not; ``--check`` writes nothing.

Where they run is found out with drawn networks of one operator, why they do not in the source.
"""

import argparse
import sys
from pathlib import Path

from generated import write_or_compare
from tpulite_testing.operators.conditions import Conditions
from tpulite_testing.operators.page import page
from tpulite_testing.operators.probe import Probe

ROOT = Path(__file__).resolve().parents[1]
NAME = "docs/operators.md"


def main() -> int:
    """Write or compare the page; 1 if it is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the tree to write to")
    options = parser.parse_args()
    files = {NAME: page(Probe(), Conditions())}
    return write_or_compare(options.root, files, check=options.check, source="what the code says")


if __name__ == "__main__":
    sys.exit(main())
