"""FIFO: nothing is lost, doubled or reordered, whatever is offered and taken."""

from amaranth.hdl import Const, Mux, Signal, Value, unsigned
from amaranth.lib.memory import Memory

from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.lib.fifo import StreamFifo

__all__ = ["PROOFS"]

_INDUCTIVE = 8
"""Depth up to which the order of transfers is decided for all runs; beyond, it takes too long."""

_CYCLES = 24
"""Cycles for which it is decided beyond: enough to fill 16 places, and to go round."""


def _harness(width: int, depth: int, bits: int) -> Harness:
    """Return a harness that watches one transfer, which may be any, and its lowest bits."""
    dut = StreamFifo(unsigned(width), depth)
    h = Harness(dut)
    put, take = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
    held = Signal(range(depth + 1))
    h.m.d.sync += held.eq(held + put - take)
    h.lemma("level", "level is what came in minus what went out", dut.level == held)
    h.prove("ready", "ready exactly while it is not full", dut.i.ready == (held != depth))
    h.prove("valid", "valid exactly while it is not empty", dut.o.valid == (held != 0))

    now, seen = h.watched(put, "watch")
    ahead, gone = Signal(range(depth + 1)), Signal()
    word = Signal(bits)
    places, writes, reads = _places(h)
    place = Signal(range(places))
    with h.m.If(now):
        h.m.d.sync += [ahead.eq(held - take), word.eq(dut.i.payload), place.eq(writes)]
    with h.m.Elif(seen & take & ~gone):
        h.m.d.sync += [ahead.eq(ahead - 1), gone.eq(ahead == 0)]
    inside = seen & ~gone
    h.lemma(
        "places",
        "what lies in the memory lies between both pointers",
        (~inside | (ahead < held))
        & (writes == _around(reads + Mux(held == 0, 0, held - 1), places))
        & (~inside | (ahead == 0) | (place == _around(reads + ahead - 1, places))),
    )
    h.prove(
        "order",
        "the n-th transfer that goes in is the n-th that comes out, unchanged",
        ~(inside & (ahead == 0)) | (dut.o.valid & (dut.o.payload[:bits] == word)),
        cycles=_CYCLES if depth > _INDUCTIVE else 0,
    )
    h.prove_stable("stable", "what is offered stays until it is taken", dut.o)
    h.cover("full", "it is full", held == depth)
    h.cover("passed", "the watched transfer is gone while others are inside", gone & (held > 0))
    return h


def _places(h: Harness) -> tuple[int, Value, Value]:
    """Return the size of the memory, and where it is written and read."""
    memory = getattr(h.inner.submodules, "memory", None)
    if memory is None:
        return 1, Const(0, 0), Const(0, 0)
    if isinstance(memory, Memory):
        return memory.depth, memory.write_ports[0].addr, memory.read_ports[0].addr
    return memory.depth, memory.write_row, memory.read_row


def _around(place: Value, places: int) -> Value:
    """Return a place that is beyond the end at most once."""
    return Mux(place >= places, place - places, place)


def _proof(width: int, depth: int, bits: int, *, quick: bool = False) -> Proof:
    seen = "" if bits == width else f", bit 0 of {width}"
    return Proof(
        "lib.fifo", f"{width} x {depth}{seen}", lambda: _harness(width, depth, bits), quick=quick
    )


PROOFS = [
    _proof(8, 1, 8),
    _proof(8, 2, 8),
    _proof(8, 3, 8, quick=True),
    _proof(2, 16, 2),
    _proof(128, 16, 1),
]
