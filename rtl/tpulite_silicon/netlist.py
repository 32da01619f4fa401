"""The chip as one flat netlist of gates, registers and memories, put together from its blocks."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tpulite_silicon.library import FO4
from tpulite_silicon.timed import Library, TimedCell

__all__ = ["Gate", "Netlist", "Pin", "Terminal", "flatten"]

Bit = int | str
"""A net of a block in Yosys's JSON; a constant is a string."""

Pin = tuple[str, int]
"""A pin of a cell, and the net that it is at."""


@dataclass(frozen=True, slots=True)
class Gate:
    """An instance of a library cell in an instance of a block; nets are numbers."""

    block: str
    cell: TimedCell
    inputs: tuple[Pin, ...]
    output: Pin


@dataclass(frozen=True, slots=True)
class Terminal:
    """A bit of a register, a memory macro or a port."""

    block: str  #: Instance of the block that it is in, from the top: ``mxu.array.pe_0_0``.
    name: str  #: The register and its bit, the memory, or the port.
    cell: TimedCell  #: The register, or what stands for a memory macro or a port.
    #: Where paths end and begin.
    inputs: tuple[Pin, ...]
    outputs: tuple[Pin, ...]


@dataclass
class Netlist:
    """Everything in the chip; ``areas`` are those of each instance of a block."""

    library: Library
    gates: list[Gate] = field(default_factory=list)
    storage: list[Terminal] = field(default_factory=list)
    ports: list[Terminal] = field(default_factory=list)
    areas: dict[str, float] = field(default_factory=dict)
    nets: int = 0


def flatten(top: str, block: Callable[[str], dict], library: Library = FO4) -> Netlist:
    """Return the netlist of a design.

    Parameters
    ----------
    top : str
        Name of the topmost block.
    block : callable
        Returns a block's module in Yosys's JSON by its name; called once for each name.
    library : Library
        Whose cells the blocks consist of.
    """
    blocks: dict[str, _Block] = {}
    netlist = Netlist(library)
    joined: list[int] = []  # net that a net is part of; itself, if it stands for the whole

    def root(net: int) -> int:
        while joined[net] != net:
            joined[net] = joined[joined[net]]
            net = joined[net]
        return net

    waiting: list[tuple[str, str, dict[str, list[Bit]], dict[Bit, int]]] = [("", top, {}, {})]
    while waiting:
        path, name, connections, outside = waiting.pop()
        if name not in blocks:
            blocks[name] = _Block.read(block(name), library)
        content = blocks[name]
        first = len(joined)
        joined.extend(range(first, first + len(content.bits)))
        local: dict[Bit, int] = {bit: first + number for number, bit in enumerate(content.bits)}
        for port, bits in connections.items():
            for inner, outer in zip(content.ports[port], bits, strict=True):
                if inner in local and outer in outside:
                    joined[root(local[inner])] = root(outside[outer])
        netlist.areas[path] = content.area
        netlist.gates += [
            Gate(path, cell, _at(local, inputs), (pin, local[bit]))
            for cell, inputs, (pin, bit) in content.gates
        ]
        netlist.storage += [
            Terminal(path, what, cell, _at(local, inputs), _at(local, outputs))
            for what, cell, inputs, outputs in content.storage
        ]
        if not path:
            netlist.ports = [
                Terminal(path, port, library.port, *_port_nets(content, port, local))
                for port in content.ports
            ]
        for instance, child, ports in content.children:
            waiting.append((f"{path}.{instance}".lstrip("."), child, ports, local))

    netlist.gates = [
        Gate(
            gate.block,
            gate.cell,
            tuple((pin, root(net)) for pin, net in gate.inputs),
            (gate.output[0], root(gate.output[1])),
        )
        for gate in netlist.gates
    ]
    netlist.storage = [_moved(terminal, root) for terminal in netlist.storage]
    netlist.ports = [_moved(terminal, root) for terminal in netlist.ports]
    netlist.nets = len(joined)
    return netlist


@dataclass(frozen=True)
class _Block:
    """A block's module, without what does not matter for its instances."""

    ports: dict[str, list[Bit]]
    bits: list[int]
    gates: list[tuple[TimedCell, list[Pin], Pin]]
    outward: frozenset[str]
    storage: list[tuple[str, TimedCell, list[Pin], list[Pin]]]
    children: list[tuple[str, str, dict[str, list[Bit]]]]
    area: float

    @classmethod
    def read(cls, module: dict, library: Library) -> "_Block":
        """Return what Yosys has written of a block."""
        names = _names(module)
        bits: set[int] = set()
        gates, storage, children = [], [], []
        for port in module["ports"].values():
            bits.update(_nets(port["bits"]))
        for name, cell in module["cells"].items():
            kind, connections = cell["type"], cell["connections"]
            for pin in connections.values():
                bits.update(_nets(pin))
            if timed := library.gates.get(kind):
                (output,) = _pins(connections, timed.outputs)
                gates.append((timed, _pins(connections, timed.loads), output))
            elif timed := library.registers.get(kind):
                inputs = [pin for pin in _pins(connections, timed.loads) if pin[0] != timed.clock]
                outputs = _pins(connections, timed.outputs)
                what = next((names[bit] for _, bit in outputs if bit in names), name)
                storage.append((what, timed, inputs, outputs))
            elif kind == "$mem_v2":
                storage.append((_macro_name(cell), library.macro, *_macro_nets(cell)))
            elif kind.startswith("$"):
                raise ValueError(f"Cell {name} is a {kind}, which is no gate")
            else:
                children.append((name, kind, connections))
        return cls(
            ports={name: port["bits"] for name, port in module["ports"].items()},
            bits=sorted(bits),
            gates=gates,
            outward=frozenset(
                name for name, port in module["ports"].items() if port["direction"] == "output"
            ),
            storage=storage,
            children=children,
            area=sum(cell.area for _, cell, *_ in storage) + sum(cell.area for cell, *_ in gates),
        )


def _at(local: dict[Bit, int], pins: list[Pin]) -> tuple[Pin, ...]:
    """Return pins at the nets of an instance."""
    return tuple((pin, local[bit]) for pin, bit in pins)


def _port_nets(
    block: _Block, port: str, local: dict[Bit, int]
) -> tuple[tuple[Pin, ...], tuple[Pin, ...]]:
    """Return what ends and begins at a port of the topmost block."""
    pins = _at(local, [("", bit) for bit in _nets(block.ports[port])])
    return (pins, ()) if port in block.outward else ((), pins)


def _moved(terminal: Terminal, root: Callable[[int], int]) -> Terminal:
    """Return a terminal at the nets that its nets are part of."""
    return replace(
        terminal,
        inputs=tuple((pin, root(net)) for pin, net in terminal.inputs),
        outputs=tuple((pin, root(net)) for pin, net in terminal.outputs),
    )


def _pins(connections: dict[str, list[Bit]], pins: Iterable[str]) -> list[Pin]:
    """Return those of some pins that are at a net."""
    return [(pin, bit) for pin in pins for bit in _nets(connections.get(pin, []))]


def _nets(bits: list[Bit]) -> Iterator[int]:
    return (bit for bit in bits if isinstance(bit, int))


def _names(module: dict) -> dict[int, str]:
    """Return a name for each bit that has one: the shortest that the designer knows."""
    names: dict[int, str] = {}
    for name, net in sorted(module["netnames"].items(), key=lambda item: len(item[0])):
        if net["hide_name"]:
            continue
        plain = re.sub(r"\$\d+$", "", name)
        for index, bit in enumerate(net["bits"]):
            if isinstance(bit, int):
                names.setdefault(bit, f"{plain}[{index}]" if len(net["bits"]) > 1 else plain)
    return names


def _macro_name(cell: dict) -> str:
    return re.sub(r"\$\d+$", "", cell["parameters"]["MEMID"].lstrip("\\"))


def _macro_nets(cell: dict) -> tuple[list[Pin], list[Pin]]:
    """Return what goes into and out of a memory; its clocks are everybody's."""
    connections = cell["connections"]
    inputs = [
        bit
        for port in ("RD_ADDR", "RD_EN", "WR_ADDR", "WR_EN", "WR_DATA")
        for bit in _nets(connections[port])
    ]
    outputs = _nets(connections["RD_DATA"])
    return [("", bit) for bit in dict.fromkeys(inputs)], [("", bit) for bit in outputs]
