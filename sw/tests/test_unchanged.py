"""A check runs again if what it reads has changed, and after a failure; else it does not."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "unchanged.py"


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Run the script in a folder of its own; its check notes that it ran, and fails if told to."""
    spec = importlib.util.spec_from_file_location("unchanged", SCRIPT)
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool]\n")
    (tmp_path / "sw").mkdir()
    (tmp_path / "sw" / "a.py").write_text("a = 1\n")

    source = "open('ran', 'a').write('x'); raise SystemExit(len(open('fail').read()))"
    monkeypatch.setattr(sys, "argv", ["unchanged.py", "types", sys.executable, "-c", source])
    ran = tmp_path / "ran"
    ran.touch()

    def run(*, failing: bool = False) -> tuple[int, int]:
        """Return the exit code, and how often the check ran."""
        (tmp_path / "fail").write_text("x" * failing)
        before = len(ran.read_text())
        return script.main(), len(ran.read_text()) - before

    return run


def test_it_runs_once(check):
    assert [check() for _ in range(3)] == [(0, 1), (0, 0), (0, 0)]


@pytest.mark.parametrize("change", ["content", "name", "another", "removed", "settings"])
def test_it_runs_again_after_a_change(check, tmp_path, change):
    source = tmp_path / "sw" / "a.py"
    check()
    if change == "content":
        source.write_text("a = 2\n")
    elif change == "name":
        source.rename(source.with_name("b.py"))
    elif change == "another":
        source.with_name("b.py").touch()
    elif change == "removed":
        source.unlink()
    else:
        (tmp_path / "pyproject.toml").write_text("[tool.pyright]\n")
    assert check() == (0, 1)


def test_a_failure_is_not_kept(check, tmp_path):
    check()
    (tmp_path / "sw" / "a.py").write_text("a = 2\n")
    assert [check(failing=True), check(failing=True), check(), check()] == [
        (1, 1),
        (1, 1),
        (0, 1),
        (0, 0),
    ]
