"""A pytest plugin for mutants of sources: the quickest tests first, and no smaller counterexamples.

mutmut's fork server hands tests over in any order; what kills most mutants takes milliseconds.
"""

import json
from pathlib import Path

import pytest
from hypothesis import Phase, settings

_STATS = Path("mutmut-stats.json")


def pytest_configure() -> None:
    """Leave out the phases of hypothesis that only make a failure shorter."""
    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutants")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order tests by the time that each took without a mutant."""
    if _STATS.exists():
        seconds = json.loads(_STATS.read_text())["duration_by_test"]
        items.sort(key=lambda item: seconds.get(item.nodeid, 0))
