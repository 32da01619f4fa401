"""The test bench in plain Verilog runs a digit on the chip, and finds golden's bytes in memory."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tpulite.configs import named_config
from tpulite_verilated.library import cached_verilog

EXAMPLE = Path(__file__).parents[2] / "examples" / "verilog"
CONFIG = "4x4"


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not installed")
def test_the_plain_bench_passes_and_sees_a_wrong_byte(tmp_path):
    make = [sys.executable, EXAMPLE / "make_data.py", CONFIG, tmp_path]
    subprocess.run(make, check=True, capture_output=True)
    (tmp_path / "chip.v").write_text(cached_verilog(named_config(CONFIG), portable=True))
    compiler = ["iverilog", "-g2005", "-o", "tb", EXAMPLE / "tpulite_tb.v", "chip.v"]
    subprocess.run(compiler, cwd=tmp_path, check=True)
    run = [tmp_path / "tb"]
    said = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    passed = re.search(r"^PASS: (\d+) cycles$", said, re.MULTILINE)
    assert passed and int(passed[1]) > 1000

    # A host that does not start the chip.
    writes = (tmp_path / "writes.hex").read_text().splitlines()
    (tmp_path / "writes.hex").write_text("\n".join([*writes[:2], *writes[-1:]]) + "\n")
    compiler += ["-Ptpulite_tb.LIMIT=100"]
    subprocess.run(compiler, cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "FAIL: irq 0, fault 0, " in said
