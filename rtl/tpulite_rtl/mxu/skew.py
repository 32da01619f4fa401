"""Delay lines that turn vectors into wavefronts and back."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Skew", "delay"]


def delay(m: Module, signal, cycles: int, *, name: str):
    """Return ``signal`` delayed by registers without reset."""
    for cycle in range(cycles):
        delayed = Signal.like(signal, name=f"{name}_{cycle + 1}", reset_less=True)
        m.d.sync += delayed.eq(signal)
        signal = delayed
    return signal


class Skew(wiring.Component):
    """Delay each lane of a vector by a number of cycles of its own.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a lane.
    delays : tuple of int
        Cycles of delay of each lane.

    Members
    -------
    i, o : array of shape
        Lanes.
    """

    i: list
    o: list

    def __init__(self, shape, delays: tuple[int, ...]) -> None:
        self.delays = delays
        super().__init__({"i": In(shape).array(len(delays)), "o": Out(shape).array(len(delays))})

    def elaborate(self, platform) -> Module:
        m = Module()
        for lane, cycles in enumerate(self.delays):
            m.d.comb += self.o[lane].eq(delay(m, self.i[lane], cycles, name=f"lane{lane}"))
        return m
