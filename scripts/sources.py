"""Run the examples of the pages and compare what they print with the pages.

``--write`` writes it there instead. Pages may be named; all of them are read without.
"""

import argparse
import sys
from pathlib import Path

from cogapp import Cog

from console import Page

ROOT = Path(__file__).resolve().parents[1]
PROLOGUE = (
    "from console import Page, files, picture, python, recorded, show, source; "
    "Page.begin(cog.inFile)"
)


def pages_with_examples() -> list[Path]:
    """Return the README and the documents that have examples."""
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    return [page for page in pages if "[[[cog " in page.read_text()]


def main() -> int:
    """Compare or write the pages; 1 if one is stale or an example fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write what the examples print")
    parser.add_argument("pages", nargs="*", type=Path, help="pages (all that have examples)")
    options = parser.parse_args()
    Page.writes_pictures = options.write
    pages = [str(page.resolve()) for page in options.pages or pages_with_examples()]
    how = ["-r"] if options.write else ["--check", "--diff"]
    hint = "--check-fail-msg=run `make sources WRITE=1` and commit what it changes"
    return Cog().main(["cog", *how, hint, "-P", "--verbosity=1", "-p", PROLOGUE, *pages])


if __name__ == "__main__":
    sys.exit(main())
