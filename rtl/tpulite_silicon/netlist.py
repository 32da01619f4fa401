"""The chip as one flat netlist of gates, registers and memories, put together from its blocks."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from tpulite_silicon.library import CELLS, FLIPFLOP, Cell

__all__ = ["Gate", "Kind", "Netlist", "Terminal", "flatten"]

Bit = int | str
"""A net of a block in Yosys's JSON; a constant is a string."""


@dataclass(frozen=True, slots=True)
class Gate:
    """An instance of a library cell in an instance of a block; nets are numbers."""

    block: str
    cell: Cell
    inputs: tuple[tuple[str, int], ...]
    output: int


class Kind(Enum):
    """What paths begin and end at."""

    REGISTER = "register"
    MACRO = "memory macro"
    PORT = "port of the chip"


@dataclass(frozen=True, slots=True)
class Terminal:
    """A bit of a register, a memory macro or a port.

    Parameters
    ----------
    block : str
        Instance of the block that it is in, from the top: ``mxu.array.pe_0_0``.
    name : str
        The register and its bit, the memory, or the port.
    kind : Kind
    inputs, outputs : tuple of int
        Nets that end and begin here.
    """

    block: str
    name: str
    kind: Kind
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass
class Netlist:
    """Everything in the chip; ``areas`` are the gate equivalents of each instance of a block."""

    gates: list[Gate] = field(default_factory=list)
    storage: list[Terminal] = field(default_factory=list)
    ports: list[Terminal] = field(default_factory=list)
    areas: dict[str, float] = field(default_factory=dict)
    nets: int = 0


def flatten(top: str, block: Callable[[str], dict]) -> Netlist:
    """Return the netlist of a design.

    Parameters
    ----------
    top : str
        Name of the topmost block.
    block : callable
        Returns a block's module in Yosys's JSON by its name; called once for each name.
    """
    blocks: dict[str, _Block] = {}
    netlist = Netlist()
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
            blocks[name] = _Block.read(block(name))
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
            Gate(path, cell, tuple((pin, local[bit]) for pin, bit in inputs), local[output])
            for cell, inputs, output in content.gates
        ]
        netlist.storage += [
            Terminal(
                path,
                what,
                kind,
                tuple(local[bit] for bit in inputs),
                tuple(local[bit] for bit in outputs),
            )
            for what, kind, inputs, outputs in content.storage
        ]
        if not path:
            netlist.ports = [
                Terminal(path, port, Kind.PORT, *_port_nets(content, port, local))
                for port in content.ports
            ]
        for instance, child, ports in content.children:
            waiting.append((f"{path}.{instance}".lstrip("."), child, ports, local))

    netlist.gates = [
        Gate(
            gate.block,
            gate.cell,
            tuple((pin, root(net)) for pin, net in gate.inputs),
            root(gate.output),
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
    gates: list[tuple[Cell, list[tuple[str, int]], int]]
    outward: frozenset[str]
    storage: list[tuple[str, Kind, list[int], list[int]]]
    children: list[tuple[str, str, dict[str, list[Bit]]]]
    area: float

    @classmethod
    def read(cls, module: dict) -> "_Block":
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
            if kind in CELLS:
                inputs = [(p, bit) for p in CELLS[kind].pins for bit in _nets(connections[p])]
                gates.append((CELLS[kind], inputs, connections["Y"][0]))
            elif kind == FLIPFLOP.name:
                (output,) = connections["Q"]
                storage.append(
                    (
                        names.get(output, name),
                        Kind.REGISTER,
                        list(_nets(connections["D"])),
                        [output],
                    )
                )
            elif kind == "$mem_v2":
                storage.append((_macro_name(cell), Kind.MACRO, *_macro_nets(cell)))
            elif kind.startswith("$"):
                raise ValueError(f"Cell {name} is a {kind}, which is no gate")
            else:
                children.append((name, kind, connections))
        registers = sum(kind is Kind.REGISTER for _, kind, _, _ in storage)
        return cls(
            ports={name: port["bits"] for name, port in module["ports"].items()},
            bits=sorted(bits),
            gates=gates,
            outward=frozenset(
                name for name, port in module["ports"].items() if port["direction"] == "output"
            ),
            storage=storage,
            children=children,
            area=sum(cell.area for cell, _, _ in gates) + registers * FLIPFLOP.area,
        )


def _port_nets(
    block: _Block, port: str, local: dict[Bit, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the nets that end and begin at a port of the topmost block."""
    nets = tuple(local[bit] for bit in _nets(block.ports[port]))
    return (nets, ()) if port in block.outward else ((), nets)


def _moved(terminal: Terminal, root: Callable[[int], int]) -> Terminal:
    """Return a terminal at the nets that its nets are part of."""
    return replace(
        terminal,
        inputs=tuple(map(root, terminal.inputs)),
        outputs=tuple(map(root, terminal.outputs)),
    )


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


def _macro_nets(cell: dict) -> tuple[list[int], list[int]]:
    """Return the nets into and out of a memory; its clocks are everybody's."""
    connections = cell["connections"]
    inputs = [
        bit
        for port in ("RD_ADDR", "RD_EN", "WR_ADDR", "WR_EN", "WR_DATA")
        for bit in _nets(connections[port])
    ]
    return list(dict.fromkeys(inputs)), list(_nets(connections["RD_DATA"]))
