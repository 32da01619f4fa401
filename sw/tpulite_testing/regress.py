"""Breadth: cases that only ``make regress`` (``$TPULITE_REGRESS``) runs, each with its reason.

``make test`` must end while somebody waits. A case is breadth if others of ``make test`` take the
same ways through the code.
"""

from collections.abc import Iterable

import pytest

from tpulite_testing.quick_options import REGRESS

__all__ = ["REGRESS", "breadth", "thinned"]


def breadth(reason: str, *cases: object) -> list[object]:
    """Return cases for ``pytest.mark.parametrize`` that only ``make regress`` runs.

    Parameters
    ----------
    reason : str
        Why the cases beside them are enough for ``make test``.
    *cases
        Values of one parameter, or tuples of values of several.
    """
    mark = pytest.mark.regress(reason)
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark) for case in cases
    ]


def thinned(cases: Iterable[object], *kept: object, reason: str) -> list[object]:
    """Return all cases, of which ``make test`` runs but those that are ``kept``."""
    every = list(cases)
    if unknown := [case for case in kept if case not in every]:
        raise ValueError(f"{unknown} are not among the cases")
    others = [case for case in every if case not in kept]
    return [*kept, *breadth(reason, *others)]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", "regress(reason): breadth, which only `make regress` runs")


@pytest.hookimpl(trylast=True)  # others count the cases
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave breadth out of everything but ``make regress``."""
    if REGRESS:
        return
    left = {item for item in items if item.get_closest_marker("regress")}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]
