"""Command fetch: each command is made of the two beats that were answered for it."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Mux, Signal, Value

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite_formal.fetch_run import COMMAND_BEATS, FetchRun
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.cp.command_fetch import CommandFetch
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["PROOFS"]

_BEAT_BITS = 8 * BEAT_BYTES
_PLACES = (0, _BEAT_BITS - 1)
"""Bits of each beat that are watched."""


@dataclass(frozen=True)
class _Watched:
    """A command of the program, which may be any: its number, and what its beats were."""

    which: Signal
    bits: list[Signal]
    errors: list[Signal]

    @classmethod
    def of(cls, h: Harness, dut: CommandFetch, run: FetchRun) -> "_Watched":
        """Return what comes for it from memory."""
        which = h.constant(INDEX_BITS, "which")
        bits = [Signal(len(_PLACES), name=f"told_{n}") for n in range(COMMAND_BEATS)]
        errors = [Signal(name=f"error_told_{n}") for n in range(COMMAND_BEATS)]
        beat = dut.read.r.p
        for number in range(COMMAND_BEATS):
            due = run.received == COMMAND_BEATS * which + number
            with h.m.If(dut.read.r.valid & due):
                seen = Cat(beat.data[place] for place in _PLACES)
                h.m.d.sync += [bits[number].eq(seen), errors[number].eq(beat.error)]
        return cls(which, bits, errors)


def _of_beat(word: Value, number: int) -> Value:
    return Cat(word[_BEAT_BITS * number + place] for place in _PLACES)


def _entering() -> Harness:
    """Return a harness that looks at what enters the buffer."""
    dut = CommandFetch(Config(burst_beats=2))
    h = Harness(dut)
    run = FetchRun.of(h, dut)
    watched = _Watched.of(h, dut, run)
    buffer, verdicts = h.inner.submodules.buffer, h.inner.submodules.verdicts
    entered = Signal(len(run.received) - 1, name="entered")
    h.m.d.sync += entered.eq(Mux(dut.start, 0, entered + buffer.i.valid))
    half, whole, errors = h.register("half"), h.register("whole"), h.register("errors")
    word = h.register("word")
    state = [
        (half == run.received[0]) & ~(whole & half),
        run.received[1:] == (entered + whole)[: len(entered)],
        (run.received != COMMAND_BEATS * watched.which + 1)
        | ((_of_beat(word, 1) == watched.bits[0]) & (errors[1] == watched.errors[0])),
        ~(whole & (entered == watched.which))
        | (
            (Cat(_of_beat(word, n) for n in range(COMMAND_BEATS)) == Cat(watched.bits))
            & (errors == Cat(watched.errors))
        ),
    ]
    h.prove(
        "halves",
        "beats of the program are counted in twos, and the last two are in a register",
        (h.register("active") == run.going) & (~run.going | Cat(state).all()),
    )
    is_it = buffer.i.valid & (entered == watched.which)
    read = Cat(_of_beat(buffer.i.p, n) for n in range(COMMAND_BEATS))
    h.prove(
        "enters",
        "the n-th command that enters the buffer is made of the beats 2n and 2n + 1 of the program",
        ~is_it | (read == Cat(watched.bits)),
    )
    h.prove(
        "error",
        "with it goes whether one of them was an AXI error",
        (verdicts.i.valid == buffer.i.valid)
        & (~is_it | (verdicts.i.p.error == Cat(watched.errors).any())),
    )
    h.cover("third", "the third command enters", is_it & (watched.which == 2))
    return h


PROOFS = [
    Proof(
        "cp.command_fetch", "into the buffer", _entering, quick=True, inductive=True, mutants=900
    ),
]
