"""Netlists as Verilog for simulation: cells become expressions, of which simulators take 100,000.

As modules, one for each cell, they take hours until simulation begins.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpulite_silicon.design import Design, Module
from tpulite_silicon.netlist import Bit

__all__ = ["BlockWriter", "CellNetlist", "Technology", "cell_netlist"]


_SCOPE = "$scopeinfo"
"""What Yosys writes like a cell: where a submodule was."""


@dataclass(frozen=True)
class CellNetlist:
    """A netlist to simulate."""

    verilog: str  #: Its modules, and the models of those cells that are no expressions.
    cells: Counter[str]  #: How many cells of each type are in all instances.


@dataclass(frozen=True)
class Technology:
    """What netlists are made of."""

    #: Returns a block of a design as a module in Yosys's JSON.
    synthesize: Callable[[Design, Module], dict]
    #: Writes a cell, given its name and what Yosys says of it; False if it knows no such cell.
    write: Callable[["BlockWriter", str, dict], bool]
    models: str  #: Verilog of the modules that it instantiates.


class BlockWriter:
    """Verilog of a module in Yosys's JSON, cell by cell.

    A net is called as in the RTL, with the number of its bit, where synthesis has kept a name.
    """

    def __init__(self, name: str, module: dict) -> None:
        self._name = name
        self._ports: dict[str, dict] = {
            port: wire for port, wire in module["ports"].items() if wire["bits"]
        }
        self._declared: dict[str, None] = {}
        self._statements: list[str] = []
        self._clocked: dict[str, list[str]] = {}
        self._nets: dict[Bit, str] = {"0": "1'b0", "1": "1'b1", "x": "1'bx"}
        for port, wire in self._ports.items():
            for place, bit in enumerate(wire["bits"]):
                if wire["direction"] == "input":
                    index = f"[{place}]" if len(wire["bits"]) > 1 else ""
                    self._nets[bit] = _escaped(port) + index
        for name, wire in module["netnames"].items():
            for place, bit in enumerate(wire["bits"]):
                if not wire["hide_name"]:
                    self._nets.setdefault(bit, _escaped(f"{name}[{place}]"))

    def net(self, bit: Bit) -> str:
        """Return what a bit is called, or its constant."""
        return self._nets.get(bit) or f"n{bit}"

    def assign(self, bit: Bit, expression: str) -> None:
        """Let an expression drive a bit."""
        self._declare("wire", bit)
        self._statements.append(f"  assign {self.net(bit)} = {expression};")

    def register(self, clock: Bit, bit: Bit, expression: str) -> None:
        """Let a bit take the value of an expression at each rising edge of a clock."""
        self._declare("reg", bit)
        lines = self._clocked.setdefault(self.net(clock), [])
        lines.append(f"    {self.net(bit)} <= {expression};")

    def instance(
        self, kind: str, name: str, inputs: Mapping[str, list[Bit]], outputs: Mapping[str, list]
    ) -> None:
        """Instantiate a module, with bits for its ports, the lowest first."""
        for bits in outputs.values():
            for bit in bits:
                self._declare("wire", bit)
        ports = ", ".join(
            f".{_escaped(port)}({self._vector(bits)})"
            for port, bits in {**inputs, **outputs}.items()
            if bits
        )
        self._statements.append(f"  {kind} {_escaped(name)}({ports});")

    def text(self) -> str:
        """Return the module."""
        ports = ", ".join(
            f"{wire['direction']} wire {_range(wire['bits'])}{_escaped(port)}"
            for port, wire in self._ports.items()
        )
        lines = [f"module {self._name}({ports});", *self._declared, *self._statements]
        for clock, registers in self._clocked.items():
            lines += [f"  always @(posedge {clock}) begin", *registers, "  end"]
        for port, wire in self._ports.items():
            if wire["direction"] == "output":
                lines.append(f"  assign {_escaped(port)} = {self._vector(wire['bits'])};")
        return "\n".join([*lines, "endmodule\n"])

    def _declare(self, kind: str, bit: Bit) -> None:
        self._declared[f"  {kind} {self.net(bit)};"] = None

    def _vector(self, bits: list[Bit]) -> str:
        nets = [self.net(bit) for bit in bits]
        return f"{{{', '.join(reversed(nets))}}}" if len(nets) > 1 else nets[0]


def cell_netlist(
    design: Design,
    technology: Technology,
    *,
    top: str,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> CellNetlist:
    """Synthesize a design block by block, and return its cells.

    Registers and memories have no initial values.

    Parameters
    ----------
    design : Design
        The design.
    technology : Technology
        Synthesis, and the cells that it chooses from.
    top : str
        What to call the topmost module; the others are called as in the design.
    progress : callable
        Told before each block how many are done, and of how many.

    Raises
    ------
    ValueError
        If a block has a cell that the technology does not know.
    """
    blocks = list(design.blocks())
    texts, counts = [], {}
    for done, module in enumerate(blocks):
        progress(done, len(blocks))
        netlist = technology.synthesize(design, module)
        name = top if module.name == design.top else module.name
        texts.append(_block(name, netlist, technology))
        kinds = (cell["type"] for cell in netlist["cells"].values())
        counts[module.name] = Counter(
            kind for kind in kinds if kind not in design.modules and kind != _SCOPE
        )
    cells: Counter[str] = Counter()
    for _, module in design.instances():
        cells.update(counts[module.name])
    return CellNetlist("\n".join([*texts, technology.models]), cells)


def _block(name: str, module: dict, technology: Technology) -> str:
    writer = BlockWriter(name, module)
    for cell_name, cell in module["cells"].items():
        kind, pins = cell["type"], cell["connections"]
        if kind == _SCOPE or technology.write(writer, cell_name, cell):
            continue
        if kind.startswith("$") or "port_directions" not in cell:
            raise ValueError(f"Cell {cell_name} is a {kind}, of which there is no model")
        ports: dict[str, dict[str, list[Bit]]] = {"input": {}, "output": {}}
        for pin, way in cell["port_directions"].items():
            ports[way][pin] = pins[pin]
        writer.instance(kind, cell_name, ports["input"], ports["output"])
    return writer.text()


def _range(bits: list[Bit]) -> str:
    return f"[{len(bits) - 1}:0] " if len(bits) > 1 else ""


def _escaped(name: str) -> str:
    """Return an identifier of any characters; a keyword would be none."""
    return f"\\{name} "
