"""A system for each board can be made, and what nextpnr says of it is understood."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tpulite.configs import CONFIGS
from tpulite_litex.bitstream import Report
from tpulite_litex.boards import BOARDS

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


def test_the_last_frequency_counts():
    report = Report(LOG.format(comb=43_000, mhz=52.5, word="PASS"))
    assert report.cells["TRELLIS_COMB"] == (43_000, 83_640)
    assert report.clocks == {"$glbnet$sys_clk": (52.5, 50.0)}
    assert report.problem == ""


def test_problems_are_named():
    assert "49.1 MHz, not 50 MHz" in Report(LOG.format(comb=1, mhz=49.1, word="FAIL")).problem
    assert "83,640 TRELLIS_COMB, not 90,000" in (
        Report(LOG.format(comb=90_000, mhz=60, word="PASS")).problem
    )
    assert Report("").problem


@pytest.mark.skipif(
    find_spec("litex_boards") is None, reason="LiteX is missing (pip install 'tpulite[litex]')"
)
@pytest.mark.parametrize("name", BOARDS)
def test_a_system_has_the_chip_on_its_bus(name, tmp_path):
    assert BOARDS[name].config in CONFIGS
    chip = tmp_path / "chip.v"
    chip.write_text("// read by other tools")
    command = [sys.executable, "-c", ELABORATE, name, chip, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"tpulite,{0x80000000:#x}" in (tmp_path / "csr.csv").read_text()
    (verilog,) = (tmp_path / "gateware").glob("*.v")
    assert ".m_axi_araddr" in verilog.read_text()
