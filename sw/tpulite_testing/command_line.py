"""What the tests of the command line share."""

import sys
from contextlib import nullcontext

import pytest

from tpulite import cli
from tpulite.runtime.compile_cache import ProgramCache
from tpulite_testing.kept import compiling_anew


@pytest.fixture
def own_programs():
    """Keep the programs of this test in the cache of its own folder, which is empty."""


@pytest.fixture
def tpulite(request, monkeypatch, tmp_path, capsys):
    """Run the command line in a folder of its own; return exit code, stdout and stderr.

    All tests share compiled programs, whose names say what they are made of, the compiler's sources
    included: most compile the same network, and are about what is said of it. A test that changes
    the compiler or looks at the cache asks for ``own_programs``; ``--no-cache`` compiles.
    """
    own = "own_programs" in request.fixturenames
    if not own:
        shared = ProgramCache(request.config.rootpath / "build" / "programs")
        monkeypatch.setattr(ProgramCache, "default", lambda: shared)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TPULITE_CACHE", str(tmp_path / "cache"))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tpulite", *map(str, words)])
        anew = compiling_anew() if own or "--no-cache" in words else nullcontext()
        with anew, pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run
