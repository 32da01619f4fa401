"""What a DMA engine shows to the counters and to the command processor."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring

from tpulite.arch.registers import EngineState

__all__ = ["keep_fault", "show_state"]


def show_state(
    m: Module,
    engine: wiring.PureInterface,
    *,
    holding: Value,
    busy: Value,
    refused: Value,
    outstanding: Value,
    issuing: Value,
) -> None:
    """Drive ``engine.state``: the first reason that applies.

    Parameters
    ----------
    m : Module
        Where the engine is described.
    engine : EngineSignature's interface
        The engine.
    holding : Value
        The engine holds a command.
    busy : Value
        Something moved in this cycle.
    refused : Value
        The unified buffer was asked and refused.
    outstanding : Value
        AXI bursts are under way.
    issuing : Value
        The next one is about to be: no token is waited for.
    """
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
    with m.Elif(outstanding):
        m.d.comb += engine.state.eq(EngineState.AXI)
    with m.Elif(waiting & ~issuing):
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
