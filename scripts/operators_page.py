"""Write docs/operators.md: which operators run where, and why not; ``--check`` writes nothing.

Where they run is found out with drawn networks of one operator, why they do not in the source.
"""

import argparse
import sys
from pathlib import Path

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
    text, path = page(Probe(), Conditions()), options.root / NAME
    if not options.check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        print(f"{NAME} is not what the code says now: run `make docs` and commit it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
