"""The longest path to each place where one ends: a static timing analysis."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpulite_silicon.netlist import Gate, Netlist, Terminal
from tpulite_silicon.timed import FALL, RISE

__all__ = ["Analysis", "Path"]


@dataclass(frozen=True)
class Path:
    """The longest path that ends at a place."""

    delay: float  #: From the clock to the end's setup time, in the library's unit of time.
    levels: int  #: Gates on the way.
    start: Terminal
    end: Terminal
    through: tuple[Gate, ...]  #: The gates, in order.


class Analysis:
    """A static timing analysis of a netlist.

    Raises
    ------
    ValueError
        If gates form a loop.
    """

    def __init__(self, netlist: Netlist) -> None:
        self._library = netlist.library
        self._loads = _loads(netlist)
        self._gates = list(_in_order(netlist))

    def longest(self, starts: Sequence[Terminal], ends: Sequence[Terminal]) -> list[Path]:
        """Return the longest path to each end to which one leads.

        Only what is among ``starts`` begins paths; constants never do. An edge has the slowest slew
        with which one comes, whether or not that is the latest.
        """
        loads, library = self._loads, self._library
        # Of each edge at each net: two to a net.
        arrival: list[float | None] = [None] * (2 * len(loads))
        slews = [0.0] * len(arrival)
        origin: list[Gate | Terminal | None] = [None] * len(arrival)
        before = [-1] * len(arrival)  # the edge at the gate's input by which the path comes

        for terminal in starts:
            for pin, net in terminal.outputs:
                for arc in terminal.cell.launches(pin):
                    edge = 2 * net + arc.after
                    at, slew = library.through(arc, library.clock_slew, loads[net])
                    slews[edge] = max(slews[edge], slew)
                    if (latest := arrival[edge]) is None or at > latest:
                        arrival[edge], origin[edge] = at, terminal

        for gate in self._gates:
            output, after = gate.output
            for pin, net in gate.inputs:
                for arc in gate.cell.outputs[output].get(pin, ()):
                    start, edge = 2 * net + arc.before, 2 * after + arc.after
                    if (at := arrival[start]) is None:
                        continue
                    delay, slew = library.through(arc, slews[start], loads[after])
                    slews[edge] = max(slews[edge], slew)
                    if (latest := arrival[edge]) is None or at + delay > latest:
                        arrival[edge], origin[edge], before[edge] = at + delay, gate, start

        def path(end: Terminal, edge: int, delay: float) -> Path:
            gates: list[Gate] = []
            while isinstance(gate := origin[edge], Gate):
                gates.append(gate)
                edge = before[edge]
            start = origin[edge]
            assert isinstance(start, Terminal)
            return Path(delay, len(gates), start, end, tuple(reversed(gates)))

        paths = []
        for terminal in ends:
            delays = [
                (at + terminal.cell.setup(pin, way, slews[edge], library.clock_slew), edge)
                for pin, net in terminal.inputs
                for way in (RISE, FALL)
                if (at := arrival[edge := 2 * net + way]) is not None
            ]
            if delays:
                delay, edge = max(delays)
                paths.append(path(terminal, edge, delay))
        return paths


def _loads(netlist: Netlist) -> list[float]:
    """Return the load of each net."""
    loads = [0.0] * netlist.nets
    for gate in netlist.gates:
        for pin, net in gate.inputs:
            loads[net] += gate.cell.loads[pin]
    for terminal in (*netlist.storage, *netlist.ports):
        for pin, net in terminal.inputs:
            loads[net] += terminal.cell.loads[pin]
    return loads


def _in_order(netlist: Netlist) -> Iterator[Gate]:
    """Yield the gates, each after those that drive it."""
    driven = {gate.output[1] for gate in netlist.gates}
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
        for user in users.get(gate.output[1], ()):
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    if done != len(netlist.gates):
        raise ValueError(f"{len(netlist.gates) - done} gates are on or behind a loop of gates")
