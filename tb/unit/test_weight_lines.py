"""Weight lines: each element of the array is told once to take a weight, and sees its own then."""

import random

import cocotb
import numpy as np
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite_rtl.mxu.weight_lines import WeightLines
from tpulite_tb.bits import pack_lanes
from tpulite_tb.harness import reset, simulate

TILES = 40


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(int4=[0.0, 0.5, 1.0], gap=[0.0, 0.4])
async def brings_each_weight_in_time(dut, int4: float, gap: float) -> None:
    """Tiles of both kinds, without a gap or with one; (r, c) takes before its first vector."""
    n = len(dut.int4) * 2 // 3
    rng = np.random.default_rng(random.getrandbits(64))
    coming: dict[int, tuple[int, np.ndarray, bool]] = {}
    takes: dict[int, dict[tuple[int, int], int]] = {}
    kinds: dict[tuple[int, int, int], bool] = {}
    cycle = 2
    for _ in range(TILES):
        cycle += random.choice([1, n, 2 * n]) if random.random() < gap else 0
        half = random.random() < int4
        tile = rng.integers(-8, 8, (n, n)) if half else rng.integers(-255, 256, (n, n))
        rows = tile[1::2] * 16 + tile[::2] % 16 if half else tile
        for index, row in enumerate(rows):
            coming[cycle + index] = index, row, half
        for (row, col), weight in np.ndenumerate(tile):
            due = cycle + col + ((row + 1) // 2 if half else row)
            takes.setdefault(due, {})[row, col] = int(weight)
            kinds[due, row, col] = half
        cycle += len(rows)
    dut.i__valid.value = dut.i__payload.value = 0
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    for now in range(cycle + 2 * n):
        nothing = random.randrange(n), rng.integers(-255, 256, n), random.random() < 0.5
        index, row, half = coming.get(now, nothing)
        dut.i__valid.value = now in coming
        payload = pack_lanes(row, 9) | index << 9 * n
        dut.i__payload.value = payload | half << len(dut.i__payload) - 1
        await edge
        told = {False: int(dut.int8.value), True: int(dut.int4.value)}
        due = takes.get(now, {})
        for row, col in np.ndindex(n, n):
            bits = told[False] >> row + col & 1, told[True] >> (row + 1) // 2 + col & 1
            half = kinds.get((now, row, col))
            assert bits == (half is False, half is True), f"cycle {now}, row {row}, column {col}"
            if (row, col) in due:
                port = getattr(dut, f"{'odd' if row % 2 else 'even'}__{col}")
                assert port.value.to_signed() == due[row, col], f"cycle {now}"


@pytest.mark.parametrize("n", [4, 8])
def test_weight_lines(n: int) -> None:
    simulate(WeightLines(Config(array_size=n, int4=True)), __file__, name=f"weight_lines_{n}")
