"""Write the page: ``python -m tpulite_web [--config 4x4] [-o build/web]``."""

import argparse
import sys
from pathlib import Path

from tpulite.atomic import write_whole
from tpulite_web.chip import require_compiler
from tpulite_web.contents import SIZES, page_facts
from tpulite_web.page import page_text


def main() -> int:
    """Build the chips and the page; return 2 if that is impossible."""
    parser = argparse.ArgumentParser(prog="tpulite_web", description=__doc__)
    parser.add_argument("--config", help=f"array of the chip: {' or '.join(SIZES)}; default: both")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/web"), help="folder")
    options = parser.parse_args()
    if options.config and options.config not in SIZES:
        print(f"{options.config}: the page has chips of {' and '.join(SIZES)}", file=sys.stderr)
        return 2
    try:
        require_compiler()
        names = (options.config,) if options.config else SIZES
        print(f"Building {' and '.join(names)} as WebAssembly, unless they are built …", flush=True)
        text = page_text(page_facts(names))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "index.html"
    write_whole(path, lambda partial: partial.write_text(text))
    print(f"{path}: {len(text):,} bytes; open it in a browser, or serve it:")
    print(f"  python -m http.server -d {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
