"""Order of tests for several workers: what builds or simulates first, what is quick fills up.

Workers of pytest-xdist begin with equal parts of the list and then take from each other's ends.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["dealt"]

_T = TypeVar("_T")

_FIRST = tuple(
    f"tb/system/test_{name}.py"
    for name in ("batch_networks", "litex", "mlp", "silicon", "faults", "ram_macros")
)
"""Each builds something large that others need or that only it needs, dealt out in turns."""

_SLOW = (*_FIRST, "tb/system/", "tb/unit/", "formal/")


def dealt(items: Sequence[tuple[str, _T]], workers: int) -> list[_T]:
    """Return items so that each worker's part begins with its share of the slow files.

    Parameters
    ----------
    items : sequence of (str, object)
        The path of a file below the checkout, and something of it.
    workers : int
        Into how many equal parts the list is going to be cut.

    Examples
    --------
    >>> quick = [("sw/a.py", 1), ("sw/a.py", 2), ("sw/b.py", 3)]
    >>> dealt([*quick, ("tb/unit/c.py", 4), ("tb/unit/d.py", 5), ("tb/system/e.py", 6)], 2)
    [6, 5, 1, 4, 2, 3]
    """
    files: dict[str, list[_T]] = {}
    for path, item in items:
        files.setdefault(path, []).append(item)
    slow = sorted((path for path in files if path.startswith(_SLOW)), key=_rank)
    quick = [item for path, item in items if not path.startswith(_SLOW)]
    shares: list[list[_T]] = [[] for _ in range(workers)]
    for number, path in enumerate(slow):
        shares[number % workers] += files[path]
    result: list[_T] = []
    for number, share in enumerate(shares, start=1):
        free = len(items) * number // workers - len(result) - len(share)
        result += [*share, *quick[: max(free, 0)]]
        quick = quick[max(free, 0) :]
    return result + quick


def _rank(path: str) -> int:
    return next(rank for rank, start in enumerate(_SLOW) if path.startswith(start))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]):
    """Order the tests that all others leave, if several workers run them."""
    yield
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        paths = [item.path.relative_to(config.rootpath).as_posix() for item in items]
        items[:] = dealt(list(zip(paths, items, strict=True)), workers)
