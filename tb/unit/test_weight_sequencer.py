"""The weight sequencer: right rows, right array rows, exactly in time."""

import random
from collections import deque
from itertools import pairwise

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite_rtl.lib.interfaces import READ_LATENCY
from tpulite_rtl.mxu.weight_sequencer import WeightSequencer
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver

ROWS = 1024
_MOST_ROWS = 8192  # that one command reads here


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.4], hurry=[True, False])
async def sends_tiles_in_time(dut, refuse: float, hurry: bool) -> None:
    """Tiles start as soon as they are ready, or later; each row follows a cycle after the last."""
    width = len(dut.read__response__payload)
    n = width // 8
    memory = [random.getrandbits(width) for _ in range(ROWS)]
    commands = [(random.randrange(ROWS - 8 * n), random.randint(1, 6)) for _ in range(12)]
    tiles = deque(row + n * k for row, k_tiles in commands for k in range(k_tiles))
    driver = StreamDriver(dut, "command", idle=0.0 if hurry else 0.5)

    edge = RisingEdge(dut.clk)
    dut.start.value = 0
    dut.stop.value = 0
    dut.read__request__ready.value = 0
    dut.read__response__valid.value = 0
    responses: deque[tuple[int, int]] = deque()
    expected: dict[int, tuple[int, list[int]]] = {}
    await reset(dut)
    driver.extend(row | (k_tiles - 1) << 14 for row, k_tiles in commands)
    await edge
    cycle = last_start = 0
    starts = []
    while tiles or cycle < last_start + n + 2:
        dut.read__request__ready.value = random.random() >= refuse
        valid = bool(responses) and responses[0][0] == cycle
        dut.read__response__valid.value = valid
        dut.read__response__payload.value = (
            memory[responses.popleft()[1]] if valid else random.getrandbits(width)
        )
        start = bool(
            tiles
            and cycle >= last_start + n
            and dut.tile_ready.value == 1  # registered, so it holds for this cycle
            and (hurry or random.random() < 0.1)
        )
        zero_point = random.randrange(-128, 128)
        dut.start.value = start
        dut.zero_point.value = zero_point
        if start:
            last_start = cycle
            starts.append(cycle)
            tile = tiles.popleft()
            for row in range(n):
                data = memory[tile + row].to_bytes(n, "little")
                weights = [(byte ^ 128) - 128 - zero_point for byte in data]
                expected[cycle + 1 + row] = (row, weights)
        await edge
        if dut.read__request__valid.value and dut.read__request__ready.value:
            responses.append((cycle + READ_LATENCY, int(dut.read__request__payload.value)))
        assert dut.o__valid.value == (cycle in expected)
        if cycle in expected:
            payload = int(dut.o__payload.value)
            weights = [payload >> 9 * lane & 0x1FF for lane in range(n)]
            weights = [(w ^ 0x100) - 0x100 for w in weights]
            assert (payload >> 9 * n, weights) == expected[cycle]
        cycle += 1
    assert dut.read__request__valid.value == 0
    if hurry and not refuse:
        # Nothing but the array's own cadence separates tiles once two are in the FIFO.
        gaps = [b - a for a, b in pairwise(starts[3:])]
        assert gaps.count(n) >= len(gaps) - len(commands)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(k_tiles=[1 << bit for bit in range(3, 12)])
async def reads_every_tile(dut, k_tiles: int) -> None:
    """No bit of the number of tiles is lost; nothing is asked for while ``stop`` is high."""
    width = len(dut.read__response__payload)
    n = width // 8
    if k_tiles * n > _MOST_ROWS:
        return
    edge = RisingEdge(dut.clk)
    for signal in (dut.start, dut.stop, dut.read__response__valid, dut.zero_point):
        signal.value = 0
    dut.read__response__payload.value = 0
    dut.read__request__ready.value = 1
    driver = StreamDriver(dut, "command")
    await reset(dut)
    driver.extend([0, (k_tiles - 1) << 14])  # the second waits for the first
    rows, since, taken = [], 0, deque([False] * READ_LATENCY)
    for cycle in range(2 * k_tiles * n + 200):
        stop = cycle in range(2 * n, 3 * n) or cycle in range(6 * n, 7 * n)
        dut.stop.value = stop
        dut.start.value = start = since >= n and dut.tile_ready.value == 1
        since = 1 if start else since + 1
        dut.read__response__valid.value = taken.popleft()
        await edge
        asked = bool(dut.read__request__valid.value)
        assert not (stop and asked)
        taken.append(asked)
        if asked:
            rows.append(int(dut.read__request__payload.value))
    assert rows == [*range(n), *range(k_tiles * n)]


@pytest.mark.parametrize("n", [4, 16])
def test_weight_sequencer(n: int) -> None:
    config = Config(array_size=n, ub_rows=ROWS)
    simulate(WeightSequencer(config), __file__, name=f"weight_sequencer_{n}")
