"""Evidence: what a deterministic tool found, of contents that have not changed since.

Synthesis and proofs of a component find the same each time, so ``make test`` asks for them only if
the component, the tool or what judges its results is not what ``evidence.csv`` was recorded of.
``make regress`` asks always; ``make evidence`` asks for what is stale, and records it.
"""

import csv
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpulite_testing.quick_options import REGRESS

__all__ = ["EVIDENCE", "evidence", "sources_of"]

EVIDENCE = Path(__file__).resolve().parents[2] / "tb/evidence.csv"
"""Names of what was found, and digests of what it was found of."""

RECORD = "TPULITE_RECORD"
"""Environment variable under which what was found is recorded."""


@contextmanager
def evidence(name: str, *contents: str, table: Path = EVIDENCE) -> Iterator[bool]:
    """Yield whether a finding is stale: the body then finds it again, and raises if it is not so.

    Parameters
    ----------
    name : str
        What is found.
    *contents : str
        Everything that it depends on: component, versions of tools, sources of what judges.
    table : Path
        Where digests are recorded.
    """
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()[:16]
    stale = bool(REGRESS) or _read(table).get(name) != digest
    yield stale
    if stale and os.environ.get(RECORD):
        _write(table, name, digest)


def sources_of(*paths: Path) -> str:
    """Return the text of Python files, and of all in folders, in an order that stays."""
    files = [file for path in paths for file in (sorted(path.glob("*.py")) or [path])]
    return "\0".join(file.read_text(encoding="utf-8") for file in files)


def _read(table: Path) -> dict[str, str]:
    """Return the digests by name."""
    if not table.exists():
        return {}
    with table.open(encoding="utf-8", newline="") as lines:
        return {row["name"]: row["digest"] for row in csv.DictReader(lines)}


def _write(table: Path, name: str, digest: str) -> None:
    """Record a digest; tests in other processes may do the same."""
    with table.open("a+", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        rows = _read(table) | {name: digest}
        file.seek(0)
        file.truncate()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "digest"))
        writer.writerows(sorted(rows.items()))
