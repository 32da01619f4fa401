"""Only files with an example (``>>>``) are collected for their doctests.

pytest imports every file that it looks for doctests in, and reads every object of it: of a thousand
files fewer than a hundred have one.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

_NEEDS = {"tpulite_litex": "litex"}
"""Packages that need another one, which may be missing."""


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path):
    """Leave out collectors of doctests where there are none."""
    collectors = yield
    if file_path.suffix != ".py" or ">>>" in file_path.read_text():
        return collectors
    return [collector for collector in collectors if type(collector) is pytest.Module]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out a package whose own needs are not installed; say nothing of all others."""
    need = _NEEDS.get(collection_path.name)
    return True if need and find_spec(need) is None else None
