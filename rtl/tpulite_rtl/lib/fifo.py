"""FIFO between streams."""

from amaranth.hdl import Module, Shape, ShapeLike, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["StreamFifo"]


class StreamFifo(wiring.Component):
    """Queue of a few transfers.

    A transfer accepted in one cycle is offered in the next; throughput is one transfer per cycle
    from a depth of two on. ``i.ready`` and ``o.valid`` depend on registers alone. The storage is
    read without a clock, so it becomes LUT RAM: keep it shallow.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a payload.
    depth : int
        Transfers that it holds.

    Members
    -------
    i : In(stream.Signature(shape))
        Transfers into the queue.
    o : Out(stream.Signature(shape))
        The same transfers, in order.
    level : Out(range(depth + 1))
        Number of transfers inside.
    """

    i: stream.Interface
    o: stream.Interface
    level: Signal

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"FIFO depth must be at least 1, not {depth!r}")
        self.shape = shape
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFO(
            width=Shape.cast(self.shape).width, depth=self.depth
        )
        m.d.comb += [
            queue.w_data.eq(self.i.payload),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(queue.w_rdy),
            self.o.payload.eq(queue.r_data),
            self.o.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.o.ready),
            self.level.eq(queue.level),
        ]
        return m
