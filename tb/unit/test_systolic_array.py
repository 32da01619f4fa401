"""The array against a matrix product and a filter for each channel."""

import random

import cocotb
import numpy as np
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite_rtl.mxu.systolic_array import SystolicArray, psum_width
from tpulite_tb.bits import pack_lanes, unpack_lanes
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth

TILES = 16


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(bubble=[0.0, 0.3], extreme=[False, True], modes=[(0,), (1,), (0, 1)])
async def multiplies_tile_after_tile(
    dut, bubble: float, extreme: bool, modes: tuple[int, ...]
) -> None:
    """Tiles of 1 to 3 N vectors at the shortest cadence, their weights just in time.

    In depthwise mode a sum goes on through whatever enters: dropped sums, other modes, bubbles.
    """
    width = len(dut.weight__payload)
    n = {9 * n + k: n for n, k in ((4, 2), (8, 3), (16, 4), (32, 5))}[width]
    out_width = len(dut.o__payload) // n
    rng = np.random.default_rng(random.getrandbits(64))
    cycles = 4 + TILES * 12 * n
    entering = rng.integers(-128, 128, (cycles, n))
    if extreme:
        entering[:] = -128

    flags: dict[int, tuple[bool, int]] = {}  # of the vectors that count: first, depthwise
    weights: dict[int, tuple[int, np.ndarray]] = {}
    expected: dict[int, list[int]] = {}
    cycle = 4
    for _ in range(TILES):
        if extreme:
            tile = np.where(rng.random((n, n)) < 0.5, -255, 255)
        else:
            tile = rng.integers(-255, 256, (n, n))
        for row in range(n):
            assert cycle - 1 + row not in weights, "tiles follow each other in at least N cycles"
            weights[cycle - 1 + row] = (row, tile[row])
        start, mode = cycle, random.choice(modes)
        for index in range(random.choice([1, 2, n - 1, n, n + 1, 3 * n])):
            while index and random.random() < bubble:
                cycle += 1
            flags[cycle] = (index == 0, mode)
            result = (tile * entering[cycle : cycle + n]).sum(0) if mode else entering[cycle] @ tile
            expected[cycle + 2 * n - 1] = result.tolist()
            cycle += 1
        cycle = max(cycle, start + n)
    assert cycle + 3 * n <= cycles

    dut.i__valid.value = 0
    dut.weight__valid.value = 0
    await reset(dut)
    seen = 0
    edge = RisingEdge(dut.clk)
    await edge
    for now in range(cycle + 3 * n):
        # Inputs of cycle `now`; outputs are sampled at the edge that ends it.
        first, depthwise = flags.get(now, (random.randrange(2), random.randrange(2)))
        dut.i__valid.value = now in flags
        dut.i__payload.value = (
            pack_lanes(entering[now], 8) | first << (8 * n) | depthwise << (8 * n + 1)
        )
        row, weight = weights.get(now, (0, rng.integers(-255, 256, n)))
        dut.weight__valid.value = now in weights
        dut.weight__payload.value = pack_lanes(weight, 9) | row << (9 * n)
        await edge
        assert dut.o__valid.value == (now in expected), f"cycle {now}"
        if now in expected:
            assert unpack_lanes(int(dut.o__payload.value), out_width, n) == expected[now], (
                f"cycle {now}"
            )
            seen += 1
    assert seen == len(expected)


@pytest.mark.parametrize(
    ("n", "multipliers"),
    [
        (4, "dsp"),
        (8, "mixed"),
        *breadth("mixed has both kinds of multipliers", (8, "logic"), (16, "dsp")),
    ],
)
def test_systolic_array(n: int, multipliers: str) -> None:
    config = Config(array_size=n, multipliers=multipliers)
    simulate(SystolicArray(config), __file__, name=f"systolic_array_{n}_{multipliers}")


@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_psums_cannot_overflow(n: int) -> None:
    assert n * 255 * 128 < 1 << (psum_width(Config(array_size=n)) - 1)
