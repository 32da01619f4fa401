"""What synthesis makes of a component and of the chip does what the RTL does.

That no output of such a chip is unknown is in ``test_unknown``.
"""

import random
import shutil
from pathlib import Path

import pytest

from tpulite_rtl.mxu.processing_element import ProcessingElement
from tpulite_silicon.simulated_gates import SIMULATED_GATES
from tpulite_silicon.simulation import BlockWriter
from tpulite_tb.cells import Cells, chip_cells, component_cells
from tpulite_tb.component_ports import component_ports
from tpulite_tb.gates import WORKLOADS, compare
from tpulite_tb.harness import simulate, simulate_verilog
from tpulite_tb.machines import SMALL
from tpulite_testing.regress import breadth, thinned

BENCH = Path(__file__).parents[1] / "unit/test_processing_element.py"
MADE = [(Cells.GATES, "logic"), (Cells.ECP5, "dsp"), (Cells.ECP5, "logic")]
"""Cells, and how a processing element of them multiplies."""

needs_icarus = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="Icarus is missing (Debian: apt install iverilog)"
)


@needs_icarus
@pytest.mark.parametrize(("cells", "style"), MADE)
def test_cells_pass_the_bench_of_the_component(cells, style, monkeypatch) -> None:
    monkeypatch.setenv("SIM", "icarus")
    monkeypatch.setenv("CELLS", cells)
    element = ProcessingElement(psum_width=20, style=style)
    simulate(element, str(BENCH), name=f"cells_of_an_element_{style}")


@needs_icarus
@pytest.mark.parametrize(("cells", "style"), thinned(MADE, MADE[0], reason="the gates notice, too"))
def test_an_or_for_an_and_fails_the_bench(cells, style, monkeypatch) -> None:
    monkeypatch.setenv("SIM", "icarus")
    component = ProcessingElement(psum_width=20, style=style)
    right = component_cells(component, component_ports(component), cells).verilog
    top = right[: right.index("endmodule")]
    place = random.Random(1).choice([at for at, letter in enumerate(top) if letter == "&"])
    wrong = f"{right[:place]}|{right[place + 1 :]}"
    with pytest.raises(AssertionError, match="1 of 1 cocotb tests failed"):
        simulate_verilog(wrong, str(BENCH), top="dut", name=f"wrong_{cells}_of_an_element_{style}")


def test_cells_without_a_model_are_refused() -> None:
    writer = BlockWriter("dut", {"ports": {}, "netnames": {}})
    cell = {"type": "$add", "parameters": {}, "connections": {"A": [2], "B": [3], "Y": [4]}}
    assert not SIMULATED_GATES.write(writer, "sum", cell)


@pytest.mark.parametrize("cells", breadth("synthesis of the chip takes minutes", *Cells))
def test_networks_run_on_the_cells_of_the_chip(cells) -> None:
    netlist = chip_cells(SMALL, cells)
    for workload in WORKLOADS:
        for stalls in (False, True):
            found = compare(SMALL, netlist, workload, stalls=stalls)
            assert found.exact, workload
            assert found.counters == found.expected, workload
