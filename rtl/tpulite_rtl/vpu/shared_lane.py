"""A requantizer lane with two users, of which one may enter a sum each cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import Rounding
from tpulite_rtl.lib.layout import struct_layout
from tpulite_rtl.lib.pipeline import delay
from tpulite_rtl.vpu.requantizer_lane import STAGES, RequantizerLane

__all__ = ["FIELD_STAGES", "LANE_INPUT", "LanesSignature", "SharedLane"]

FIELD_STAGES = {
    **{"bias": 0, "shift": 1, "rounding": 1, "multiplier": 1},
    **{"zero_point": STAGES - 2, "low": STAGES - 1, "high": STAGES - 1},
}
"""How many cycles after a sum each field of its record is wanted."""

LANE_INPUT = data.StructLayout(
    {
        "sum": signed(32),
        **{name: shape for name, shape in struct_layout(RECORD).members.items() if name != "gain"},
    }
)
"""A sum, and the fields of its record, each :data:`FIELD_STAGES` cycles after it."""


class LanesSignature(wiring.Signature):
    """The second user's side of all lanes."""

    def __init__(self, config: Config) -> None:
        lanes = config.vector_lanes
        assert lanes is not None
        super().__init__(
            {
                # There are sums; they enter if ``next_ready`` was high in the cycle before.
                "valid": Out(1),
                # The first user has no sums in the next cycle. The second one is told a cycle
                # before, so that all that waits for the lanes begins at a register of its own.
                "next_ready": In(1),
                # Sums and their records.
                "lane": Out(data.ArrayLayout(LANE_INPUT, lanes)),
                # The results, ``STAGES`` - 1 cycles after their sums entered.
                "o": In(data.ArrayLayout(signed(8), lanes)),
            }
        )


class SharedLane(wiring.Component):
    """Requantize a sum a cycle, of one user or the other; the result comes STAGES - 1 cycles later.

    Which user it is travels along in every lane, so that no selection has far to go.

    Parameters
    ----------
    config : Config
        Roundings.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.roundings = [Rounding[name.upper()] for name in config.roundings]
        users = data.ArrayLayout(LANE_INPUT, 2)
        super().__init__(
            {
                # The first user enters a sum in the next cycle.
                "first": In(1),
                # The second one enters a sum in this cycle, in which the first one does not.
                "second": In(1),
                # Sums, and fields of their records.
                "users": In(users),
                # Of the first user, in a machine with int16: whether the sum that is one stage from
                # its result becomes an int16, and a stage later upper bytes of low and high.
                **({"int16": In(1), "upper": In(16)} if config.int16 else {}),
                # Results.
                "o": Out(signed(16 if config.int16 else 8)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.arithmetic = lane = RequantizerLane(self.roundings, int16=self.config.int16)
        firsts = delay(m, self.first, STAGES, "first")[1:]
        valids = delay(m, firsts[0] | self.second, STAGES - 2, "valid")

        def chosen(name: str, stage: int) -> Value:
            """Return an input of the user whose sum is in a stage."""
            return Mux(firsts[stage], self.users[0][name], self.users[1][name])

        m.d.comb += [
            lane.valid.eq(Cat(valids)),
            lane.sum.eq(chosen("sum", 0)),
            self.o.eq(lane.o),
        ]
        for name, stage in FIELD_STAGES.items():
            if name != "multiplier":
                m.d.comb += getattr(lane, name).eq(chosen(name, stage))
        if self.config.int16:
            wide = Signal()
            m.d.sync += wide.eq(self.int16 & firsts[STAGES - 2])
            for clamp, upper in ((lane.low, self.upper[:8]), (lane.high, self.upper[8:])):
                with m.If(wide):
                    m.d.comb += clamp[8:].eq(upper)
        # The multiplier is wanted at once in its stage.
        multiplier = Signal.like(lane.multiplier, reset_less=True)
        m.d.sync += multiplier.eq(chosen("multiplier", FIELD_STAGES["multiplier"]))
        m.d.comb += lane.multiplier.eq(multiplier)
        return m
