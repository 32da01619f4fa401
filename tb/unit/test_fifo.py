"""The FIFO: every transfer once, in order, a cycle later, at any depth, in registers and in RAM."""

import os
import random

import cocotb
import pytest
from amaranth.hdl import unsigned
from cocotb.triggers import ReadOnly, RisingEdge

from tpulite.arch.build import Build
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(offers=[0.2, 0.5, 0.8, 1.0], takes=[0.2, 0.5, 0.8, 1.0])
async def agrees_with_a_list(dut, offers: float, takes: float) -> None:
    depth, width = int(os.environ["DEPTH"]), len(dut.i__payload)
    dut.i__valid.value = dut.o__ready.value = 0
    await reset(dut)
    queue: list[int] = []
    levels = set()
    for _cycle in range(400):
        await RisingEdge(dut.clk)
        word, offered, taken = random.getrandbits(width), random.random(), random.random()
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


@pytest.mark.parametrize(
    ("width", "depth"),
    [
        (90, 23),
        (8, 1),
        (8, 3),
        *breadth("powers of two need no wrap: easier than 3 and 23", (8, 2), (8, 16), (130, 16)),
    ],
)
def test_fifo(width: int, depth: int) -> None:
    fifo = StreamFifo(unsigned(width), depth)
    name, extra_env = f"fifo_{width}_{depth}", {"DEPTH": str(depth)}
    simulate(fifo, __file__, name=name, extra_env=extra_env, build=Build(memories="macro"))
