"""Looks into components of the RTL while Amaranth's simulator runs them."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from amaranth.hdl import Fragment, Signal
from amaranth.sim import Simulator

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.mxu.matrix_unit import MatrixUnit

Cycle = dict[str, int]
"""Values of the watched signals in one cycle, before the clock edge that ends it."""

_IDLE = 3
"""Cycles that are recorded after a command before the next one is offered."""


class Probe:
    """A component with access to the signals inside, by the names of the RTL.

    Parameters
    ----------
    component : Component
        Elaborated here once.
    """

    def __init__(self, component) -> None:
        self.fragment = Fragment.get(component, None)
        self._signals: dict[str, list[Signal]] = {}
        self._walk(self.fragment, "")

    def _walk(self, fragment: Fragment, path: str) -> None:
        driven = {id(s): s for _, body in fragment.statements.items() for s in body._lhs_signals()}
        for signal in driven.values():
            self._signals.setdefault(path + signal.name, []).append(signal)
        for inner, name, _ in fragment.subfragments:
            self._walk(inner, f"{path}{name}.")

    def __getitem__(self, name: str) -> Signal:
        """Return the signal that the component at this path drives; KeyError if not exactly one."""
        found = self._signals.get(name, [])
        if len(found) != 1:
            raise KeyError(f"{name}: {len(found)} signals")
        return found[0]

    def simulate(self, bench: Callable[[Any], Any]) -> None:
        """Run a testbench to its end."""
        simulator = Simulator(self.fragment)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()


def run_convs(
    config: Config,
    buffer: np.ndarray,
    commands: Iterable[Command],
    watched: Callable[[Probe], dict],
) -> list[list[Cycle]]:
    """Run CONVs on the matrix unit, one after the other, and watch it.

    Parameters
    ----------
    buffer : ndarray of int8, [rows, N]
        Unified buffer. It answers at once, and changes.
    commands : iterable of Command
        CONVs, each offered when the one before is complete.
    watched : callable
        Which signals to record, by name: values of a `Probe`, or of anything in its component.

    Returns
    -------
    list of list of Cycle
        For each command, its cycles from the first one in which it runs. Beside the watched signals
        each has ``activation``, ``weight`` and ``record``, the row that is requested, and
        ``write``, the row that is written, with ``write_data``; -1 if there is none.
    """
    unit = MatrixUnit(config)
    probe = Probe(unit)
    signals = watched(probe)
    reads = {name: getattr(unit, f"read_{name}") for name in ("activation", "weight", "record")}
    written = unit.write.request
    latency = row_read(config)
    runs: list[list[Cycle]] = []

    async def bench(context) -> None:
        for port in reads.values():
            context.set(port.request.ready, 1)
        for ready in (unit.engine.take.ready, unit.engine.give.ready, written.ready):
            context.set(ready, 1)
        answers: dict[str, list[int | None]] = {name: [None] * (latency - 1) for name in reads}
        for command in commands:
            layout = command_layout(Opcode.CONV, config)
            fields = {"opcode": Opcode.CONV, **command.fields}
            offer: dict[int | str, int] = {x: fields[x] for x in fields if x in layout.members}
            context.set(unit.engine.command.payload, layout.const(offer))
            context.set(unit.engine.command.valid, 1)
            cycles: list[Cycle] = []
            ends = None
            while ends is None or len(cycles) < ends:
                cycle = {name: context.get(signal) for name, signal in signals.items()}
                for name, port in reads.items():
                    asks = context.get(port.request.valid)
                    cycle[name] = context.get(port.request.payload) if asks else -1
                    answers[name].append(cycle[name] if asks else None)
                cycle["write"] = -1
                if context.get(written.valid):
                    cycle["write"] = context.get(written.payload.row)
                    cycle["write_data"] = context.get(written.payload.data)
                    data = cycle["write_data"].to_bytes(config.row_bytes, "little")
                    buffer[cycle["write"]] = np.frombuffer(data, np.int8)
                cycles.append(cycle)
                if context.get(unit.engine.command.ready):
                    context.set(unit.engine.command.valid, 0)
                if context.get(unit.engine.give.valid):
                    ends = len(cycles) + _IDLE
                await context.tick()
                for name, port in reads.items():
                    row = answers[name].pop(0)
                    context.set(port.response.valid, row is not None)
                    data = buffer[row].tobytes() if row is not None else b""
                    context.set(port.response.payload, int.from_bytes(data, "little"))
            runs.append(cycles)

    probe.simulate(bench)
    return runs
