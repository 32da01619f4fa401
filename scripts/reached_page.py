"""Write docs/reached.md: which rewrites, and pairs of them, drawn networks reach.

``--check`` writes nothing.
"""

import argparse
import sys
from pathlib import Path

from tpulite_testing.reached.page import draw_all, page

ROOT = Path(__file__).resolve().parents[1]
NAME = "docs/reached.md"


def main() -> int:
    """Write or compare the page; 1 if it is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    options = parser.parse_args()
    text, path = page(draw_all()), ROOT / NAME
    if not options.check:
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        print(f"{NAME} is not what the code says now: run `python scripts/reached_page.py`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
