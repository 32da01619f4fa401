"""Packages whose own needs are not installed are not collected for their doctests."""

from importlib.util import find_spec
from pathlib import Path

_NEEDS = {"tpulite_litex": "litex"}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out such a package; say nothing of all others."""
    need = _NEEDS.get(collection_path.name)
    return True if need and find_spec(need) is None else None
