"""Counters against a plain model; the states of an engine always sum to CYCLES."""

import random
from collections import Counter

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from counter_port import LATE, read_counter

from tpulite.arch.build import Build
from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite_rtl.bus.registers import COUNTER_ROWS
from tpulite_rtl.cp.counters import CONFLICT_BITS, TURNS, Counters
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate


async def random_cycle(dut) -> Counter[str]:
    """Drive a cycle with random inputs; return what it counts."""
    running = random.random() < 0.9
    states = [random.choice(list(EngineState)) for _engine in Engine]
    conflicts = random.randrange(1 << CONFLICT_BITS)
    read_beat, write_beat = random.getrandbits(1), random.getrandbits(1)
    dut.running.value = running
    for engine, state in zip(Engine, states, strict=True):
        getattr(dut, f"states__{engine.value}").value = state
    dut.read_beat.value = read_beat
    dut.write_beat.value = write_beat
    await RisingEdge(dut.clk)
    dut.running.value = 0
    dut.conflicts.value = conflicts  # a cycle late
    names = [f"{e.name}_{s.name}".lower() for e, s in zip(Engine, states, strict=True)]
    counted = Counter(names) + Counter(
        cycles=1, conflicts=conflicts, read_beats=read_beat, write_beats=write_beat
    )
    return counted if running else Counter()


async def idle(dut) -> None:
    """Reset, and start from zero."""
    dut.start.value = dut.running.value = dut.values__wanted.value = 0
    await reset(dut)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def states_sum_to_cycles(dut) -> None:
    """Several runs of random states, each from zero, with pauses in which nothing counts."""
    await idle(dut)
    for name in COUNTER_ROWS:
        assert await read_counter(dut, "values", name) == 0, name
    for length in (0, 1, TURNS - 1, 2 * TURNS + 1, random.randrange(100, 300)):
        dut.start.value = 1
        await RisingEdge(dut.clk)
        dut.start.value = 0
        expected: Counter[str] = Counter()
        for _cycle in range(length):
            expected += await random_cycle(dut)
        await RisingEdge(dut.clk)
        names = random.sample(sorted(COUNTER_ROWS), len(COUNTER_ROWS))
        values = {name: await read_counter(dut, "values", name) for name in names}
        assert values == {name: expected[name] for name in names}, length
        for engine in Engine:
            states = [values[f"{engine.name}_{state.name}".lower()] for state in EngineState]
            assert sum(states) == values["cycles"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_counter_is_read_while_it_counts(dut) -> None:
    """Its value is that of a certain cycle, also during the first turns after a start."""
    await idle(dut)
    sums: list[Counter[str]] = []
    name = ""
    for _cycle in range(30 * TURNS):
        found = dut.values__found.value
        if found and len(sums) > LATE:
            assert dut.values__value.value.to_unsigned() == sums[-LATE][name], name
        if found or not name:
            name = random.choice(sorted(COUNTER_ROWS))
            dut.values__row.value = COUNTER_ROWS[name]
        dut.values__wanted.value = not found
        if random.random() < 0.005 or not sums:
            dut.start.value = 1
            await RisingEdge(dut.clk)
            dut.start.value = 0
            sums = [Counter()]
        else:
            sums.append(sums[-1] + await random_cycle(dut))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(state=list(EngineState))
async def one_state_lasts_for_long(dut, state: EngineState) -> None:
    """One of them until the lower 16 bits of counters have moved, which lie in one memory.

    So it was before the start, which does not count, and counters at rest keep their values.
    """
    await idle(dut)
    long = state == EngineState.BUSY
    length = repeats(random.randrange(1 << 16, 1 << 17)) if long else 20 * TURNS
    conflicts = (1 << CONFLICT_BITS) - 1
    for engine in Engine:
        getattr(dut, f"states__{engine.value}").value = state
    dut.read_beat.value = dut.write_beat.value = dut.running.value = 1
    dut.conflicts.value = conflicts
    await ClockCycles(dut.clk, 2 * TURNS)
    dut.start.value, dut.running.value = 1, 0
    await RisingEdge(dut.clk)
    dut.start.value, dut.running.value = 0, 1
    await ClockCycles(dut.clk, length)
    dut.running.value = 0
    await ClockCycles(dut.clk, TURNS + LATE)
    counting = {f"{engine.name}_{state.name}".lower() for engine in Engine}
    counting |= {"cycles", "read_beats", "write_beats"}
    expected = {name: length * (name in counting) for name in COUNTER_ROWS}
    expected["conflicts"] = conflicts * length
    for name, value in expected.items():
        for _turn in range(2):
            assert await read_counter(dut, "values", name) == value, name


@cocotb.test(timeout_time=1, timeout_unit="us")
async def nothing_is_found_that_nobody_wants(dut) -> None:
    await idle(dut)
    dut.values__row.value = 0
    for _cycle in range(TURNS + LATE):
        await RisingEdge(dut.clk)
        assert not dut.values__found.value


def test_counters():
    simulate(Counters(), __file__, name="counters", build=Build(memories="macro"))
