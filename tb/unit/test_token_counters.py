"""Token counters against a plain model."""

import random
from collections import Counter

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from tpulite.arch.isa import TOKEN_MAX, Engine
from tpulite_rtl.cp.token_counters import TokenCounters
from tpulite_tb.harness import reset, simulate

MASKS = 1 << len(Engine)


def named(mask: int) -> list[Engine]:
    return [engine for engine in Engine if mask >> engine & 1]


class Port:
    """A stream of masks that the bench offers, each until it is accepted."""

    def __init__(self, dut, name: str, engine: Engine) -> None:
        self.engine = engine
        self._payload = getattr(dut, f"{name}__{engine.value}__payload")
        self._valid = getattr(dut, f"{name}__{engine.value}__valid")
        self._ready = getattr(dut, f"{name}__{engine.value}__ready")
        self.offer: int | None = None
        self.shown = 0
        self._valid.value = 0

    def next(self, activity: float, favorite: int) -> None:
        """Offer a mask with some probability, unless one still waits.

        A favorite engine is named more often, so that its tokens are used up before others.
        """
        if self.offer is None and random.random() < activity:
            self.offer = random.choice(
                [0, 1 << favorite, 1 << random.randrange(len(Engine)), random.randrange(MASKS)]
            )
        self._valid.value = self.offer is not None
        self.shown = random.randrange(MASKS) if self.offer is None else self.offer
        self._payload.value = self.shown

    @property
    def ready(self) -> bool:
        """Whether the mask is accepted in this cycle."""
        return bool(self._ready.value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def tokens_move_as_in_the_model(dut) -> None:
    """Every ready in every cycle, through phases that fill and that drain the counters."""
    takes = [Port(dut, "take", engine) for engine in Engine]
    gives = [Port(dut, "give", engine) for engine in Engine]
    tokens: Counter[tuple[Engine, Engine]] = Counter()
    seen: Counter[str] = Counter()
    await reset(dut)

    for cycle in range(4000):
        await RisingEdge(dut.clk)
        filling = cycle // 500 % 2 == 0
        for ports, activity in ((takes, 0.1 if filling else 0.5), (gives, 0.9 if filling else 0.1)):
            for port in ports:
                port.next(activity, cycle // 1000)
        await ReadOnly()
        moved: Counter[tuple[Engine, Engine]] = Counter()
        touched: Counter[tuple[Engine, Engine]] = Counter()
        for port in takes:
            pairs = [(source, port.engine) for source in named(port.shown)]
            accepted = all(tokens[pair] > 0 for pair in pairs)
            assert port.ready == accepted, f"cycle {cycle}: take of {pairs}"
            if port.offer is None:
                continue
            seen["take" if accepted else "take refused"] += 1
            seen["take of nothing"] += not pairs
            if accepted:
                port.offer = None
                touched.update(pairs)
                moved.subtract(pairs)
        for port in gives:
            pairs = [(port.engine, target) for target in named(port.shown)]
            accepted = all(tokens[pair] < TOKEN_MAX for pair in pairs)
            assert port.ready == accepted, f"cycle {cycle}: give of {pairs}"
            if port.offer is None:
                continue
            seen["give" if accepted else "give refused"] += 1
            if accepted:
                port.offer = None
                touched.update(pairs)
                moved.update(pairs)
        seen["both at once"] += sum(count == 2 for count in touched.values())
        for pair, change in moved.items():
            tokens[pair] += change
    for what in ("take refused", "give refused", "take of nothing", "both at once"):
        assert seen[what] > 20, f"{what} only {seen[what]} times"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def token_can_be_taken_in_the_next_cycle(dut) -> None:
    await reset(dut)
    for engine in Engine:
        getattr(dut, f"take__{engine.value}__valid").value = 0
        getattr(dut, f"give__{engine.value}__valid").value = 0
    dut.give__0__payload.value = 1 << Engine.MXU
    dut.give__0__valid.value = 1
    dut.take__2__payload.value = 1 << Engine.LOAD
    dut.take__2__valid.value = 1
    await ReadOnly()
    assert dut.take__2__ready.value == 0
    await RisingEdge(dut.clk)
    dut.give__0__valid.value = 0
    await ReadOnly()
    assert dut.take__2__ready.value == 1
    await RisingEdge(dut.clk)
    await ReadOnly()
    assert dut.take__2__ready.value == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def each_counter_fills_and_runs_empty(dut) -> None:
    """Exactly after so many gives, or takes: four counters at once, each of another pair."""
    engines = len(Engine)
    for name in ("take", "give"):
        for engine in range(engines):
            getattr(dut, f"{name}__{engine}__valid").value = 0
    await reset(dut)
    for shift in range(engines):
        for name, partner in (("give", shift), ("take", -shift)):
            for engine in range(engines):
                getattr(dut, f"{name}__{engine}__payload").value = 1 << (engine + partner) % engines
                getattr(dut, f"{name}__{engine}__valid").value = 1
            for moved in range(TOKEN_MAX + 2):
                await ReadOnly()
                ready = {int(getattr(dut, f"{name}__{e}__ready").value) for e in range(engines)}
                assert ready == {moved < TOKEN_MAX}, f"{name} {moved} of a pair"
                await RisingEdge(dut.clk)
            for engine in range(engines):
                getattr(dut, f"{name}__{engine}__valid").value = 0


def test_token_counters():
    simulate(TokenCounters(), __file__, name="token_counters")
