"""Counters against a plain model; the states of an engine always sum to CYCLES."""

import random
from collections import Counter

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from tpulite.arch.isa import Engine
from tpulite.arch.registers import COUNTER_OFFSETS, EngineState
from tpulite_rtl.bus.registers import COUNTERS
from tpulite_rtl.cp.counters import CONFLICT_BITS, Counters
from tpulite_tb.harness import reset, simulate


def values(dut) -> dict[str, int]:
    word = COUNTERS.from_bits(dut.values.value.to_unsigned())
    return {name: word[name] for name in COUNTER_OFFSETS}


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def states_sum_to_cycles(dut) -> None:
    """Several runs of random states, each from zero, with pauses in which nothing counts."""
    dut.start.value = 0
    dut.running.value = 0
    await reset(dut)
    for _run in range(5):
        await RisingEdge(dut.clk)
        dut.start.value = 1
        await RisingEdge(dut.clk)
        dut.start.value = 0
        expected: Counter[str] = Counter()
        before = [Counter(), Counter()]  # without the previous cycles
        for cycle in range(random.randrange(100, 300)):
            running = random.random() < 0.9
            states = [random.choice(list(EngineState)) for _engine in Engine]
            conflicts = random.randrange(1 << CONFLICT_BITS)
            read_beat, write_beat = random.getrandbits(1), random.getrandbits(1)
            dut.running.value = running
            for engine, state in zip(Engine, states, strict=True):
                getattr(dut, f"states__{engine.value}").value = state
            dut.conflicts.value = conflicts
            dut.read_beat.value = read_beat
            dut.write_beat.value = write_beat
            await FallingEdge(dut.clk)
            assert values(dut) == {name: before[0][name] for name in COUNTER_OFFSETS}, cycle
            for engine in Engine:
                total = sum(values(dut)[f"{engine.name}_{s.name}".lower()] for s in EngineState)
                assert total == values(dut)["cycles"]
            before = [before[1], expected.copy()]
            if running:
                expected["cycles"] += 1
                expected["conflicts"] += conflicts
                expected["read_beats"] += read_beat
                expected["write_beats"] += write_beat
                expected.update(
                    f"{engine.name}_{state.name}".lower()
                    for engine, state in zip(Engine, states, strict=True)
                )
            await RisingEdge(dut.clk)
        dut.running.value = 0


def test_counters():
    simulate(Counters(), __file__, name="counters")
