"""Values that travel beside a pipeline, and those that wait before one."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream

__all__ = ["delay", "parked"]


def delay(
    m: Module,
    value: Value | data.View,
    cycles: int,
    name: str,
    *,
    enables: Sequence[Value] | None = None,
) -> list:
    """Return a value and its copies of 1 ... ``cycles`` cycles ago.

    Parameters
    ----------
    m : Module
        Gets the registers.
    value : Value or View
        What to delay.
    cycles : int
        How many registers.
    name : str
        Begins the names of the copies.
    enables : sequence of Value, optional
        Copy i + 1 keeps its value unless ``enables[i]`` is high; else all always follow.
    """
    copies = [value]
    for cycle in range(cycles):
        copy = Signal(value.shape(), name=f"{name}_{cycle + 1}")
        with m.If(1 if enables is None else enables[cycle]):
            m.d.sync += copy.eq(copies[-1])
        copies.append(copy)
    return copies


def parked(m: Module, source: stream.Interface, load: Value) -> tuple[Signal, data.View]:
    """Return whether there is a transfer, and which: the one that waits, else the one that comes.

    One transfer may wait, so that ``source.ready`` is a register.

    Parameters
    ----------
    m : Module
        Gets the registers.
    source : stream.Interface
        Transfers of a layout; accepted here.
    load : Value
        A transfer is taken in this cycle, if there is one.
    """
    shape = source.payload.shape()
    waiting, waits = Signal(shape, reset_less=True), Signal()
    offered, following = Signal(), data.View(shape, Signal(shape.size, name="following"))
    m.d.comb += [
        source.ready.eq(~waits),
        offered.eq(waits | source.valid),
        following.eq(Mux(waits, waiting, source.payload)),
    ]
    m.d.sync += waits.eq(offered & ~load)
    with m.If(~waits):
        m.d.sync += waiting.eq(source.payload)
    return offered, following
