"""Divider: reciprocals of sums, bit for bit, and how long they take."""

import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch import timing
from tpulite.arch.build import Build
from tpulite.arch.numerics import reciprocal
from tpulite_rtl.vpu.divider import Divider
from tpulite_tb.harness import reset, simulate


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def divides_as_numerics_says(dut) -> None:
    """Any number of 32 bits, one after the other as soon as there is room, or after a while."""
    edge = RisingEdge(dut.clk)
    dut.i__valid.value = 0
    await reset(dut)
    ends = [0, 1, 2, 3, (1 << 19) - 1, 1 << 19, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    ends.append(0xF803_C5F0)  # as of few others, the last bits of an estimate show in the result
    drawn = [random.getrandbits(32) >> random.randrange(32) for _ in range(300)]
    for total in ends + drawn:
        dut.i__payload.value = total
        dut.i__valid.value = 1
        await edge
        dut.i__valid.value = 0
        dut.i__payload.value = random.getrandbits(32)
        for _ in range(timing.DIVIDER - 1):
            await edge
            assert dut.busy.value and not dut.o__valid.value
        await edge
        assert dut.o__valid.value and dut.busy.value
        result = int(dut.o__payload.value)
        multiplier, shift = reciprocal(total)
        assert (result & ((1 << 31) - 1), result >> 31) == (multiplier, shift % 256), total
        for _ in range(random.choice([0, 0, 1, 5])):
            await edge
            assert not dut.busy.value and not dut.o__valid.value


def test_divider() -> None:
    simulate(Divider(), __file__, name="divider")


@pytest.mark.parametrize(("target", "multipliers"), [("gw5a", "dsp"), ("xilinx", "half_dsp")])
def test_divider_of_a_part(target: str, multipliers: str) -> None:
    build = Build(target=target, multipliers=multipliers)
    simulate(Divider(), __file__, name=f"divider_{target}", build=build)
