"""The longest path to each place where one ends: a static timing analysis."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpulite_silicon.library import CELLS, FLIPFLOP, RESISTANCE, SRAM_ACCESS
from tpulite_silicon.netlist import Gate, Kind, Netlist, Terminal

__all__ = ["Analysis", "Path", "wire_delay"]

_BUFFER = CELLS["BUF4"]
_BUFFER_LOAD = 16.0
"""What a buffer of a tree drives, in units of the smallest inverter's input."""

_BEGIN = {
    Kind.REGISTER: (FLIPFLOP.pins["C"][1], FLIPFLOP.drive),
    Kind.MACRO: (SRAM_ACCESS, _BUFFER.drive),
    Kind.PORT: (0.0, _BUFFER.drive),
}
"""FO4 after which a path begins, and the drive with which it does."""

_END = {Kind.REGISTER: FLIPFLOP.pins["D"][1], Kind.MACRO: FLIPFLOP.pins["D"][1], Kind.PORT: 0.0}
"""FO4 that a path must end before the clock."""

_LOAD = {Kind.REGISTER: FLIPFLOP.pins["D"][0], Kind.MACRO: 2.0, Kind.PORT: 2.0}


@dataclass(frozen=True)
class Path:
    """The longest path that ends at a place.

    Parameters
    ----------
    fo4 : float
        From the clock to the end's setup time.
    levels : int
        Gates on the way.
    start, end : Terminal
    through : tuple of Gate
        The gates, in order.
    """

    fo4: float
    levels: int
    start: Terminal
    end: Terminal
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


class Analysis:
    """A static timing analysis of a netlist.

    Raises
    ------
    ValueError
        If gates form a loop.
    """

    def __init__(self, netlist: Netlist) -> None:
        self._loads = _loads(netlist)
        self._gates = list(_in_order(netlist))

    def longest(self, starts: Sequence[Terminal], ends: Sequence[Terminal]) -> list[Path]:
        """Return the longest path to each end to which one leads.

        Only what is among ``starts`` begins paths; constants never do.
        """
        loads = self._loads
        arrival: list[float | None] = [None] * len(loads)
        origin: list[Gate | Terminal | None] = [None] * len(loads)
        before = [-1] * len(loads)  # the input of the gate by which the path comes

        for terminal in starts:
            access, drive = _BEGIN[terminal.kind]
            for net in terminal.outputs:
                arrival[net] = access + wire_delay(loads[net], drive)
                origin[net] = terminal

        for gate in self._gates:
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

        def path(end: Terminal, net: int, fo4: float) -> Path:
            gates: list[Gate] = []
            while isinstance(gate := origin[net], Gate):
                gates.append(gate)
                net = before[net]
            start = origin[net]
            assert isinstance(start, Terminal)
            return Path(fo4, len(gates), start, end, tuple(reversed(gates)))

        paths = []
        for terminal in ends:
            arrivals = [(at, net) for net in terminal.inputs if (at := arrival[net]) is not None]
            if arrivals:
                at, net = max(arrivals)
                paths.append(path(terminal, net, at + _END[terminal.kind]))
        return paths


def _loads(netlist: Netlist) -> list[float]:
    """Return the load of each net."""
    loads = [0.0] * netlist.nets
    for gate in netlist.gates:
        for pin, net in gate.inputs:
            loads[net] += gate.cell.pins[pin][0]
    for terminal in (*netlist.storage, *netlist.ports):
        for net in terminal.inputs:
            loads[net] += _LOAD[terminal.kind]
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
