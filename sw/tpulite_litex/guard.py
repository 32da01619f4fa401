"""An error for each access beyond the memory, which LiteDRAM does not give."""

from litex.gen import LiteXModule
from litex.soc.interconnect import axi, stream
from migen import If, Signal, log2_int

__all__ = ["AddressGuard"]

_BURSTS = 16
"""Bursts that may be under way of each kind; LiteDRAM's own buffers hold as many."""


class AddressGuard(LiteXModule):
    """Answer bursts that begin outside of the memory with DECERR.

    LiteDRAM answers everything with OKAY, and addresses wrap. Here such a read is done, too,
    and such a write without strobes; only the response tells. Bursts may not cross 4,096 bytes; the
    memory answers in order, as LiteDRAM does. Nothing is delayed but by a full queue.

    Parameters
    ----------
    master : AXIInterface
        Whose accesses are checked.
    origin, size : int
        First byte of the memory, and its bytes, a power of two.

    Attributes
    ----------
    memory : AXIInterface
        The accesses, for LiteDRAM.
    """

    def __init__(self, master, *, origin: int, size: int) -> None:
        self.memory = memory = axi.AXIInterface(
            data_width=master.data_width,
            address_width=master.address_width,
            id_width=master.id_width,
        )
        for channel in ("aw", "w", "ar"):
            self.comb += getattr(master, channel).connect(getattr(memory, channel))
        for channel in ("b", "r"):
            self.comb += getattr(memory, channel).connect(getattr(master, channel))

        self._answer(master.ar, memory.ar, memory.r, master.r, (origin, size), last=memory.r.last)
        self._answer(master.aw, memory.aw, memory.b, master.b, (origin, size), last=1)

        # Data may come before their address: they wait until it is known.
        queue, outside = self._queue(master.aw, memory.aw, (origin, size))
        moves = memory.w.valid & memory.w.ready
        self.comb += [
            If(~queue.source.valid, memory.w.valid.eq(0), master.w.ready.eq(0)),
            If(outside, memory.w.strb.eq(0)),
            queue.source.ready.eq(moves & memory.w.last),
        ]

    def _answer(self, offer, passed, answer, response, span: tuple[int, int], *, last) -> None:
        queue, outside = self._queue(offer, passed, span)
        self.comb += [
            If(outside, response.resp.eq(axi.RESP_DECERR)),
            queue.source.ready.eq(answer.valid & answer.ready & last),
        ]

    def _queue(self, offer, passed, span: tuple[int, int]):
        """Remember of each burst whether it is outside; return that of the oldest."""
        origin, size = span
        shift = log2_int(size)
        queue = stream.SyncFIFO([("outside", 1)], _BURSTS)
        self.submodules += queue
        outside = Signal()
        self.comb += [
            queue.sink.outside.eq(offer.addr[shift:] != origin >> shift),
            queue.sink.valid.eq(passed.valid & passed.ready),
            If(~queue.sink.ready, passed.valid.eq(0), offer.ready.eq(0)),
            outside.eq(queue.source.valid & queue.source.outside),
        ]
        return queue, outside
