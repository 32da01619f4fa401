"""pytest imports test files by their names alone: two of one name would end the whole run."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_two_test_files_share_a_name():
    files = [path for top in ("sw", "tb") for path in (ROOT / top).rglob("*.py")]
    tests = [path.name for path in files if path.name.startswith(("test_", "conftest"))]
    assert len(tests) > 100
    assert [name for name, count in Counter(tests).items() if count > 1] == []
