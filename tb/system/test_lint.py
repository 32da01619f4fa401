"""Verilator's lint of the chip: nothing but what ``lint.vlt`` gives a reason for."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import tpulite_rtl
from tpulite_tb.machines import FEW_LANES, INT4, INT16, SMALL, TRANSPOSING
from tpulite_testing.regress import thinned
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.toolchain import verilator_environment

WAIVERS = Path(tpulite_rtl.__file__).parent / "lint.vlt"
CONFIGS = {
    "small": SMALL,
    "few_lanes": FEW_LANES,
    "int16": INT16,
    "transposing": TRANSPOSING,
    "int4": INT4,
}

FAULTY = """
module tpulite(input clk, input [7:0] a, output [3:0] o, output reg p, output reg q, output r);
  assign o = a;
  always @* if (a[0]) p = a[1];
  always @(posedge clk) q <= a[2];
  always @(negedge clk) q <= a[3];
  wire s;
  assign r = s;
endmodule
"""


def warnings(folder: Path, verilog: str, *files: Path) -> set[str]:
    """Return the rules that the text breaks, with ``files`` before it."""
    source = folder / "tpulite.v"
    source.write_text(verilog)
    command = ["verilator", "--lint-only", "-Wall", "-Wno-fatal", "--top-module", "tpulite"]
    done = subprocess.run(
        [*command, *files, source],
        env=os.environ | verilator_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^%Warning-(\w+)", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("name", thinned(CONFIGS, "small", "int16", reason="the same sources"))
def test_every_warning_has_a_reason(name: str, tmp_path: Path) -> None:
    assert warnings(tmp_path, cached_verilog(CONFIGS[name]), WAIVERS) == set()


@pytest.mark.regress("a waiver that nothing needs is not wrong, only old")
def test_every_waiver_is_needed(tmp_path: Path) -> None:
    waived = set(re.findall(r"^lint_off -rule (\w+)", WAIVERS.read_text(), re.MULTILINE))
    found = set[str]()
    for config in CONFIGS.values():
        found |= warnings(tmp_path, cached_verilog(config))
    assert found == waived


def test_waivers_hide_no_mistake(tmp_path: Path) -> None:
    found = warnings(tmp_path, FAULTY, WAIVERS)
    assert {"WIDTHTRUNC", "LATCH", "MULTIDRIVEN", "UNDRIVEN"} <= found, found
