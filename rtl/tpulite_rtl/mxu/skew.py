"""Delay lines that turn vectors into wavefronts and back."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Skew"]


class Skew(wiring.Component):
    """Delay each lane of a vector by a number of cycles of its own.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a lane.
    delays : tuple of int
        Cycles of delay of each lane.
    """

    def __init__(self, shape, delays: tuple[int, ...]) -> None:
        self.delays = delays
        lanes = len(delays)
        super().__init__(
            {
                # Lanes.
                "i": In(shape).array(lanes),
                "o": Out(shape).array(lanes),
                # Lanes a cycle before ``o``; but for those without delay, which are not known yet.
                "early": Out(shape).array(lanes),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for lane, cycles in enumerate(self.delays):
            stages = [self.i[lane]]
            for cycle in range(cycles):
                stage = Signal.like(stages[-1], name=f"lane{lane}_{cycle + 1}", reset_less=True)
                m.d.sync += stage.eq(stages[-1])
                stages.append(stage)
            m.d.comb += [self.o[lane].eq(stages[-1]), self.early[lane].eq(stages[-2:][0])]
        return m
