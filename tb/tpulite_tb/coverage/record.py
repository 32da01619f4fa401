"""The committed table of coverage, by component."""

import csv
from pathlib import Path

from tpulite_tb.coverage.summary import KINDS, Share, Shares

__all__ = ["read_record", "write_record"]

_PARTS = ("reached", "waived", "points")


def write_record(shares: Shares, path: Path) -> None:
    """Write what was reached of each component, by kind."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["component", "kind", *_PARTS])
        for name, each in shares.items():
            for kind, share in each.items():
                if share.points:
                    writer.writerow([name, kind, share.reached, share.waived, share.points])


def read_record(path: Path) -> Shares:
    """Return what :func:`write_record` has written."""
    shares: Shares = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            kinds = shares.setdefault(row["component"], dict.fromkeys(KINDS, Share()))
            kinds[row["kind"]] = Share(*(int(row[part]) for part in _PARTS))
    return shares
