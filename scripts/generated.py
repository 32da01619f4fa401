"""Files that scripts write: written, or compared with what is there."""

from collections.abc import Mapping
from pathlib import Path


def write_or_compare(root: Path, files: Mapping[str, str], *, check: bool, source: str) -> int:
    """Write files; or compare them, name those that are stale, and return 1 if there are some.

    Parameters
    ----------
    check : bool
        Whether to write nothing.
    source : str
        What a stale file is not: ``what tpulite.arch says``.
    """
    stale = 0
    for name, text in files.items():
        path = root / name
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{name} is not {source} now: run `make docs` and commit it")
            stale = 1
    return stale
