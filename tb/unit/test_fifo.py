"""The FIFO: every transfer once, in order, a cycle later, at any depth, in registers and in RAM."""

import os
import random

import cocotb
import pytest
from amaranth.hdl import Module, Signal, unsigned
from cocotb.triggers import ReadOnly, RisingEdge

from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.memory import TwoPortRam
from tpulite_tb.harness import reset, simulate


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


class CarelessRam(TwoPortRam):
    """A RAM as it may be: wrong data when a row is read while it is written."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.right = right = TwoPortRam(self.width, self.depth)
        collided = Signal()
        for name in ("write_enable", "write_row", "write_data", "read_enable", "read_row"):
            m.d.comb += getattr(right, name).eq(getattr(self, name))
        with m.If(self.read_enable):
            m.d.sync += collided.eq(self.write_enable & (self.read_row == self.write_row))
        m.d.comb += self.read_data.eq(right.read_data ^ collided.replicate(self.width))
        return m


@pytest.mark.parametrize(("width", "depth"), [(8, 1), (8, 2), (8, 3), (8, 16), (130, 16), (90, 23)])
def test_fifo(monkeypatch: pytest.MonkeyPatch, width: int, depth: int) -> None:
    monkeypatch.setattr("tpulite_rtl.lib.fifo.TwoPortRam", CarelessRam)
    fifo = StreamFifo(unsigned(width), depth)
    simulate(fifo, __file__, name=f"fifo_{width}_{depth}", extra_env={"DEPTH": str(depth)})
