"""The array against a matrix product and a filter for each channel."""

import random
from itertools import product

import cocotb
import numpy as np
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.interleave import LINE, LINES, MOST_DELAY, WIDE_LINE, least_delay
from tpulite_rtl.mxu.systolic_array import SystolicArray, psum_width, vector_layout
from tpulite_tb.bits import pack_lanes, unpack_lanes
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth, thinned

TILES = repeats(16)


def has_int4(dut) -> bool:
    """Return whether an array takes tiles of int4, which its weights say of themselves."""
    return len(dut.weight__payload) in (39, 76, 149)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    bubble=[0.0, 0.3],
    extreme=[False, True],
    modes=[(0,), (1,), (0, 1), (2,), (3,), (4,), (5,), (6,), (0, 6), (0, 1, 2, 3, 4, 5, 6)],
)
async def multiplies_tile_after_tile(  # noqa: C901 - a branch for each kind of tile
    dut, bubble: float, extreme: bool, modes: tuple[int, ...]
) -> None:
    """Tiles of 1 to 3 N vectors at the shortest cadence, their weights just in time.

    In depthwise mode a sum goes on through whatever enters: dropped sums, other modes, bubbles.
    With delay lines (2) it ends with its vector, and the stream of a command has no bubbles; of
    pairs (3) the last two vectors end it. Lines of a wide kernel (4) have five taps. A transposed
    tile (5) enters as N vectors before those that it is multiplied by. A tile of int4 (6) has N / 2
    rows of weights, after which the next tile may come.
    """
    width = len(dut.weight__payload)
    n = {9 * n + k: n for n, k in ((4, 2), (8, 3), (16, 4), (32, 5))}[width - has_int4(dut)]
    out_width = len(dut.o__payload) // n
    rng = np.random.default_rng(random.getrandbits(64))
    cycles = 4 + TILES * 12 * n + TILES * 5 * (MOST_DELAY + WIDE_LINE)
    entering, odd = rng.integers(-128, 128, (2, cycles, n))
    if extreme:
        entering[:] = odd[:] = -128

    config = Config(array_size=n)
    transposes = len(dut.i__payload) != vector_layout(config).size
    if not config.has_delay_lines:
        modes = tuple(mode for mode in modes if mode not in (2, 3, 4)) or (1,)
    if not transposes:
        modes = tuple(mode for mode in modes if mode != 5) or (0,)
    if not has_int4(dut):
        modes = tuple(mode for mode in modes if mode != 6) or (0,)
    loads: dict[int, int] = {}  # zero points of the vectors of transposed tiles
    flags: dict[int, tuple[int, ...]] = {}  # valid, first, depthwise, delay, wide, pair
    weights: dict[int, tuple[int, np.ndarray, bool]] = {}
    expected: dict[int, list[int]] = {}
    cycle, free = 4, 0  # the next vector, and when the next tile whose weights are written may come
    for _ in range(TILES):
        if extreme:
            tile = np.where(rng.random((n, n)) < 0.5, -255, 255)
        else:
            tile = rng.integers(-255, 256, (n, n))
        mode, transposed, rows = random.choice(modes), False, n
        if mode == 5:  # its vectors are none of depthwise mode
            mode, transposed = 0, True
            zero_point = 0 if extreme else random.randrange(-128, 128)
            loads |= dict.fromkeys(range(cycle, cycle + n), zero_point)
            tile = entering[cycle : cycle + n].T - zero_point
            cycle += n + random.choice([0, 0, 1, n])
        else:
            cycle = max(cycle, free)
        coming, int4 = tile, mode == 6
        if int4:
            mode, rows = 0, n // 2
            tile = np.where(tile < 0, -8, 7) if extreme else tile // 32
            coming = tile[1::2] * 16 + (tile[::2] & 15)
        for row in range(0 if transposed else rows):
            assert cycle - 1 + row not in weights, "tiles overlap"
            weights[cycle - 1 + row] = (row, coming[row], int4)
        free = cycle + rows
        if mode >= 2:
            line = WIDE_LINE if mode == 4 else LINE
            taps = LINES * line
            tile[taps:] = 0
            delay = random.choice(range(least_delay(config), MOST_DELAY + 1))
            inner = delay + line
            # For each row of the tile the vector that it sees, of those from the first one on.
            window = [a * inner + b for a, b in product(range(LINES), range(line))]
            stream, end = np.repeat(entering[None], taps, 0), taps
            if mode == 3:
                window = [a * inner + b for a, b in product(range(LINES), (0, 1, 1))]
                stream[LINE - 1 :: LINE] = odd
                end -= 1
            last = window[-1] + random.choice([0, 1, n, 2 * inner])
            assert cycle + last < cycles
            for index in range(last + 1):
                ends = index == last or (index >= window[-1] and random.random() < 0.7)
                flags[cycle] = (ends, index == 0, 1, delay, mode == 4, mode == 3)
                if ends:
                    seen_at = np.array(window) - window[-1] + cycle
                    past = stream[np.arange(taps), seen_at]
                    result = (tile[:taps] * past).sum(0)
                    expected[cycle + 2 * n - end] = result.tolist()
                cycle += 1
            continue
        for index in range(random.choice([1, 2, n - 1, n, n + 1, 3 * n])):
            while index and random.random() < bubble:
                cycle += 1
            flags[cycle] = (1, index == 0, mode, 0, 0, 0)
            result = (tile * entering[cycle : cycle + n]).sum(0) if mode else entering[cycle] @ tile
            expected[cycle + 2 * n - 1] = result.tolist()
            cycle += 1
        if mode == 1 and max(modes) > 1:
            cycle += n  # a sum of this one sees no vector of a command with delay lines
    assert cycle + 3 * n <= cycles

    dut.i__valid.value = dut.i__payload.value = 0
    dut.weight__valid.value = 0
    await reset(dut)
    seen = 0
    edge = RisingEdge(dut.clk)
    await edge
    for now in range(cycle + 3 * n):
        # Inputs of cycle `now`; outputs are sampled at the edge that ends it.
        anything = 0, 0, random.randrange(2), 0, 0, 0
        valid, first, depthwise, delay, wide, pair = flags.get(now, anything)
        dut.i__valid.value = valid
        dut.i__payload.value = (
            pack_lanes(entering[now], 8)
            | first << (8 * n)
            | depthwise << (8 * n + 1)
            | delay << (8 * n + 2)
            | config.has_delay_lines * wide << (8 * n + 7)
            | config.has_delay_lines * pair << (8 * n + 8)
            | config.has_delay_lines * pack_lanes(odd[now], 8) << (8 * n + 9)
            | transposes * (now in loads) << (vector_layout(config).size)
            | transposes * (loads.get(now, 0) % 256) << (vector_layout(config).size + 1)
        )
        later = flags.get(now + 1, anything)
        early = int(entering[now + 1, 0]) & 0xFF | later[3] << 8
        dut.early.value = early | config.has_delay_lines * later[4] << 13
        anyone = 0, rng.integers(-255, 256, n), random.randrange(2)
        row, weight, int4 = weights.get(now, anyone)
        dut.weight__valid.value = now in weights
        dut.weight__payload.value = (
            pack_lanes(weight, 9) | row << (9 * n) | has_int4(dut) * int4 << (width - 1)
        )
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
        (16, "dsp"),  # has delay lines; the first one runs on Verilator
        (4, "dsp"),
        (8, "mostly_dsp"),
        *breadth(
            "mostly_dsp has both kinds of multipliers",
            (8, "logic"),
            (16, "mostly_dsp"),
            (32, "dsp"),
        ),
    ],
)
def test_systolic_array(n: int, multipliers: str) -> None:
    simulate(
        SystolicArray(Config(array_size=n)),
        __file__,
        name=f"systolic_array_{n}_{multipliers}",
        build=Build(multipliers=multipliers),
    )


@pytest.mark.parametrize(
    "n", thinned([4, 16], 4, reason="a size only repeats elements, which have their bench")
)
def test_systolic_array_of_a_7_series_part(n: int) -> None:
    """Elements are cells, and of every other column chains."""
    simulate(
        SystolicArray(Config(array_size=n)),
        __file__,
        name=f"systolic_array_{n}_xilinx",
        build=Build(target="xilinx", multipliers="half_dsp"),
    )


@pytest.mark.parametrize("n", thinned([4, 16], 4, reason="a size only repeats elements"))
def test_transposed_tiles(n: int) -> None:
    config = Config(array_size=n, transposed_tiles=True)
    simulate(SystolicArray(config), __file__, name=f"systolic_array_{n}_transposed")


@pytest.mark.parametrize("n", thinned([4, 8, 16], 4, 8, reason="a size only repeats elements"))
def test_int4_tiles(n: int) -> None:
    config = Config(array_size=n, transposed_tiles=n != 8, int4=True)
    simulate(SystolicArray(config), __file__, name=f"systolic_array_{n}_int4")


@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_psums_cannot_overflow(n: int) -> None:
    assert n * 255 * 128 < 1 << (psum_width(Config(array_size=n)) - 1)
