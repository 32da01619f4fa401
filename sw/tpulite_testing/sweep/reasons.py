"""Why shapes take more than twice their bound."""

import csv
import re
from collections.abc import Mapping
from pathlib import Path

from tpulite.bench.measured import OperatorRecord
from tpulite_testing.sweep.table import PATH

__all__ = ["FAR", "REASONS_PATH", "pattern_of", "read_reasons"]

REASONS_PATH: Path = PATH.with_name("reasons.csv")
"""Regular expressions of shapes, and a reason each."""

FAR = 2.0
"""A ratio above this needs a reason."""


def read_reasons() -> dict[str, str]:
    """Return the reasons by their patterns, in the order of the file."""
    with REASONS_PATH.open(newline="") as file:
        return {row["rows"]: row["reason"] for row in csv.DictReader(file)}


def pattern_of(row: OperatorRecord, reasons: Mapping[str, str]) -> str | None:
    """Return the first pattern that matches a row; None if none does."""
    name = " ".join(row.key[1:])
    return next((pattern for pattern in reasons if re.match(pattern, name)), None)
