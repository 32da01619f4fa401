"""Divider: reciprocals of sums, bit for bit, and how long they take."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch import timing
from tpulite.arch.build import Build
from tpulite.arch.isa import NORM
from tpulite.arch.numerics import reciprocal
from tpulite_rtl.lib.layout import struct_layout
from tpulite_rtl.vpu.divider import Divider
from tpulite_tb.harness import reset, simulate


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def divides_as_numerics_says(dut) -> None:
    """Any number of 32 bits, as soon as the next one may come or later, each with its maximum."""
    edge = RisingEdge(dut.clk)
    dut.i__valid.value = 0
    await reset(dut)
    ends = [0, 1, 2, 3, (1 << 19) - 1, 1 << 19, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    ends.append(0xF803_C5F0)  # as of few others, the last bits of an estimate show in the result
    ends += [5 << 29, 7 << 29]  # the first product is a tie
    drawn = [random.getrandbits(32) >> random.randrange(32) for _ in range(300)]
    totals = [*ends, *drawn]
    under_way: deque[tuple[int, int, int]] = deque()  # sums: since when, what, and the maximum
    now = earliest = 0
    while totals or under_way:
        if totals and now >= earliest:
            under_way.append((now, totals.pop(0), random.randrange(256)))
            pause = random.choice([0, 0, 0, 1, 2, 3, random.randrange(2 * timing.DIVIDER)])
            earliest = now + timing.DIVIDER_INTERVAL + pause
        comes = bool(under_way) and under_way[-1][0] == now
        dut.i__valid.value = comes
        dut.i__payload.value = _payload(*under_way[-1][1:]) if comes else random.getrandbits(40)
        await edge
        assert dut.busy.value == (len(under_way) > comes)
        since, total, maximum = under_way[0] if under_way else (now, 0, 0)
        assert dut.o__valid.value == (now - since == timing.DIVIDER)
        now += 1
        if dut.o__valid.value:
            under_way.popleft()
            found = struct_layout(NORM).from_bits(int(dut.o__payload.value))
            expected = (*reciprocal(total), maximum)
            assert (found.multiplier, found.shift, found.maximum % 256) == expected, total


def _payload(total: int, maximum: int) -> int:
    """Return a sum and the maximum that it comes with."""
    return total | maximum << 32


def test_divider() -> None:
    simulate(Divider(), __file__, name="divider")


@pytest.mark.parametrize(("target", "multipliers"), [("gw5a", "dsp"), ("xilinx", "half_dsp")])
def test_divider_of_a_part(target: str, multipliers: str) -> None:
    build = Build(target=target, multipliers=multipliers)
    simulate(Divider(), __file__, name=f"divider_{target}", build=build)
