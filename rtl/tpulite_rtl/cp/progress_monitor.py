"""Progress monitor: whether anything still moves, and which command is the oldest."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite_rtl.lib.interfaces import STATE_BITS
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["ProgressMonitor"]


class ProgressMonitor(wiring.Component):
    """Watch the engines for the watchdog.

    Members
    -------
    states : In(STATE_BITS).array(len(Engine))
        What each engine does in this cycle. BUSY is progress.
    indices : In(INDEX_BITS).array(len(Engine))
        Command of each engine.
    refused : In(len(Engine))
        Engines that could not give their tokens in this cycle: BUSY is no progress then.
    moved : In(1)
        Something else moved in this cycle: a dispatched command, a beat, a response.
    next_index : In(INDEX_BITS)
        Next command to be dispatched, the oldest if no engine holds one.
    progress : Out(1)
        Something moved in this cycle.
    oldest : Out(INDEX_BITS)
        The oldest command in the previous cycle.
    """

    states: list[Signal]
    indices: list[Signal]
    refused: Signal
    moved: Signal
    next_index: Signal
    progress: Signal
    oldest: Signal

    def __init__(self) -> None:
        super().__init__(
            {
                "states": In(STATE_BITS).array(len(Engine)),
                "indices": In(INDEX_BITS).array(len(Engine)),
                "refused": In(len(Engine)),
                "moved": In(1),
                "next_index": In(INDEX_BITS),
                "progress": Out(1),
                "oldest": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        busy = Cat(state == EngineState.BUSY for state in self.states)
        m.d.comb += self.progress.eq(self.moved | (busy & ~self.refused).any())

        # The next command is younger than those of the engines.
        oldest = self.next_index
        for engine in Engine:
            older = Signal(INDEX_BITS, name=f"oldest_{engine.name.lower()}")
            holds = (self.states[engine] != EngineState.IDLE) & (self.indices[engine] < oldest)
            m.d.comb += older.eq(Mux(holds, self.indices[engine], oldest))
            oldest = older
        m.d.sync += self.oldest.eq(oldest)
        return m
