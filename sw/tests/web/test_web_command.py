"""The command that builds the page says what it needs."""

import sys

import pytest

from tpulite_web.__main__ import main


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "make web needs Emscripten (800 MB); on Debian: apt install emscripten\n"),
        (["--config", "16x16"], "16x16: the page has chips of 4x4 and 8x8\n"),
    ],
)
def test_what_is_missing_or_wrong_is_a_line(options, message, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tpulite_web", *options, "-o", str(tmp_path / "page")])
    assert main() == 2
    assert capsys.readouterr().err == message
    assert not (tmp_path / "page").exists()
