"""What the tests of the command line share."""

import sys

import pytest

from tpulite import cli


@pytest.fixture
def tpulite(monkeypatch, tmp_path, capsys):
    """Run the command line in a folder of its own; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TPULITE_CACHE", str(tmp_path / "cache"))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tpulite", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run
