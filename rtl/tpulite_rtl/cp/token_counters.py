"""Token counters: the only thing that orders engines."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from tpulite.arch.isa import TOKEN_MAX, Engine

__all__ = ["TokenCounters"]


class TokenCounters(wiring.Component):
    """A counter of tokens for each ordered pair of engines, each engine with itself included.

    A mask is accepted as a whole: all its tokens move, or none. A token that is given in one
    cycle can be taken in the next. Every engine may give and take once a cycle.
    """

    def __init__(self) -> None:
        masks = stream.Signature(unsigned(len(Engine)))
        super().__init__(
            {
                # For each engine the engines from which it takes one token each; accepted when all
                # of them are there, at once if the mask is zero.
                "take": In(masks).array(len(Engine)),
                # For each engine the engines to which it gives one token each; accepted when none
                # of those counters is full.
                "give": In(masks).array(len(Engine)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        tokens = {
            (source, target): Signal(
                range(TOKEN_MAX + 1), name=f"tokens_{source.name}_{target.name}".lower()
            )
            for source in Engine
            for target in Engine
        }
        for engine in Engine:
            take, give = self.take[engine], self.give[engine]
            there = Cat(tokens[source, engine] > 0 for source in Engine)
            space = Cat(tokens[engine, target] < TOKEN_MAX for target in Engine)
            m.d.comb += [
                take.ready.eq((take.p & ~there) == 0),
                give.ready.eq((give.p & ~space) == 0),
            ]
        for (source, target), count in tokens.items():
            take, give = self.take[target], self.give[source]
            given = give.valid & give.ready & give.p[target]
            taken = take.valid & take.ready & take.p[source]
            m.d.sync += count.eq(count + given - taken)
        return m
