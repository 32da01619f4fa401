"""Dispatcher: each queue has its engine's commands in program order, and END is last."""

from functools import partial

from amaranth.hdl import Cat, Signal, Value

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, ENGINE_OF, Opcode
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.cp.dispatcher import Dispatcher
from tpulite_rtl.lib.layout import built

__all__ = ["PROOFS"]


def _harness(depth: int) -> Harness:
    """Return a harness that watches one command of each engine, which may be any."""
    dut = Dispatcher(Config(queue_depth=depth))
    h = Harness(dut)
    accepted = dut.i.valid & dut.i.ready
    verdict = dut.i.payload.verdict
    ended = Signal(name="end_accepted")
    h.m.d.sync += ended.eq(ended | (accepted & (verdict.opcode == Opcode.END)))
    h.prove("nothing_after", "nothing is accepted after END", ~(ended & accepted))
    h.prove("ended", "ended tells that END was accepted", dut.ended == ended)
    h.prove(
        "refused",
        "nothing illegal is accepted, and nothing while stop is high",
        ~accepted | (verdict.legal & ~dut.stop),
    )
    inside = []
    for opcode, engine in ENGINE_OF.items():
        inside.append(_queue(h, dut, opcode, engine.name.lower(), accepted, depth))
    h.prove(
        "done",
        "done tells that END was accepted, the queues are empty, and all engines idle",
        dut.done == (ended & (Cat(inside) == 0) & dut.idle.all() & dut.quiet),
    )
    h.cover("waiting", "END was accepted while commands wait", ended & (Cat(inside) != 0))
    h.cover("done", "all is done", dut.done)
    return h


def _queue(
    h: Harness, dut: Dispatcher, opcode: Opcode, name: str, accepted: Value, depth: int
) -> Signal:
    """Ask for a queue to deliver the n-th command of its engine as its n-th; return its level."""
    o = getattr(dut, f"o_{name}")
    put = accepted & (dut.i.payload.verdict.opcode == opcode)
    take = o.valid & o.ready
    held = Signal(range(depth + 1), name=f"{name}_held")
    h.m.d.sync += held.eq(held + put - take)
    h.prove(
        f"{name}_level", f"{name}: a command is offered while any is inside", o.valid == (held > 0)
    )
    width = built(COMMANDS[opcode], dut.config).width
    now, seen = h.watched(put, f"{name}_watch")
    ahead, gone = Signal(range(depth + 1), name=f"{name}_ahead"), Signal(name=f"{name}_gone")
    word = Signal(len(Value.cast(o.payload)), name=f"{name}_word")
    with h.m.If(now):
        command = Cat(dut.i.payload.word[:width], dut.i.payload.index)
        h.m.d.sync += [ahead.eq(held - take), word.eq(command)]
    with h.m.Elif(seen & take & ~gone):
        h.m.d.sync += [ahead.eq(ahead - 1), gone.eq(ahead == 0)]
    h.prove(
        f"{name}_order",
        f"{name}: the n-th command accepted for it is the n-th that it gets, with its index",
        ~(seen & ~gone & (ahead == 0)) | (o.valid & (Value.cast(o.payload) == word)),
    )
    return held


PROOFS = [Proof("cp.dispatcher", f"queues of {n}", partial(_harness, n)) for n in (1, 2)]
