import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", ["numerics.md"])
def test_examples_are_true(name):
    failed, tried = doctest.testfile(str(DOCS / name), module_relative=False)
    assert tried > 0
    assert failed == 0
