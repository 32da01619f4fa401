"""An exported folder stands alone: it builds, and tests itself on a PC."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tpulite.arch.config import Config
from tpulite.export import (
    ExportedNetwork,
    References,
    export_files,
    export_network,
    reference_runs,
)
from tpulite.models import CNN_DIGITS
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.exported import selftest_on_pc

RV32 = "riscv64-unknown-elf-"

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)


@pytest.fixture(scope="module")
def network() -> tuple[ExportedNetwork, References]:
    """Return a network and its reference run."""
    model = Model.load(CNN_DIGITS, config=Config())
    (x,) = random_inputs(model.graph, 1, 1).values()
    references = reference_runs(model, {model.graph.inputs[0]: x.reshape(1, 1, 16, 16, 1)})
    return export_network(model), references


@pytest.fixture(scope="module")
def exported(network, tmp_path_factory) -> Path:
    """Return the folder of a network; a test that changes it takes a copy."""
    folder = tmp_path_factory.mktemp("exported") / "digits"
    export_files(network[0], network[1], "digits", folder)
    return folder


def test_it_tests_itself_without_a_chip(exported):
    passed = "digits: passed, every byte is right (1 program of the chip replayed)"
    assert selftest_on_pc(exported) == (0, passed)


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("pc/selftest.c", "wrong bytes: 1 of the chip's inputs, 0 of the outputs"),
        ("digits_selftest.c", "wrong bytes: 0 of the chip's inputs, 1 of the outputs"),
    ],
)
def test_a_wrong_byte_is_found(exported, tmp_path, file, what):
    folder = shutil.copytree(exported, tmp_path / "digits", ignore=lambda *_: ["build"])
    path = folder / file
    first = re.compile(r"(const u?int8_t (?:read_0_0|expected_0)\[\d+\] = {)(-?\d+)")
    text, count = first.subn(lambda found: f"{found[1]}{int(found[2]) ^ 1}", path.read_text())
    assert count == 1
    path.write_text(text)
    code, said = selftest_on_pc(folder)
    assert code != 0 and what in said


@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is missing (Debian: cmake)")
def test_cmake_builds_and_tests_it(exported, tmp_path):
    for command in (["cmake", "-S", exported, "-B", tmp_path], ["cmake", "--build", tmp_path]):
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(["ctest", "--test-dir", tmp_path], capture_output=True, text=True)
    assert "100% tests passed" in done.stdout and "out of 1" in done.stdout


def test_without_a_record_there_is_no_selftest_and_all_else_builds(network, tmp_path):
    tensors, references = network
    export_files(tensors, replace(references, runs=()), "digits", tmp_path)
    assert not (tmp_path / "pc").exists()
    for file in ("README.md", "Makefile", "CMakeLists.txt"):
        text = (tmp_path / file).read_text()
        assert "make selftest" not in text and "digits_selftest()" in text and "@if" not in text
    subprocess.run(["make"], cwd=tmp_path, check=True, capture_output=True)
    if shutil.which("cmake"):
        build = tmp_path / "cmake"
        for command in (["cmake", "-S", tmp_path, "-B", build], ["cmake", "--build", build]):
            subprocess.run(command, check=True, capture_output=True)


def test_other_flags_build_everything_again(exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "digits", ignore=lambda *_: ["build"])

    def made(*words: str) -> int:
        done = subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.count(" -c ")

    count = len([path for path in folder.glob("*.c") if path.name != "main.c"])
    assert [made(), made(), made("TARGET=-DX"), made("TARGET=-DX")] == [count, 0, count, 0]


@pytest.mark.skipif(
    shutil.which(f"{RV32}gcc") is None,
    reason=f"{RV32}gcc is missing (Debian: gcc-riscv64-unknown-elf)",
)
def test_the_library_builds_without_a_libc(exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "digits", ignore=lambda *_: ["build"])
    words = (f"CROSS={RV32}", "TARGET=-march=rv32imc -mabi=ilp32")
    subprocess.run(["make", *words], cwd=folder, check=True, capture_output=True)
    assert (folder / "build" / "libdigits.a").stat().st_size > 0


def test_only_an_edited_main_is_kept(network, tmp_path):
    main = tmp_path / "main.c"
    export_files(network[0], network[1], "digits", tmp_path)
    written = export_files(network[0], network[1], "renamed", tmp_path)
    assert main in written and "renamed_selftest(" in main.read_text()
    assert "digits.c" not in (tmp_path / "Makefile").read_text()
    edited = main.read_text() + "/* mine */\n"
    main.write_text(edited)
    assert main not in export_files(network[0], network[1], "renamed", tmp_path)
    assert main.read_text() == edited


def test_its_readme_has_every_word(exported):
    text = (exported / "README.md").read_text()
    assert "@" not in text
    assert "static int8_t input_0[256];\nstatic int8_t output_0[10];\n" in text
    assert "| input 0 | image | int8 | 1x16x16x1 | 0.00787401572 | 0 |" in text


def test_no_libc_is_called_by_name(exported, tmp_path):
    """Compilers may call memcpy and memset, as the README says."""
    sources = [path for path in exported.glob("*.c") if path.name != "main.c"]
    flags = ["-std=c99", "-Os", "-ffreestanding", "-fstack-usage", "-r", "-nostdlib"]
    subprocess.run(["gcc", *flags, *sources, "-o", tmp_path / "all.o"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["nm", "-u", tmp_path / "all.o"], capture_output=True, text=True, check=True
    )
    assert {line.split()[-1] for line in done.stdout.splitlines()} <= {"memcpy", "memset"}
    frames = [
        int(line.split("\t")[1])
        for path in tmp_path.rglob("*.su")
        for line in path.read_text().splitlines()
    ]
    assert len(frames) > 10
    deepest = 6  # selftest, run, run_program, tpulite_run, tpulite_start, an access to a register
    assert sum(sorted(frames)[-deepest:]) <= 1024
