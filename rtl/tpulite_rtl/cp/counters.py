"""Performance counters."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite_rtl.bus.registers import COUNTERS
from tpulite_rtl.lib.interfaces import STATE_BITS

__all__ = ["CONFLICT_BITS", "Counters"]

CONFLICT_BITS = 4
"""Width of the number of requests that the unified buffer refuses in a cycle."""


class Counters(wiring.Component):
    """Count cycles, conflicts, beats, and for each engine the cycles in each state.

    The counters of an engine's states sum to CYCLES, always. All wrap at 32 bits. What is counted
    is registered as it comes, then as increments, so that no path of an engine ends in an adder.

    Members
    -------
    start : In(1)
        Set all counters to zero.
    running : In(1)
        Count in this cycle.
    states : In(STATE_BITS).array(len(Engine))
        What each engine does in this cycle.
    conflicts : In(CONFLICT_BITS)
        Requests that the unified buffer refused in this cycle.
    read_beat, write_beat : In(1)
        A beat was transferred on AXI in this cycle.
    values : Out(COUNTERS)
        The counters, without the last three cycles.
    """

    start: Signal
    running: Signal
    states: list[Signal]
    conflicts: Signal
    read_beat: Signal
    write_beat: Signal
    values: data.View

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "running": In(1),
                "states": In(STATE_BITS).array(len(Engine)),
                "conflicts": In(CONFLICT_BITS),
                "read_beat": In(1),
                "write_beat": In(1),
                "values": Out(COUNTERS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        running, read_beat, write_beat = Signal(), Signal(), Signal()
        conflicts = Signal.like(self.conflicts)
        m.d.sync += [
            running.eq(self.running),
            conflicts.eq(self.conflicts),
            read_beat.eq(self.read_beat),
            write_beat.eq(self.write_beat),
        ]
        increments = {
            "cycles": 1,
            "conflicts": conflicts,
            "read_beats": read_beat,
            "write_beats": write_beat,
        }
        for engine in Engine:
            seen = Signal(STATE_BITS, name=f"{engine.name}_seen".lower())
            m.d.sync += seen.eq(self.states[engine])
            for state in EngineState:
                increments[f"{engine.name}_{state.name}".lower()] = seen == state
        for name, increment in increments.items():
            value = self.values[name]
            counted = Signal(len(Value.cast(increment)), name=f"{name}_counted")
            with m.If(self.start):
                m.d.sync += [counted.eq(0), value.eq(0)]
            with m.Else():
                m.d.sync += [
                    counted.eq(Mux(running, increment, 0)),
                    value.eq(value + counted),
                ]
        return m
