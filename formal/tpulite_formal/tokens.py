"""Token counters: every token that is given can be taken once, and no other."""

from functools import reduce
from operator import and_

from amaranth.hdl import Signal, signed

from tpulite.arch.isa import TOKEN_MAX, Engine
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.cp.token_counters import TokenCounters

__all__ = ["PROOFS"]


def _harness() -> Harness:
    """Return a harness that counts with a sign, so that it would see less than none."""
    dut = TokenCounters()
    h = Harness(dut)
    bits = TOKEN_MAX.bit_length() + 2
    counts = {
        (source, target): Signal(signed(bits), name=f"count_{source}_{target}")
        for source in Engine
        for target in Engine
    }
    for (source, target), count in counts.items():
        give, take = dut.give[source], dut.take[target]
        given = give.valid & give.ready & give.payload[target]
        taken = take.valid & take.ready & take.payload[source]
        h.m.d.sync += count.eq(count + given - taken)
    for engine in Engine:
        name = engine.name.lower()
        there = (~dut.take[engine].payload[s] | (counts[s, engine] > 0) for s in Engine)
        h.prove(
            f"take_{name}",
            f"{engine.name} takes exactly when each token of its mask was given and not taken",
            dut.take[engine].ready == reduce(and_, there),
        )
        space = (~dut.give[engine].payload[t] | (counts[engine, t] < TOKEN_MAX) for t in Engine)
        h.prove(
            f"give_{name}",
            f"{engine.name} gives exactly when none of the counters of its mask is full",
            dut.give[engine].ready == reduce(and_, space),
        )
    inside = ((count >= 0) & (count <= TOKEN_MAX) for count in counts.values())
    h.prove("range", "no counter goes below zero or beyond its largest", reduce(and_, inside))
    h.cover("three", "three tokens wait", counts[Engine.LOAD, Engine.MXU] == 3)
    return h


PROOFS = [Proof("cp.token_counters", "all pairs", _harness, quick=True, mutants=100)]
