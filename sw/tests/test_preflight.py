import os
import subprocess
import sys
from pathlib import Path

PREFLIGHT = Path(__file__).resolve().parents[2] / "scripts/preflight.sh"


def preflight(*args: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PATH": str(path)} if path else {})
    command = ["/bin/sh", PREFLIGHT, *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def fake_python(folder: Path, script: str) -> str:
    path = folder / "fake-python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_this_machine_passes():
    result = preflight(sys.executable)
    assert (result.returncode, result.stderr) == (0, "")


def test_each_missing_tool_gets_one_line(tmp_path):
    result = preflight(sys.executable, "icarus", path=tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "tpulite: make is missing: install it (Debian: make)",
        "tpulite: g++ is missing: install it (Debian: g++)",
        "tpulite: perl is missing: install it (Debian: perl)",
        "tpulite: iverilog is missing, which SIM=icarus needs: install it (Debian: iverilog)",
    ]


def test_tests_of_the_software_need_no_compiler_and_no_simulator(tmp_path):
    (tmp_path / "make").symlink_to("/bin/true")
    result = preflight(sys.executable, "none", path=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


def test_missing_python_is_one_line():
    result = preflight("python-of-nowhere")
    assert result.returncode == 1
    assert result.stderr.startswith("tpulite: python-of-nowhere is missing: install Python 3.11")
    assert len(result.stderr.splitlines()) == 1


def test_old_python_is_one_line(tmp_path):
    python = fake_python(tmp_path, 'test "$1" = --version && echo Python 3.9.2; exit 1')
    result = preflight(python)
    assert result.returncode == 1
    assert result.stderr.startswith(f"tpulite: {python} is Python 3.9.2: install Python 3.11")
    assert len(result.stderr.splitlines()) == 1


def test_python_without_venv_and_library_is_two_lines(tmp_path):
    python = fake_python(tmp_path, 'case "$2" in *version_info*) exit 0 ;; *) exit 1 ;; esac')
    result = preflight(python)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        f"tpulite: {python} has no venv: install it (Debian: python3-venv)",
        f"tpulite: {python} has no shared libpython: install it (Debian: libpython3-dev)",
    ]


def test_unknown_simulator_is_refused():
    result = preflight(sys.executable, "modelsim")
    assert result.returncode == 1
    assert result.stderr == "tpulite: SIM must be verilator or icarus, not modelsim\n"
