"""FIFO between streams."""

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["StreamFifo"]


class StreamFifo(wiring.Component):
    """Queue of a few transfers.

    A transfer accepted in one cycle is offered in the next; throughput is one transfer per cycle
    from a depth of two on. ``i.ready`` depends on registers alone, ``o.valid`` and ``o.payload`` do
    so, too: the oldest transfer is in a register. Those behind it are in a memory that is read
    without a clock, so it becomes LUT RAM: keep it shallow.

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
        written, read = Signal(), Signal()
        alone = Signal(init=1)  # nothing is behind the head: a register, as every bit asks for it
        head = Signal(unsigned(Shape.cast(self.shape).width), reset_less=True)
        m.d.comb += [
            self.i.ready.eq(self.level != self.depth),
            self.o.valid.eq(self.level != 0),
            Value.cast(self.o.payload).eq(head),
            written.eq(self.i.valid & self.i.ready),
            read.eq(self.o.valid & self.o.ready),
        ]
        with m.If(written & ~read):
            m.d.sync += [self.level.eq(self.level + 1), alone.eq(self.level == 0)]
        with m.If(read & ~written):
            m.d.sync += [self.level.eq(self.level - 1), alone.eq(self.level <= 2)]
        behind = self._behind(
            m, put=written & ~(alone & (read | ~self.o.valid)), take=read & ~alone
        )
        with m.If(read | ~self.o.valid):
            m.d.sync += head.eq(Mux(alone, Value.cast(self.i.payload), behind))
        return m

    def _behind(self, m: Module, *, put: Value, take: Value) -> Value:
        """Return the transfer that follows the head; ``put`` adds the newest one."""
        depth, width = self.depth - 1, Shape.cast(self.shape).width
        if not depth or not width:
            return Value.cast(self.i.payload)  # never chosen
        m.submodules.memory = memory = Memory(shape=unsigned(width), depth=depth, init=[])
        writer, reader = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [writer.en.eq(put), writer.data.eq(self.i.payload)]
        for port, moves in ((writer, put), (reader, take)):
            place = Signal(range(depth))
            m.d.comb += port.addr.eq(place)
            with m.If(moves):
                m.d.sync += place.eq(Mux(place == depth - 1, 0, place + 1))
        return reader.data
