"""The longest path to each place where one ends: a static timing analysis."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tpulite_rtl.silicon.library import CELLS, FLIPFLOP, RESISTANCE, SRAM_ACCESS
from tpulite_rtl.silicon.netlist import Gate, Netlist, Storage

__all__ = ["Path", "longest_paths", "wire_delay"]

_BUFFER = CELLS["BUF4"]
_BUFFER_LOAD = 16.0
"""What a buffer of a tree drives, in units of the smallest inverter's input."""

_MACRO_DRIVE = 3.0
_MACRO_LOAD = 2.0
"""A memory macro's output drives as a buffer does; its inputs load as two inverters."""


@dataclass(frozen=True)
class Path:
    """The longest path that ends at a place.

    Parameters
    ----------
    fo4 : float
        From the clock to the end's setup time.
    levels : int
        Gates on the way.
    start, end : Storage
    through : tuple of Gate
        The gates, in order.
    """

    fo4: float
    levels: int
    start: Storage
    end: Storage
    through: tuple[Gate, ...]


def wire_delay(load: float, drive: float) -> float:
    """Return the FO4 that an output of a drive needs for a load, with buffers where they help.

    Examples
    --------
    >>> round(wire_delay(4, 1.0), 3)
    0.6
    >>> wire_delay(1000, 1.0) < 10
    True
    """
    direct = RESISTANCE / drive * load
    stage = _BUFFER.delay("A", _BUFFER_LOAD)
    if direct <= stage:
        return direct
    first = load / _BUFFER_LOAD * _BUFFER.pins["A"][0]
    return min(direct, stage + wire_delay(first, drive))


def longest_paths(netlist: Netlist) -> list[Path]:
    """Return the longest path to each bit of a register and to each memory that has one.

    Paths begin at registers and memories; inputs of the chip and constants begin none.

    Raises
    ------
    ValueError
        If gates form a loop.
    """
    loads = _loads(netlist)
    arrival: list[float | None] = [None] * netlist.nets
    origin: list[Gate | Storage | None] = [None] * netlist.nets
    before = [-1] * netlist.nets  # the input of the gate by which the path comes

    for storage in netlist.storage:
        access, drive = (
            (SRAM_ACCESS, _MACRO_DRIVE)
            if storage.macro
            else (FLIPFLOP.pins["C"][1], FLIPFLOP.drive)
        )
        for net in storage.outputs:
            arrival[net] = access + wire_delay(loads[net], drive)
            origin[net] = storage

    for gate in _in_order(netlist):
        latest: float | None = None
        for pin, net in gate.inputs:
            at = arrival[net]
            if at is None:
                continue
            at += gate.cell.pins[pin][1]
            if latest is None or at > latest:
                latest = at
                before[gate.output] = net
        if latest is not None:
            arrival[gate.output] = latest + wire_delay(loads[gate.output], gate.cell.drive)
            origin[gate.output] = gate

    def path(end: Storage, net: int, fo4: float) -> Path:
        gates: list[Gate] = []
        while isinstance(gate := origin[net], Gate):
            gates.append(gate)
            net = before[net]
        start = origin[net]
        assert isinstance(start, Storage)
        return Path(fo4, len(gates), start, end, tuple(reversed(gates)))

    paths = []
    for storage in netlist.storage:
        ends = [(at, net) for net in storage.inputs if (at := arrival[net]) is not None]
        if ends:
            at, net = max(ends)
            paths.append(path(storage, net, at + FLIPFLOP.pins["D"][1]))
    return paths


def _loads(netlist: Netlist) -> list[float]:
    """Return the load of each net."""
    loads = [0.0] * netlist.nets
    for gate in netlist.gates:
        for pin, net in gate.inputs:
            loads[net] += gate.cell.pins[pin][0]
    for storage in netlist.storage:
        for net in storage.inputs:
            loads[net] += _MACRO_LOAD if storage.macro else FLIPFLOP.pins["D"][0]
    return loads


def _in_order(netlist: Netlist) -> Iterator[Gate]:
    """Yield the gates, each after those that drive it."""
    driven = {gate.output for gate in netlist.gates}
    users: dict[int, list[int]] = {}
    missing = [0] * len(netlist.gates)
    for number, gate in enumerate(netlist.gates):
        for _, net in gate.inputs:
            if net in driven:
                users.setdefault(net, []).append(number)
                missing[number] += 1
    ready = deque(number for number, count in enumerate(missing) if count == 0)
    done = 0
    while ready:
        gate = netlist.gates[ready.popleft()]
        done += 1
        yield gate
        for user in users.get(gate.output, ()):
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    if done != len(netlist.gates):
        raise ValueError(f"{len(netlist.gates) - done} gates are on or behind a loop of gates")
