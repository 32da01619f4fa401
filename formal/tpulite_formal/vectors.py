"""The vector engine asks for rows and offers results only while it executes a command.

So it does not go from waiting for the buffer to waiting for tokens: a waiver of coverage
(`tb/coverage_waivers.csv`) says so of the chip. Of the walk through the addresses it is assumed
that it gives rows of parameters and whole windows, of the lanes that a result is that of a window
that has entered; both may take any time.
"""

from dataclasses import replace
from functools import partial, reduce
from operator import and_, or_

from amaranth.hdl import Const, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring

from tpulite.arch.config import Config
from tpulite.arch.isa import VectorOp
from tpulite.arch.registers import EngineState
from tpulite_formal.engines import surround
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_formal.queue import opened, queues_in
from tpulite_rtl.vpu import operand_port, vector_engine
from tpulite_rtl.vpu.vector_engine import VectorEngine

__all__ = ["PROOFS"]

_SMALL = Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4)
_STATE = (
    "each window that was begun and is not written is on its way, and each row that a step asked "
    "for has its place: there is none of either without a command"
)


def _walk(h: Harness, addresses: wiring.Component) -> tuple[Signal, Signal]:
    """Let a walk be rows of parameters and whole windows; return whether one is on, and inside."""
    i, o = addresses.i, addresses.o
    step, taken = o.payload, o.valid & o.ready
    walks, inside = Signal(name="walks"), Signal(name="inside_window")
    ends = h.free(1, "walk_ends") & ~step.parameter & step.last
    h.m.d.sync += walks.eq(Mux(walks, ~(taken & ends), i.valid))
    h.m.d.sync += inside.eq(Mux(taken & ~step.parameter, ~step.last, inside))
    h.assume(i.ready == ~walks)
    h.assume(~(o.valid | addresses.fault) | walks)
    h.assume(step.first == ~(step.parameter | inside))
    h.assume(~step.parameter | (~step.paired & ~inside))
    return walks, inside


def _rows(port: wiring.Component) -> tuple[Value, Value]:
    """Return how many rows are between the ends of a port, and what its credits mean."""
    inner, register = opened(port)
    requests, rows = inner.submodules.requests, inner.submodules.rows
    coming = sum((bit for bit in register("coming")), start=Const(0))
    left, some = register("room_left"), register("room_some")
    known = (left + coming + rows.level == rows.depth) & (some == (left != 0))
    fits = (requests.level <= requests.depth) & (rows.level <= rows.depth)
    return requests.level + coming + rows.level, known & fits


def _vectors(config: Config) -> Harness:
    """Return a harness in which lanes return a result for each window, at any time."""
    dut = VectorEngine(config)
    engine = dut.engine
    with queues_in(vector_engine, operand_port):
        h = Harness(dut)
        parts = h.inner.submodules
        rows_a, port_a = _rows(parts.port_a)
        rows_b, port_b = _rows(parts.port_b)
    addresses, lanes, reducer = parts.addresses, parts.lanes, parts.reducer
    h.cut(addresses, lanes, parts.parameters)
    surround(h, engine)
    was_reset = Signal(name="was_reset", reset_less=True)
    h.m.d.sync += was_reset.eq(ResetSignal())
    h.assume(~was_reset | ~engine.command.valid)
    walks, inside = _walk(h, addresses)

    ends = reducer.o.payload.ends if config.has_softmax else Const(1)
    in_lanes = Signal(range(32), name="in_lanes")
    enters = lanes.i.valid & lanes.i.ready & ends
    h.m.d.sync += in_lanes.eq(in_lanes + enters - lanes.o.valid)
    h.assume(~lanes.o.valid | (in_lanes != 0))

    places, results = parts.places, parts.results
    held = list(reversed(places.holds()))
    windows = sum((valid & p.last & ~p.parameter for valid, p in held), start=Const(0))
    paired = sum((valid & p.paired for valid, p in held), start=Const(0))
    followed, whole, youngest = inside, Const(1), Const(1)
    for valid, place in held:
        whole &= ~valid | place.parameter | place.last | followed
        followed |= valid & place.last & ~place.parameter
    for valid, place in reversed(held):
        youngest = Mux(valid, place.last & ~place.parameter, youngest)
    _, of_rows = opened(parts.out_rows)
    level, left, some = of_rows("level"), h.register("room_left"), h.register("room_some")
    direct = reducer.operation.matches(VectorOp.COPY, VectorOp.MAX)
    is_norm = reducer.operation == VectorOp.NORM
    reduced = reducer.o.valid & ends
    to_write = reduced + in_lanes + results.level
    known = [
        port_a & port_b,
        (places.level <= places.depth) & (results.level <= results.depth),
        (rows_a == places.level) & (rows_b == paired),
        ~reduce(or_, (valid & p.parameter & p.paired for valid, p in held)),
        level == windows + to_write + inside,
        parts.out_rows.waiting == (level != 0),
        (left + to_write == results.depth) & (some == (left != 0)),
        walks | (youngest & ~inside),
        ~engine.idle | ~(walks | (level != 0)),
        (in_lanes == 0) | ~direct,
        ~reducer.o.valid | (lanes.i.valid == ~direct),
        ~reducer.o.valid | ends | (is_norm & followed),
        whole,
    ]
    h.prove("state", _STATE, reduce(and_, known))
    waits = engine.state == EngineState.BUFFER
    before = Signal(name="waited_before", reset_less=True)
    h.m.d.sync += before.eq(waits & ~ResetSignal())
    h.prove(
        "held",
        "a command that waits for the buffer is not done in the next cycle",
        ~before | ~engine.idle,
    )
    most = places.depth + results.depth + 1  # the last is that of a window inside which a walk is
    few = f"at most {most} vectors are between their addresses and the write port"
    h.prove("few", few, level <= most)
    h.cover("buffer", "it waits for the buffer", waits)
    return h


_CONFIGS = {
    "4x4": _SMALL,
    "8x8, softmax": replace(_SMALL, array_size=8, softmax=True),
    "16x16": Config(),
}

PROOFS = [
    Proof("vpu.vector_engine", case, partial(_vectors, config), inductive=True, mutants=200)
    for case, config in _CONFIGS.items()
]
