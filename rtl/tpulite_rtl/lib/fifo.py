"""FIFO between streams."""

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tpulite_rtl.lib.memory import TwoPortRam

__all__ = ["StreamFifo"]

_RAM_BITS = 2048
"""FIFOs of so many bits are worth a RAM: smaller ones are less than its periphery."""


class StreamFifo(wiring.Component):
    """Queue of a few transfers.

    A transfer accepted in one cycle is offered in the next; throughput is one transfer per cycle
    from a depth of two on. ``i.ready``, ``o.valid`` and ``o.payload`` depend on registers alone.

    What comes into an empty queue goes to a register at its end, everything else to a memory. That
    of a large queue is a RAM with a clock on its read port, and ``o.payload`` a choice between that
    port and the register. That of a small one is registers, or LUT RAM, which a second step reads
    into the register at the end. A memory writes whatever comes at the place that comes next, which
    is taken only if it did not go to the register. No RAM is read at the place that is being
    written.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a payload.
    depth : int
        Transfers that it holds.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"FIFO depth must be at least 1, not {depth!r}")
        self.shape = shape
        self.depth = depth
        super().__init__(
            {
                # Transfers into the queue.
                "i": In(stream.Signature(shape)),
                # The same transfers, in order.
                "o": Out(stream.Signature(shape)),
                # Number of transfers inside.
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = Shape.cast(self.shape).width
        written, read = Signal(), Signal()
        # Registers instead of comparisons with the level, as many paths begin here.
        full = Signal()
        holds = Signal()
        alone = Signal(init=1)  # nothing is behind the head
        head = Signal(unsigned(width), reset_less=True)
        m.d.comb += [
            self.i.ready.eq(~full),
            self.o.valid.eq(holds),
            written.eq(self.i.valid & self.i.ready),
            read.eq(self.o.valid & self.o.ready),
        ]
        with m.If(written & ~read):
            m.d.sync += [
                self.level.eq(self.level + 1),
                alone.eq(self.level == 0),
                holds.eq(1),
                full.eq(self.level == self.depth - 1),
            ]
        with m.If(read & ~written):
            m.d.sync += [
                self.level.eq(self.level - 1),
                alone.eq(self.level <= 2),
                holds.eq(self.level != 1),
                full.eq(0),
            ]
        advance = read | ~self.o.valid
        put, take = written & ~(alone & advance), read & ~alone
        arriving, leaving = Value.cast(self.i.payload), Value.cast(self.o.payload)
        if width * self.depth >= _RAM_BITS:
            # As large as the queue, not smaller by the head: an even size is what RAMs have.
            m.submodules.memory = ram = TwoPortRam(width, self.depth)
            direct = Signal(init=1)  # the head is in the register
            m.d.comb += [
                ram.write_enable.eq(written),
                ram.write_row.eq(_place(m, put, self.depth)),
                ram.write_data.eq(arriving),
                ram.read_enable.eq(take),
                ram.read_row.eq(_place(m, take, self.depth)),
                leaving.eq(Mux(direct, head, ram.read_data)),
            ]
            with m.If(advance):
                m.d.sync += direct.eq(alone)
            with m.If(advance & alone):
                m.d.sync += head.eq(arriving)
            return m
        behind = arriving  # never chosen if there is no place behind the head
        if self.depth > 1 and width:
            memory = Memory(shape=unsigned(width), depth=self.depth - 1, init=[])
            m.submodules.memory = memory
            writer, reader = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                writer.en.eq(written),
                writer.addr.eq(_place(m, put, self.depth - 1)),
                writer.data.eq(arriving),
                reader.addr.eq(_place(m, take, self.depth - 1)),
            ]
            behind = reader.data
        m.d.comb += leaving.eq(head)
        with m.If(advance):
            m.d.sync += head.eq(Mux(alone, arriving, behind))
        return m


def _place(m: Module, moves: Value, depth: int) -> Signal:
    """Return a place that goes round a memory."""
    place = Signal(range(depth))
    with m.If(moves):
        m.d.sync += place.eq(Mux(place == depth - 1, 0, place + 1))
    return place
