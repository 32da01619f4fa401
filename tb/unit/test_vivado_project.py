"""What `make bitstream` hands to Vivado for 7-series boards: part, sources, pins, clocks."""

import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from tpulite.parts import FAMILY_PARTS
from tpulite_litex.boards import BOARDS

PROJECT = """
import sys
from pathlib import Path
from litex.soc.integration.builder import Builder
from tpulite_litex.boards import BOARDS, board_system
name, chip, folder = sys.argv[1:]
system = board_system(BOARDS[name], Path(chip))
Builder(system, output_dir=folder, compile_software=False).build(run=False)
"""
OSCILLATOR = 100e6

SERIES_7 = [name for name, board in BOARDS.items() if board.part in FAMILY_PARTS["7-series"]]

pytestmark = pytest.mark.skipif(
    find_spec("litex_boards") is None, reason="LiteX is missing (pip install '.[litex]')"
)


@pytest.fixture(scope="module", params=SERIES_7)
def project(request, tmp_path_factory) -> tuple[str, Path, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    chip = folder / "chip.v"
    chip.write_text("// read by other tools")
    command = [sys.executable, "-c", PROJECT, request.param, chip, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return request.param, folder / "gateware", chip


def only(gateware: Path, suffix: str) -> str:
    (path,) = gateware.glob(f"*{suffix}")
    return path.read_text()


def bits_of_ports(verilog: str) -> set[str]:
    """Return the top module's ports, bit by bit, as constraints name them."""
    (ports,) = re.findall(r"^module digilent_\w+ \(\n(.*?)^\);", verilog, re.MULTILINE | re.DOTALL)
    declared = re.findall(r"(?:in|out|inout)put? +\w+ +(?:\[(\d+):0\])? *(\w+)", ports)
    declared += re.findall(r"inout +wire +(?:\[(\d+):0\])? *(\w+)", ports)
    return {
        f"{name}[{bit}]" if last else name
        for last, name in declared
        for bit in range(int(last or 0) + 1)
    }


def test_the_script_is_for_the_part_and_reads_the_chip(project):
    name, gateware, chip = project
    script = only(gateware, ".tcl")
    parts = re.findall(r" -part (\w+)", script)
    assert len(parts) == 2 and len(set(parts)) == 1
    assert parts[0].upper().startswith(BOARDS[name].part)
    assert f"read_verilog {{{chip}}}" in script
    top = re.findall(r"synth_design .*-top (\w+)", script)
    assert [f"{each}.xdc" for each in top] == re.findall(r"^read_xdc (\S+)$", script, re.MULTILINE)
    assert f"write_bitstream -force {top[0]}.bit" in script


def test_each_port_has_one_pin_and_a_voltage(project):
    _, gateware, _ = project
    constraints = only(gateware, ".xdc")
    ports = bits_of_ports(only(gateware, ".v"))
    pins = re.findall(r"^set_property LOC (\w+) \[get_ports \{(\S+)\}\]$", constraints, re.M)
    assert len(ports) > 40
    assert Counter(port for _, port in pins) == Counter(ports)
    assert max(Counter(pin for pin, _ in pins).values()) == 1
    voltages = re.findall(
        r"^set_property IOSTANDARD \w+ \[get_ports \{(\S+)\}\]$", constraints, re.M
    )
    assert Counter(voltages) == Counter(ports)


def test_the_clock_is_the_oscillators_and_the_system_has_its_frequency(project):
    name, gateware, _ = project
    ((clock, period),) = re.findall(
        r"^create_clock -name (\w+) -period ([\d.]+) \[get_ports \1\]$",
        only(gateware, ".xdc"),
        re.M,
    )
    assert clock in bits_of_ports(only(gateware, ".v"))
    assert float(period) == 1e9 / OSCILLATOR
    verilog = only(gateware, ".v")
    (times,) = re.findall(r"\.CLKFBOUT_MULT(?:_F)? +\((?:\d+'d)?([\d.]+)\)", verilog)
    divided = re.findall(r"\.CLKOUT\d_DIVIDE(?:_F)? +\((?:\d+'d)?([\d.]+)\)", verilog)
    (first,) = re.findall(r"\.DIVCLK_DIVIDE +\((?:\d+'d)?([\d.]+)\)", verilog)
    oscillation = OSCILLATOR * float(times) / float(first)
    assert BOARDS[name].clock in [oscillation / float(each) for each in divided]


def test_the_chip_runs_at_the_clock_of_the_system(project):
    _, gateware, _ = project
    verilog = only(gateware, ".v")
    (chip,) = re.findall(r"^tpulite tpulite\(.*?^\);", verilog, re.DOTALL | re.MULTILINE)
    assert re.search(r"\.clk\s*\(sys_clk\)", chip)


def test_boards_of_the_7_series_take_its_cells():
    assert {BOARDS[name].elaborated_for for name in SERIES_7} == {"xilinx"}
    assert {"arty", "arty_a7_35", "nexys_video"} <= set(SERIES_7)
    assert BOARDS["ulx3s"].elaborated_for == "ecp5"
    assert BOARDS["zcu104"].elaborated_for == "generic"
