"""What is built once belongs to the user alone, and only then is it loaded."""

import os

import pytest

from tpulite_verilated import toolchain
from tpulite_verilated.library import load_library
from tpulite_verilated.toolchain import build_once, require_own

SOURCE = "chip.so"


@pytest.fixture
def built(tmp_path, monkeypatch):
    monkeypatch.setenv("TPULITE_BUILD", str(tmp_path))
    before = os.umask(0)
    try:
        return build_once("kind", ["contents"], lambda folder: (folder / SOURCE).touch()) / SOURCE
    finally:
        os.umask(before)


def test_nobody_else_may_write_what_is_built(built):
    require_own(built)
    assert not (built.stat().st_mode | built.parent.stat().st_mode) & 0o022


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("of_folder", [False, True])
def test_what_others_may_write_is_not_loaded(built, mode, of_folder):
    path = built.parent if of_folder else built
    path.chmod(path.stat().st_mode | mode)
    with pytest.raises(RuntimeError, match=r"another user's code: remove .*kind/\w+, and it"):
        load_library(built)


def test_what_another_user_owns_is_not_loaded(built, monkeypatch):
    monkeypatch.setattr(toolchain.os, "getuid", lambda: built.stat().st_uid + 1)
    if built.stat().st_uid:
        with pytest.raises(RuntimeError, match="another user's code"):
            require_own(built)
    else:
        require_own(built)  # root may write everything anyway
