"""A queue whose places can be looked into: what a proof takes for the FIFO of the RTL.

The proofs of ``lib.fifo`` say that the FIFO is one: ready exactly while it is not full, valid
exactly while it is not empty, and in order.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest.mock import patch

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Queue", "opened", "queues_in"]


class Queue(wiring.Component):
    """Transfers in order; of the same ports and parameters as the FIFO.

    Attributes
    ----------
    places : list of Signal
        Transfers, the oldest first; beyond ``level`` they are void.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self.shape, self.depth = shape, depth
        self.places = [
            Signal(shape, name=f"place{index}", reset_less=True) for index in range(depth)
        ]
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        """Describe it as registers, the oldest transfer in the first ones."""
        m = Module()
        put, take = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        values = [Value.cast(place) for place in self.places]
        m.d.comb += [
            self.i.ready.eq(self.level != self.depth),
            self.o.valid.eq(self.level != 0),
            Value.cast(self.o.payload).eq(values[0]),
        ]
        m.d.sync += self.level.eq(self.level + put - take)
        for index, (value, behind) in enumerate(
            zip(values, [*values[1:], values[-1]], strict=True)
        ):
            arrives = put & (index + take == self.level)
            m.d.sync += value.eq(Mux(arrives, Value.cast(self.i.payload), Mux(take, behind, value)))
        return m

    def holds(self) -> list[tuple[Value, Signal]]:
        """Return of each place whether there is a transfer in it, and which one."""
        return [(self.level > index, place) for index, place in enumerate(self.places)]


@contextmanager
def queues_in(*modules: ModuleType) -> Iterator[None]:
    """Let components of some modules of the RTL be made and elaborated with queues for FIFOs."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(patch.object(module, "StreamFifo", Queue))
        yield


def opened(component: wiring.Component) -> tuple[Module, Callable[[str], Signal]]:
    """Elaborate a part of a component at once; return it, and its registers by their names."""
    inner = component.elaborate(None)
    component.elaborate = lambda platform: inner

    def register(name: str) -> Signal:
        (found,) = (signal for signal in inner._driving if signal.name == name)
        return found

    return inner, register
