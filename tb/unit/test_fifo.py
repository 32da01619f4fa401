"""The FIFO: every transfer once, in order, a cycle later, at any depth."""

import os
import random

import cocotb
import pytest
from amaranth.hdl import unsigned
from cocotb.triggers import ReadOnly, RisingEdge

from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_tb.harness import reset, simulate

WIDTH = 8


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(offers=[0.2, 0.5, 0.8, 1.0], takes=[0.2, 0.5, 0.8, 1.0])
async def agrees_with_a_list(dut, offers: float, takes: float) -> None:
    depth = int(os.environ["DEPTH"])
    dut.i__valid.value = dut.o__ready.value = 0
    await reset(dut)
    queue: list[int] = []
    levels = set()
    for _cycle in range(400):
        await RisingEdge(dut.clk)
        word, offered, taken = random.getrandbits(WIDTH), random.random(), random.random()
        dut.i__payload.value = word
        dut.i__valid.value = offered < offers
        dut.o__ready.value = taken < takes
        await ReadOnly()
        assert dut.level.value == len(queue)
        assert dut.i__ready.value == (len(queue) < depth)
        assert dut.o__valid.value == bool(queue)
        levels.add(len(queue))
        accepts = offered < offers and len(queue) < depth
        if queue:
            assert dut.o__payload.value == queue[0]
            if taken < takes:
                queue.pop(0)
        if accepts:
            queue.append(word)
    assert len(levels) > 1


@pytest.mark.parametrize("depth", [1, 2, 3, 16])
def test_fifo(depth: int) -> None:
    environment = {"DEPTH": str(depth)}
    fifo = StreamFifo(unsigned(WIDTH), depth)
    simulate(fifo, __file__, name=f"fifo_{depth}", extra_env=environment)
