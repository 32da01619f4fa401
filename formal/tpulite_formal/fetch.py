"""Command fetch: bursts stay in the program, the buffer never overflows, commands have turns."""

from functools import partial

from amaranth.hdl import Cat, Mux, Signal, Value

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.memory import PAGE_BYTES
from tpulite.arch.registers import Fault
from tpulite.arch.timing import fetch_buffer
from tpulite_formal.fetch_run import COMMAND_BEATS, FetchRun
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.cp.command_fetch import CommandFetch
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["PROOFS"]

_OFFSET_BITS = (BEAT_BYTES - 1).bit_length()
_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES
_PAGE_BITS = (_PAGE_BEATS - 1).bit_length()


def _harness(longest: int) -> Harness:
    """Return a harness with any programs, one after the other."""
    dut = CommandFetch(Config(burst_beats=longest))
    h = Harness(dut)
    run = FetchRun.of(h, dut)
    _state(h, dut, run)
    _requests(h, dut, run)
    _room(h, dut, run)
    _turns(h, dut, run)
    return h


def _state(h: Harness, dut: CommandFetch, run: FetchRun) -> None:
    """Ask for what the registers mean, from which the rest follows."""
    depth, longest = fetch_buffer(dut.config), dut.config.burst_beats
    buffer, verdicts = h.inner.submodules.buffer, h.inner.submodules.verdicts
    burst, beyond, limit = h.register("burst"), h.register("beyond"), h.register("limit")
    offset, place = h.register("beyond_offset"), h.register("beat_address")
    room, outstanding = h.register("room"), h.register("outstanding")
    raised, whole, half = h.register("raised"), h.register("whole"), h.register("half")
    inside = buffer.level + whole
    over = Signal(name="over")  # all was delivered in the cycle before
    h.m.d.sync += over.eq(run.live & (run.delivered == dut.program.length))

    def most(offset: Value) -> Value:
        left = _PAGE_BEATS - offset
        return Mux(left < longest, left, longest)

    first, first_limit = run.told.address[_OFFSET_BITS:][:_PAGE_BITS], h.register("first_limit")
    since_reset = (first_limit == 0) & (Value.cast(run.told) == 0)
    while_going = [
        run.requested + burst + beyond == COMMAND_BEATS * dut.program.length,
        place == (run.base[_OFFSET_BITS:] + run.requested)[: len(place)],
        run.base == dut.program.address,
        (burst != 0) | (beyond == 0),
        (beyond == 0) | ((offset == (place + burst)[:_PAGE_BITS]) & (limit == most(offset))),
        run.requested == run.received + outstanding,
        (half == run.received[0]) & ~(whole & half),
        run.received == COMMAND_BEATS * (run.delivered + inside) + half,
        room + outstanding + COMMAND_BEATS * inside + half == COMMAND_BEATS * depth,
        ~raised | (burst <= room),
        ~h.register("fits") | ((burst != 0) & (burst <= room)),
        h.register("overrun") == over,
        ~over | (run.delivered == dut.program.length),
    ]
    state = [
        (first_limit == most(first)) | since_reset,
        (h.register("active") == run.going) & (raised == run.refused),
        (verdicts.level == buffer.level) & (buffer.level <= depth),
        *(fifo.o.valid == (fifo.level != 0) for fifo in (buffer, verdicts)),
        *(fifo.i.ready == (fifo.level != depth) for fifo in (buffer, verdicts)),
        h.register("index") == run.delivered[:INDEX_BITS],
        dut.address == (run.base + COMMAND_BYTES * run.delivered)[: len(dut.address)],
        outstanding == run.pending,
        outstanding + Mux(raised, burst, 0) <= COMMAND_BEATS * depth,
        ~(run.going | raised) | ((burst <= longest) & (place[:_PAGE_BITS] + burst <= _PAGE_BEATS)),
        ~raised | (burst != 0),
        ~run.going | Cat(while_going).all(),
    ]
    h.prove(
        "state", "registers mean what they are for, from which the rest follows", Cat(state).all()
    )
    h.prove(
        "overrun",
        "OVERRUN exactly when all of the program was delivered and none of it was END",
        run.overrun == (run.live & over),
    )


def _requests(h: Harness, dut: CommandFetch, run: FetchRun) -> None:
    """Ask for what is seen of bursts."""
    ar = dut.read.ar
    here, beats = ar.p.address[_OFFSET_BITS:], ar.p.len + 1
    new = ar.valid & ~run.refused
    due = run.base[_OFFSET_BITS:] + run.requested
    h.prove(
        "follows",
        "bursts follow each other from the program's first beat on",
        ~new | ((here == due[: len(here)]) & (ar.p.address[:_OFFSET_BITS] == 0)),
    )
    h.prove(
        "program",
        "none goes beyond the program, or is first offered after stop or END",
        ~new | (run.live & (run.requested + beats <= COMMAND_BEATS * dut.program.length)),
    )
    h.prove(
        "page",
        f"no burst crosses {PAGE_BYTES} bytes",
        ~ar.valid | (here[:_PAGE_BITS] + beats <= _PAGE_BEATS),
    )
    h.prove(
        "longest",
        "no burst is longer than burst_beats",
        ~ar.valid | (beats <= dut.config.burst_beats),
    )
    h.prove_stable("stable", "an address that is refused stays", ar)
    h.prove(
        "quiet",
        "quiet exactly while no beat is outstanding and no address was refused",
        dut.quiet == (~run.refused & (run.pending == 0)),
    )
    h.cover("cut", "a page cuts the second burst", new & (run.requested != 0) & (beats == 1))


def _room(h: Harness, dut: CommandFetch, run: FetchRun) -> None:
    """Ask for the buffer to take all that comes."""
    buffer, verdicts = h.inner.submodules.buffer, h.inner.submodules.verdicts
    waiting = run.pending + run.received - COMMAND_BEATS * run.delivered
    h.prove(
        "room",
        "beats outstanding and those of commands that wait are no more than the buffer holds",
        ~run.going | (waiting <= COMMAND_BEATS * fetch_buffer(dut.config)),
    )
    h.prove(
        "full",
        "nothing enters a full buffer, and the verdicts' has the same number inside",
        (~buffer.i.valid | buffer.i.ready)
        & (~verdicts.i.valid | verdicts.i.ready)
        & (verdicts.level == buffer.level),
    )


def _turns(h: Harness, dut: CommandFetch, run: FetchRun) -> None:
    """Ask for what is delivered, and for faults."""
    fault, index = dut.fault, run.delivered[:INDEX_BITS]
    fetch = fault.valid & (fault.code == Fault.FETCH)
    h.prove(
        "turn",
        "index counts what was delivered, and address tells where the next command lies",
        (dut.o.p.index == index)
        & (dut.address == (run.base + COMMAND_BYTES * run.delivered)[: len(dut.address)]),
    )
    h.prove(
        "blame",
        "a fault is FETCH or OVERRUN, of the command whose turn it is, which is not delivered",
        ~fault.valid
        | (
            ~dut.o.valid
            & (fault.index == index)
            & (fault.address == dut.address)
            & (fetch | run.overrun)
        ),
    )
    h.prove(
        "stopped",
        "nothing is delivered, and nothing a fault, before the start and from stop or END on",
        run.live | ~(dut.o.valid | fault.valid),
    )
    h.prove(
        "answered",
        "a command is offered, or is a FETCH fault, exactly while one waits in the buffer",
        (dut.o.valid | fetch) == (run.live & (h.inner.submodules.buffer.level != 0)),
    )
    h.cover("overrun", "OVERRUN after a command", run.overrun & (run.delivered == 1))
    h.cover("fetch", "a FETCH fault after a command", fetch & (run.delivered == 1))


PROOFS = [
    Proof("cp.command_fetch", "bursts of 2", partial(_harness, 2), inductive=True, mutants=900)
]
