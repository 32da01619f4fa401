"""Performance counters."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite_rtl.bus.registers import COUNTER_ROWS, CountersSignature
from tpulite_rtl.lib.interfaces import STATE_BITS
from tpulite_rtl.lib.memory import TwoPortRam
from tpulite_rtl.lib.pipeline import delay

__all__ = ["CONFLICT_BITS", "TURNS", "Counters"]

CONFLICT_BITS = 4
"""Width of the number of requests that the unified buffer refuses in a cycle."""

TURNS = max(COUNTER_ROWS.values()) + 1
"""Cycles in which each row has one turn to be brought up to date."""

_STEPS = 3
"""Cycles from a row's turn until it is written again."""


class Counters(wiring.Component):
    """Count cycles, conflicts, beats, and for each engine the cycles in each state.

    The counters of an engine's states sum to CYCLES, always. All wrap at 32 bits. What is counted
    is registered as it comes, then as increments, so that no path of an engine ends in an adder.

    Counters lie in a RAM, in the order in which the host sees them. Each has a few bits of its own,
    which count since its last turn; in its turn they are added to its row. A counter is read in its
    turn, too: up to ``TURNS`` cycles after it is wanted, and four more.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                # Set all counters to zero.
                "start": In(1),
                # Count in this cycle.
                "running": In(1),
                # What each engine does in this cycle.
                "states": In(STATE_BITS).array(len(Engine)),
                # Requests that the unified buffer refused in the cycle before.
                "conflicts": In(CONFLICT_BITS),
                # A beat was transferred on AXI in this cycle.
                "read_beat": In(1),
                "write_beat": In(1),
                # Where a counter is read: what was counted up to the sixth cycle before ``found``.
                "values": In(CountersSignature()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        turn = Signal(range(TURNS))
        m.d.sync += turn.eq(Mux(turn == TURNS - 1, 0, turn + 1))

        # What has come since the turn before: one counter's, as the others show zero.
        recent = 0
        for name, increment in self._increments(m).items():
            one = len(increment)
            counted = Signal(one, name=f"{name}_counted")
            since = Signal(range(((1 << one) - 1) * TURNS + 1), name=f"{name}_since")
            mine = Signal(name=f"{name}_turn")
            m.d.sync += [
                mine.eq(turn == COUNTER_ROWS[name]),  # a cycle late, as is the row from the RAM
                counted.eq(increment),
                since.eq(Mux(mine, 0, since) + counted),
            ]
            with m.If(self.start):
                m.d.sync += [counted.eq(0), since.eq(0)]
            recent |= Mux(mine, since, 0)

        # Until each row had its turn after the start, it counts as zero. Sums leave three cycles
        # after their row was read, long before it is read again.
        m.submodules.memory = memory = TwoPortRam(32, 1 << len(turn))
        stale = Signal(range(TURNS + 1), init=TURNS)
        rows = delay(m, turn, _STEPS, "row")
        void, old, more, total = Signal(), Signal(32), Signal.like(recent), Signal(32)
        m.d.sync += [
            void.eq(stale != 0),
            old.eq(Mux(void, 0, memory.read_data)),
            more.eq(recent),
            total.eq(old + more),
        ]
        with m.If(self.start):
            m.d.sync += stale.eq(TURNS)
        with m.Elif(stale != 0):
            m.d.sync += stale.eq(stale - 1)
        m.d.comb += [
            memory.read_enable.eq(1),
            memory.read_row.eq(turn),
            memory.write_enable.eq(1),
            memory.write_row.eq(rows[-1]),
            memory.write_data.eq(total),
        ]

        # The host's turn is the first one after it asked.
        asked = delay(m, self.values.wanted & (turn == self.values.row), _STEPS, "asked")
        m.d.sync += [self.values.found.eq(asked[-1]), self.values.value.eq(total)]
        return m

    def _increments(self, m: Module) -> dict[str, Value]:
        """Return what each counter grows by, from registers."""
        running, read_beat, write_beat = Signal(), Signal(), Signal()
        m.d.sync += [
            running.eq(self.running),
            read_beat.eq(self.read_beat),
            write_beat.eq(self.write_beat),
        ]
        increments: dict[str, Value] = {
            "cycles": running,
            "conflicts": Mux(running, self.conflicts, 0),
            "read_beats": read_beat & running,
            "write_beats": write_beat & running,
        }
        for engine in Engine:
            seen = Signal(STATE_BITS, name=f"{engine.name}_seen".lower())
            m.d.sync += seen.eq(self.states[engine])
            for state in EngineState:
                increments[f"{engine.name}_{state.name}".lower()] = running & (seen == state)
        return increments
