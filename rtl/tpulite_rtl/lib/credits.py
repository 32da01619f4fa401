"""Counts the places that are left, for what must not be asked for without one."""

from amaranth.hdl import Module, Mux, Signal, Value

__all__ = ["credit"]


def credit(m: Module, places: int, *, taken: Value, returned: Value, name: str) -> Signal:
    """Return whether a place is left: a register, as a request begins there.

    Parameters
    ----------
    m : Module
        Gets the registers.
    places : int
        How many there are.
    taken : Value
        One is taken in this cycle; only if one is left.
    returned : Value
        One is given back.
    name : str
        Begins the names of the registers.
    """
    left = Signal(range(places + 1), init=places, name=f"{name}_left")
    some = Signal(init=1, name=f"{name}_some")
    m.d.sync += some.eq(Mux(taken, left > 1, some) | returned)
    with m.If(taken & ~returned):
        m.d.sync += left.eq(left - 1)
    with m.If(returned & ~taken):
        m.d.sync += left.eq(left + 1)
    return some
