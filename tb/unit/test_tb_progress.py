"""Progress of builds: how many files there are, and who waits for whom."""

import multiprocessing
from pathlib import Path

import pytest

from tpulite_rtl.verilated.progress import object_files
from tpulite_rtl.verilated.toolchain import build_once

CLASSES = """VM_PARALLEL_BUILDS = {parallel}
VM_CLASSES_FAST += \\
  Vtop \\
  Vtop___024root__0 \\

VM_CLASSES_SLOW += \\

VM_SUPPORT_FAST += \\
  Vtop__Dpi \\

VM_GLOBAL_FAST += \\
  verilated \\
  verilated_threads \\

VM_GLOBAL_SLOW += \\

"""


@pytest.mark.parametrize(("parallel", "files"), [(1, 3 + 2 + 1), (0, 1 + 2 + 1)])
def test_object_files_are_those_of_the_makefile(tmp_path: Path, parallel: int, files: int) -> None:
    assert object_files(tmp_path) is None
    (tmp_path / "Vtop_classes.mk").write_text(CLASSES.format(parallel=parallel))
    assert object_files(tmp_path) == files


def _build_slowly(started, go) -> None:
    def build(folder: Path) -> None:
        started.set()
        go.wait()
        (folder / "made").write_text("there")

    build_once("slow", ["x"], build)


def test_who_waits_for_another_build_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("TPULITE_BUILD", str(tmp_path))
    context = multiprocessing.get_context("fork")
    started, go = context.Event(), context.Event()
    other = context.Process(target=_build_slowly, args=(started, go))
    other.start()
    assert started.wait(60)
    # The line is written before the wait, so whoever writes it may let the other one go.
    monkeypatch.setattr("tpulite_rtl.verilated.toolchain.tell", lambda x: (print(x), go.set()))
    folder = build_once("slow", ["x"], lambda folder: pytest.fail("it is built twice"))
    other.join()
    assert (folder / "made").exists()
    assert f"Waiting for another process that builds {folder}" in capsys.readouterr().out
