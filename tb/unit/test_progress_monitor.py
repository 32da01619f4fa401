"""Progress monitor against a plain model."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

from tpulite.arch.isa import Engine
from tpulite_rtl.cp.progress_monitor import ProgressMonitor
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_tb.harness import reset, simulate


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def agrees_with_the_model(dut) -> None:
    dut.moved.value = 1
    await reset(dut)
    assert not dut.progress.value
    progress, oldest, holders = [], [], set()
    for _cycle in range(1000):
        await RisingEdge(dut.clk)
        held = [random.random() < 0.6 for _ in Engine]
        # Any commands, or such that differ in a bit of their index.
        bits = random.choice([random.randint(1, INDEX_BITS), INDEX_BITS])
        base = random.getrandbits(bits)
        bit = random.choice([random.randrange(bits), 0])
        others = (base ^ 1 << bit, random.getrandbits(bits), base)
        indices = [random.choice(others) for _ in Engine]
        moved = random.random() < 0.5
        next_index = random.randint(max(indices), (1 << INDEX_BITS) - 1)
        for engine in Engine:
            getattr(dut, f"indices__{engine.value}").value = indices[engine]
        dut.held.value = sum(held[engine] << engine for engine in Engine)
        dut.moved.value = moved
        dut.next_index.value = next_index
        await FallingEdge(dut.clk)
        await ReadOnly()
        if len(oldest) > 2:
            assert dut.progress.value == progress[-1]
            assert dut.oldest.value == oldest[-3]
        progress.append(moved)
        holders.add(sum(held))
        oldest.append(
            min((indices[engine] for engine in Engine if held[engine]), default=next_index)
        )
    assert set(progress) == {True, False}
    assert holders == set(range(len(Engine) + 1))


def test_progress_monitor():
    simulate(ProgressMonitor(), __file__, name="progress_monitor")
