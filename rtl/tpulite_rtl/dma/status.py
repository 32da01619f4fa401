"""What a DMA engine shows to the counters and to the command processor."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring

from tpulite.arch.registers import EngineState
from tpulite_rtl.dma.burst_splitter import BurstSplitter
from tpulite_rtl.dma.command_tracker import CommandTracker

__all__ = ["keep_fault", "show_status"]


def show_status(
    m: Module,
    engine: wiring.PureInterface,
    splitter: BurstSplitter,
    tracker: CommandTracker,
    *,
    moving: Sequence[Value],
    refused: Value,
) -> None:
    """Drive ``engine.index``, ``idle``, ``quiet`` and ``state``: the first reason that applies.

    Parameters
    ----------
    m : Module
        Where the engine is described.
    engine : EngineSignature's interface
        The engine.
    splitter : BurstSplitter
        Holds commands that begin.
    tracker : CommandTracker
        Holds commands that have begun.
    moving : sequence of Value
        What moves in this cycle behind the splitter.
    refused : Value
        The unified buffer was asked and refused.
    """
    m.d.comb += engine.index.eq(engine.command.payload.index)
    with m.If(splitter.waiting):
        m.d.comb += engine.index.eq(splitter.index)
    with m.If(tracker.holding):
        m.d.comb += engine.index.eq(tracker.index)
    busy = Signal()
    accepted = engine.command.valid & engine.command.ready
    begun = (accepted, splitter.started.valid, splitter.descriptor.valid)
    m.d.comb += [
        engine.idle.eq(~tracker.holding & ~splitter.waiting),
        engine.quiet.eq(splitter.outstanding == 0),
        busy.eq(reduce(or_, (*begun, *moving))),
    ]
    holding = tracker.holding | splitter.waiting
    waiting = Signal()
    m.d.comb += waiting.eq(
        engine.command.valid | engine.take.valid | (engine.give.valid & ~engine.give.ready)
    )
    with m.If(~holding & ~engine.command.valid):
        m.d.comb += engine.state.eq(EngineState.IDLE)
    with m.Elif(busy):
        m.d.comb += engine.state.eq(EngineState.BUSY)
    with m.Elif(refused):
        m.d.comb += engine.state.eq(EngineState.BUFFER)
    with m.Elif(splitter.outstanding != 0):
        m.d.comb += engine.state.eq(EngineState.AXI)
    with m.Elif(waiting & ~splitter.issuing):
        m.d.comb += engine.state.eq(EngineState.TOKEN)
    with m.Else():
        m.d.comb += engine.state.eq(EngineState.BUSY)


def keep_fault(m: Module, engine: wiring.PureInterface, *faults: data.View) -> Signal:
    """Register the first fault, earlier arguments first; return whether the engine must stop.

    A fault that appears in one cycle is shown in the next, from which on the engine is stopped.
    """
    stop = Signal()
    m.d.comb += stop.eq(engine.stop | engine.fault.valid)
    with m.If(~stop):
        for fault in reversed(faults):
            with m.If(fault.valid):
                m.d.sync += engine.fault.eq(fault)
    return stop
