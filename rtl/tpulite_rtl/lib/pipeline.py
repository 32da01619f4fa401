"""Values that travel beside a pipeline."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data

__all__ = ["delay"]


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
