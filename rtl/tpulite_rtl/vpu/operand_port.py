"""A read port of the vector path: addresses in, rows out, in order."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.timing import operand_rows, row_read
from tpulite_rtl.lib.credits import credit
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import ROW_BITS, ReadPortSignature

__all__ = ["OperandPort", "capacity"]

_REQUESTS = 4  # so much may a port be ahead of the other, or of its own refusals


def capacity(config: Config) -> int:
    """Return how many rows may be between ``i`` and ``o`` of a port."""
    return _REQUESTS + operand_rows(config)


class OperandPort(wiring.Component):
    """Read rows of the unified buffer, as many ahead of their use as there is room for.

    Throughput is one row a cycle; a row is offered four cycles after its address was accepted.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        row = unsigned(8 * config.row_bytes)
        super().__init__(
            {
                # Rows to read. What was accepted is read.
                "i": In(stream.Signature(unsigned(ROW_BITS))),
                # Read port of the unified buffer.
                "read": Out(ReadPortSignature(config)),
                # Their bytes.
                "o": Out(stream.Signature(row)),
                # A request is accepted in this cycle, or a row is on its way.
                "moving": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = operand_rows(self.config)
        m.submodules.requests = requests = StreamFifo(unsigned(ROW_BITS), _REQUESTS)
        m.submodules.rows = rows = StreamFifo(self.o.payload.shape(), depth)
        wiring.connect(m, wiring.flipped(self.i), requests.i)
        wiring.connect(m, rows.o, wiring.flipped(self.o))

        # A row has its place from its request until it is taken: an offer is never withdrawn.
        request = self.read.request
        accepted, taken = Signal(), Signal()
        room = credit(m, depth, taken=accepted, returned=taken, name="room")
        m.d.comb += [
            request.payload.eq(requests.o.payload),
            request.valid.eq(requests.o.valid & room),
            accepted.eq(request.valid & request.ready),
            requests.o.ready.eq(accepted),
            taken.eq(self.o.valid & self.o.ready),
        ]

        # Not `response.valid`: it would show rows asked for before a reset.
        coming = Signal(row_read(self.config))
        m.d.sync += coming.eq(Cat(accepted, coming))
        m.d.comb += [
            rows.i.payload.eq(self.read.response.payload),
            rows.i.valid.eq(coming[-1]),
            self.moving.eq(accepted | coming.any()),
        ]
        return m
