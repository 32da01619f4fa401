"""Evidence: what a deterministic tool found, of contents that have not changed since.

Synthesis and proofs of a component find the same each time, so ``make test`` asks for them only if
the component, the tool or what judges its results is not what ``evidence.csv`` was recorded of.
``make regress`` asks always; ``make evidence`` asks for what is stale, and records it.

What takes hours (mutants, coverage, all proofs, flipped bits) has a digest in the same table for
each row; ``scripts/refresh_evidence.py`` says which are stale and measures them again.
"""

import ast
import csv
import fcntl
import hashlib
import io
import os
import re
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tpulite_testing.quick_options import REGRESS

__all__ = [
    "EVIDENCE",
    "canonical",
    "code_of",
    "digest_of",
    "evidence",
    "read_evidence",
    "record",
    "sources_of",
]

EVIDENCE = Path(__file__).resolve().parents[2] / "tb/evidence.csv"
"""Names of what was found, and digests of what it was found of."""

RECORD = "TPULITE_RECORD"
"""Environment variable under which what was found is recorded."""

_NAME = re.compile(r"^[\\$][^\s]+")


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
    digest = digest_of(*contents)
    stale = bool(REGRESS) or read_evidence(table).get(name) != digest
    yield stale
    if stale and os.environ.get(RECORD):
        record({name: digest}, table=table)


def digest_of(*contents: str) -> str:
    """Return the digest of what something was found of."""
    return hashlib.sha256("\0".join(contents).encode()).hexdigest()[:16]


def canonical(rtlil: str) -> str:
    """Return RTLIL without where it comes from, and with its names in the order of their use.

    Comments, moved lines and other names of signals leave it as it is; initial values do not.
    """
    names: dict[str, str] = {}
    lines: list[str] = []
    inside = False  # of a cell, whose ports are names of its type
    for words in map(str.split, rtlil.splitlines()):
        if not words or (words[0] == "attribute" and words[1] != "\\init"):
            continue
        if words[0] in ("cell", "end", "module", "process", "memory"):
            inside = words[0] == "cell"
        of_its_type = inside and (words[0] != "cell" or words[1].startswith("$"))
        kept = 2 if words[0] in ("parameter", "attribute") or of_its_type else 1
        changed = (
            _NAME.sub(lambda m: names.setdefault(m[0], f"n{len(names)}"), w) for w in words[kept:]
        )
        lines.append(" ".join([*words[:kept], *changed]))
    return "\n".join(lines)


def code_of(source: str) -> str:
    """Return Python without comments, docstrings and empty lines, alike in all versions of it."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            for row in range(text.lineno, (text.end_lineno or 0) + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def sources_of(*paths: Path) -> str:
    """Return the code of Python files, and of all in folders, in an order that stays."""
    files = [file for path in paths for file in (sorted(path.glob("*.py")) or [path])]
    return "\0".join(code_of(file.read_text(encoding="utf-8")) for file in files)


def read_evidence(table: Path = EVIDENCE) -> dict[str, str]:
    """Return the digests by name."""
    if not table.exists():
        return {}
    with table.open(encoding="utf-8", newline="") as lines:
        return {row["name"]: row["digest"] for row in csv.DictReader(lines)}


def record(digests: Mapping[str, str], *, table: Path = EVIDENCE) -> None:
    """Record digests by name; tests in other processes may do the same."""
    with table.open("a+", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        rows = read_evidence(table) | dict(digests)
        file.seek(0)
        file.truncate()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "digest"))
        writer.writerows(sorted(rows.items()))
