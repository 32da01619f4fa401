"""LOAD and STORE hold a command as long as a burst or a row of it is on its way.

So they are not IDLE one cycle and wait for a memory or for the buffer the next, nor the other way
round: waivers of coverage (`tb/coverage_waivers.csv`) say so of the chip.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from tpulite.arch.config import Config
from tpulite.arch.registers import EngineState
from tpulite.arch.timing import row_read
from tpulite_formal.engines import prove_steps, surround
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_formal.queue import Queue, opened, queues_in
from tpulite_rtl.dma import command_tracker, load_engine, row_reader, store_engine
from tpulite_rtl.dma.burst_splitter import BurstSplitter
from tpulite_rtl.dma.geometry import rows_per_beat
from tpulite_rtl.dma.load_engine import LoadEngine
from tpulite_rtl.dma.store_engine import StoreEngine
from tpulite_rtl.dma.unpacker import beat_layout

__all__ = ["PROOFS"]

_CONFIG = Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4, dma_bursts=2)
_COUNT_BITS = 6
"""Of bursts and commands that are under way."""
_STEPS = [
    step
    for waits in (EngineState.BUFFER, EngineState.AXI)
    for step in ((EngineState.IDLE, waits), (waits, EngineState.IDLE))
]
"""Between kinds of waiting, which the engines do not take."""
_STATE = (
    "the tracker holds each command whose last burst or row is on its way, and what else registers "
    "and queues mean"
)


@dataclass(frozen=True)
class _Stage:
    """A place on the way of data, from the youngest on: what is in it, and whether it is a last."""

    valid: Value
    last: Value


def _stages(queue: Queue, name: str) -> list[_Stage]:
    """Return the places of a queue, the youngest first."""
    return [_Stage(valid, getattr(place, name)) for valid, place in reversed(queue.holds())]


def _lasts(stages: Sequence[_Stage]) -> Value:
    """Return how many of these are lasts."""
    return sum((stage.valid & stage.last for stage in stages), start=Const(0))


def _youngest_is_last(stages: Sequence[_Stage]) -> Value:
    """Return whether the youngest is a last, or there is none."""
    result = Const(1)
    for stage in reversed(stages):
        result = Mux(stage.valid, stage.last, result)
    return result


def _counted(h: Harness, name: str, more: Value, less: Value) -> Signal:
    """Return a count of what the memory owes; more of it than fits would show in the proof."""
    count = Signal(_COUNT_BITS, name=name)
    h.m.d.sync += count.eq(count + more - less)
    return count


def _load() -> Harness:
    """Return a harness with a memory that answers only what was asked, in bursts of any length."""
    dut = LoadEngine(_CONFIG)
    with queues_in(load_engine, command_tracker):
        h = Harness(dut)
        parts = h.inner.submodules
        tracker, _ = opened(parts.tracker)
        _, of_unpacker = opened(parts.unpacker)
    splitter, descriptor = parts.splitter, parts.splitter.descriptor
    ar, r = dut.axi.ar, dut.axi.r
    owed = _counted(h, "owed", ar.valid & ar.ready, r.valid & r.ready & r.payload.last)
    h.assume(~r.valid | (owed != 0))
    surround(h, dut.engine)

    bursts = [_Stage(valid, place.origin.last) for valid, place in reversed(parts.bursts.holds())]
    new = _Stage(descriptor.valid, descriptor.payload.origin.last)
    beat = data.View(beat_layout(_CONFIG), of_unpacker("held"))
    held = _Stage(of_unpacker("holding"), beat.last)
    rows = [held, *_stages(parts.rows, "last")]
    flying = tracker.submodules.flying
    known = _tracked(
        h, dut.engine, flying, splitter, [new, *bursts], rows, parts.bursts, parts.rows
    )
    known &= (
        (splitter.outstanding == parts.bursts.level + descriptor.valid)
        & (splitter.outstanding <= _CONFIG.dma_bursts)
        & (splitter.outstanding == owed + ar.valid)
        & (~descriptor.valid | ar.valid)
    )
    h.prove("state", _STATE, known)
    prove_steps(h, dut.engine, _STEPS)
    return h


def _tracked(
    h: Harness,
    engine: wiring.PureInterface,
    flying: Queue,
    splitter: BurstSplitter,
    bursts: Sequence[_Stage],
    rows: Sequence[_Stage],
    *queues: Queue,
) -> Value:
    """Return whether the tracker holds each command whose last burst or row is on its way.

    Until it stops it holds no other, and rows that are not the last are followed by one, or by
    bursts; no queue holds more than it can.
    """
    stop = engine.stop | engine.fault.valid
    under_way = Signal(_COUNT_BITS, name="under_way")
    h.m.d.comb += under_way.eq(_lasts([*bursts, *rows]) + splitter.issuing)
    tracked = Mux(stop, flying.level >= under_way, flying.level == under_way)
    followed = [_youngest_is_last(bursts), _youngest_is_last([*bursts, *rows]) | stop]
    return (
        tracked
        & (splitter.issuing | (followed[0] & followed[1]))
        & ~(splitter.issuing & splitter.waiting)
        & reduce(and_, (queue.level <= queue.depth for queue in (flying, *queues)))
    )


def _store() -> Harness:
    """Return a harness with a memory that responds only to bursts of which it has all beats."""
    dut = StoreEngine(_CONFIG)
    with queues_in(store_engine, command_tracker, row_reader):
        h = Harness(dut)
        parts = h.inner.submodules
        tracker, _ = opened(parts.tracker)
        reader, of_reader = opened(parts.reader)
        _, of_packer = opened(parts.packer)
    splitter, descriptor = parts.splitter, parts.splitter.descriptor
    aw, w, b = dut.axi.aw, dut.axi.w, dut.axi.b
    answered = b.valid & b.ready
    owed = _counted(h, "owed", aw.valid & aw.ready, answered)
    written = _counted(h, "written", w.valid & w.ready & w.payload.last, answered)
    h.assume(~b.valid | ((owed != 0) & (written != 0)))
    surround(h, dut.engine)

    new = _Stage(descriptor.valid, descriptor.payload.origin.last)
    bursts = [new, *_stages(parts.unanswered, "last")]
    steps, fifo = reader.submodules.steps, reader.submodules.fifo
    queues = parts.unanswered, parts.unread, steps, fifo
    known = _tracked(h, dut.engine, tracker.submodules.flying, splitter, bursts, [], *queues)
    known &= (
        (splitter.outstanding == parts.unanswered.level + descriptor.valid)
        & (splitter.outstanding <= _CONFIG.dma_bursts)
        & (splitter.outstanding == owed + aw.valid)
        & (~descriptor.valid | aw.valid)
    )

    known &= _rows(splitter.outstanding - written, parts.unread, reader, of_reader, of_packer)
    h.prove("state", _STATE, known)
    h.prove("kept", "no row is kept in the last place of a beat", ~of_packer("present")[-1])
    prove_steps(h, dut.engine, _STEPS)
    return h


def _rows(
    unsent: Value,
    unread: Queue,
    reader: Module,
    of_reader: Callable[[str], Signal],
    of_packer: Callable[[str], Signal],
) -> Value:
    """Return whether rows are between bursts and beats as they should; so many lasts are unsent.

    The last row of each burst is on its way or will be asked for, each row on its way has a place,
    and the last one of a beat ends it.
    """
    steps, fifo = reader.submodules.steps, reader.submodules.fifo
    entry = data.StructLayout({"valid": 1, "present": 1, "step": steps.shape})
    coming = [data.View(entry, of_reader(f"coming_{cycle}")) for cycle in range(row_read(_CONFIG))]
    pieces = [
        *((valid, step) for valid, step in reversed(steps.holds())),
        *((each.valid, each.step) for each in coming),
        *((valid, piece) for valid, piece in reversed(fifo.holds())),
    ]
    rows = [_Stage(valid, piece.ends_burst) for valid, piece in pieces]
    lasts = unsent == unread.level + _lasts(rows)
    followed = _youngest_is_last(rows) | (unread.level != 0)
    whole = reduce(and_, (~valid | ~p.ends_burst | p.ends_beat for valid, p in pieces))
    left, inside = of_reader("room_left"), sum(valid for valid, _ in pieces)
    room = (left + inside == fifo.depth) & (of_reader("room_some") == (left != 0))

    # From the oldest row on: the place of each in its beat.
    per_beat, position, ends = rows_per_beat(_CONFIG), of_packer("position"), Const(1)
    for valid, piece in reversed(pieces):
        ends &= ~valid | (position != per_beat - 1) | piece.ends_beat
        following = Mux(piece.ends_beat, 0, position + 1)[: len(position)]
        position = Mux(valid, following, position)
    now, beat, burst = of_reader("position"), of_reader("beat"), unread.places[0]
    reading = Mux(unread.level != 0, (beat != burst.len) | (now <= burst.tail), (now | beat) == 0)
    return lasts & followed & whole & room & ends & (position == now) & reading


_HOW = {"inductive": True, "mutants": 200}

PROOFS = [
    Proof("dma.load_engine", "4x4, two bursts", _load, **_HOW),
    Proof("dma.store_engine", "4x4, two bursts", _store, **_HOW),
]
