import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tpulite.arch.registers import Fault, offset_of

ROOT = Path(__file__).resolve().parents[2]
HEADER = "sw/tpulite/firmware/tpulite_regs.h"


def gen_docs(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts/gen_docs.py", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_generated_files_are_fresh():
    result = gen_docs("--check")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", ["docs/isa.md", HEADER])
def test_a_stale_file_is_named(tmp_path, name):
    assert gen_docs("--root", tmp_path).returncode == 0
    assert gen_docs("--root", tmp_path, "--check").returncode == 0
    path = tmp_path / name
    path.write_text(path.read_text().replace("STOP", "HALT"))
    result = gen_docs("--root", tmp_path, "--check")
    assert result.returncode == 1
    assert (
        result.stdout
        == f"{name} is not what tpulite.arch says now: run `make docs` and commit it\n"
    )


@pytest.mark.parametrize("script", ["dashboard.py", "machine_pictures.py", "ports_page.py"])
def test_what_a_script_writes_is_fresh(script):
    command = [sys.executable, ROOT / "scripts" / script, "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing (Debian: apt install g++)")
def test_the_header_compiles(tmp_path):
    source = tmp_path / "use.cpp"
    source.write_text(
        '#include "tpulite_regs.h"\n'
        f'static_assert(TPULITE_MXU_BUSY == {offset_of("MXU_BUSY")}, "offset");\n'
        f'static_assert(TPULITE_FAULT_RECORD == {int(Fault.RECORD)}, "fault");\n'
    )
    folder = (ROOT / HEADER).parent
    options = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder}"]
    subprocess.run(["g++", *options, source], check=True)
