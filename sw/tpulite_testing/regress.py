"""Breadth: cases that only ``make regress`` (``$TPULITE_REGRESS``) runs, each with its reason.

``make test`` must end while somebody waits. A case is breadth if others of ``make test`` take the
same ways through the code.
"""

import itertools
from collections.abc import Iterable

import pytest

from tpulite_testing.quick_options import REGRESS

__all__ = ["REGRESS", "alternate", "breadth", "thinned"]


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


def alternate(rows: Iterable[object], columns: Iterable[object]) -> list[object]:
    """Return all pairs, of which ``make test`` runs every other one, as the white of a chessboard.

    For cases that fail in one of two ways, of their row or of their column: each value of both
    occurs with half of the other's.

    Examples
    --------
    >>> [case for case in alternate("ab", "xyz") if type(case) is tuple]
    [('a', 'x'), ('a', 'z'), ('b', 'y')]
    """
    table = [list(enumerate(axis)) for axis in (rows, columns)]
    pairs = [((a, b), (i + j) % 2 == 0) for (i, a), (j, b) in itertools.product(*table)]
    kept = [pair for pair, white in pairs if white]
    others = [pair for pair, white in pairs if not white]
    return [*kept, *breadth("each of the two occurs with others", *others)]


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
