"""Progress of builds: how many files there are, and what is shown of a wait."""

import multiprocessing
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tpulite_verilated.progress import object_files
from tpulite_verilated.toolchain import build_once

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


def test_a_wait_for_another_build_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("TPULITE_BUILD", str(tmp_path))
    context = multiprocessing.get_context("fork")
    started, go = context.Event(), context.Event()
    other = context.Process(target=_build_slowly, args=(started, go))
    other.start()
    assert started.wait(60)

    # The text is shown before the wait, so whoever shows it may let the other one go.
    def show(text: str) -> AbstractContextManager[None]:
        print(text)
        go.set()
        return nullcontext()

    monkeypatch.setattr("tpulite_verilated.toolchain.show_step", show)
    folder = build_once("slow", ["x"], lambda folder: pytest.fail("it is built twice"))
    other.join()
    assert (folder / "made").exists()
    assert f"Waiting for another process that builds {folder}" in capsys.readouterr().out
