"""The weight sequencer: right rows, right array rows, exactly in time."""

import random
from collections import deque
from dataclasses import replace
from itertools import accumulate, pairwise

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.mxu.weight_sequencer import WeightSequencer
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver

ROWS = 1 << ROW_BITS
CONFIGS = {n: Config(array_size=n, ub_rows=ROWS, ram_registers=n == 8) for n in (4, 8, 16)}
INT4 = {n: replace(CONFIGS[n], int4=True) for n in (4, 8)}
_MOST_ROWS = 8192  # that one command reads here


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.4], hurry=[True, False], idle=[0.0, 0.98])
async def sends_tiles_in_time(dut, refuse: float, hurry: bool, idle: float) -> None:
    """Every output in every cycle: tiles start when they are ready, or later; the FIFO runs dry.

    Tiles of int4, of half the rows, may come before and after others.
    """
    width = len(dut.read__response__payload)
    n = width // 8
    latency, bits = row_read(CONFIGS[n]), n.bit_length() - 1
    memory = [random.getrandbits(width) for _ in range(ROWS)]
    has_int4 = hasattr(dut, "int4")
    kinds = [has_int4 and random.random() < 0.6 for _ in range(12)]
    sizes = [n // 2 if int4 else n for int4 in kinds]
    commands = [(random.randrange(ROWS - 8 * n), random.randint(1, 6)) for _ in kinds]
    tiles = deque(
        (row + size * k, size)
        for (row, k_tiles), size in zip(commands, sizes, strict=True)
        for k in range(k_tiles)
    )
    ends = set(
        accumulate(size * k_tiles for (_, k_tiles), size in zip(commands, sizes, strict=True))
    )
    driver = StreamDriver(dut, "command", idle=idle)

    edge = RisingEdge(dut.clk)
    dut.start.value = 0
    dut.stop.value = 0
    dut.read__request__ready.value = 0
    dut.read__response__valid.value = 0
    responses: deque[tuple[int, int]] = deque()
    expected: dict[int, tuple[int, list[int]]] = {}
    await reset(dut)
    driver.extend(
        row | (k_tiles - 1) << 14 | int4 << 27
        for (row, k_tiles), int4 in zip(commands, kinds, strict=True)
    )
    await edge
    cycle = free = claimed = 0  # when a tile may start, and the rows of those that have
    starts: list[tuple[int, int]] = []
    taken = fetched = asked = sent = 0  # commands: taken, all asked for; rows: asked for, sent
    while tiles or cycle < free + latency:
        dut.read__request__ready.value = random.random() >= refuse
        valid = bool(responses) and responses[0][0] == cycle
        dut.read__response__valid.value = valid
        dut.read__response__payload.value = (
            memory[responses.popleft()[1]] if valid else random.getrandbits(width)
        )
        tile_ready, int4_ready = (asked - claimed >= rows for rows in (n, n // 2))
        tile, size = tiles[0] if tiles else (0, n)
        ready = int4_ready if size < n else tile_ready
        start = bool(tiles) and ready and cycle >= free and (hurry or random.random() < 0.1)
        zero_point = random.randrange(-128, 128)
        dut.start.value = start
        dut.zero_point.value = zero_point
        if has_int4:
            dut.int4.value = size < n if start else random.randrange(2)
        if start:
            free, claimed = cycle + size, claimed + size
            starts.append((cycle, size))
            tiles.popleft()
            for row in range(size):
                data = memory[tile + row].to_bytes(n, "little")
                weights = [(byte ^ 128) - 128 - zero_point for byte in data]
                expected[cycle + latency - 1 + row] = (row | (size < n) << bits, weights)
        await edge
        assert dut.tile_ready.value == tile_ready
        assert not has_int4 or dut.int4_ready.value == int4_ready
        assert dut.command__ready.value == (taken - fetched < 2)
        valid = bool(dut.read__request__valid.value)
        assert valid == (taken > fetched and asked - sent < 2 * n), "asks if there is room, only"
        taken += bool(dut.command__valid.value and dut.command__ready.value)
        if valid and dut.read__request__ready.value:
            responses.append((cycle + latency, int(dut.read__request__payload.value)))
            asked += 1
            fetched += asked in ends
        sent += cycle in expected
        assert dut.o__valid.value == (cycle in expected)
        if cycle in expected:
            payload = int(dut.o__payload.value)
            weights = [payload >> 9 * lane & 0x1FF for lane in range(n)]
            weights = [(w ^ 0x100) - 0x100 for w in weights]
            assert (payload >> 9 * n, weights) == expected[cycle]
        cycle += 1
    assert dut.read__request__valid.value == 0
    if hurry and not refuse and not idle:
        # Nothing but the array's own cadence separates tiles once two are in the FIFO.
        late = [b - a - size for (a, size), (b, _) in pairwise(starts[3:])]
        assert late.count(0) >= len(late) - len(commands)


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
    if hasattr(dut, "int4"):
        dut.int4.value = 0
    dut.read__response__payload.value = 0
    driver = StreamDriver(dut, "command")
    await reset(dut)
    driver.extend([0, (k_tiles - 1) << 14])  # the second waits for the first
    rows, since, taken = [], 0, deque([False] * row_read(CONFIGS[n]))
    for cycle in range(3 * k_tiles * n // 2 + 200):
        stop = cycle in range(2 * n, 3 * n) or cycle in range(6 * n, 7 * n)
        dut.stop.value = stop
        dut.read__request__ready.value = random.random() < 0.9
        dut.start.value = start = since >= n and dut.tile_ready.value == 1
        since = 1 if start else since + 1
        dut.read__response__valid.value = taken.popleft()
        await edge
        assert not (stop and dut.read__request__valid.value)
        asked = bool(dut.read__request__valid.value and dut.read__request__ready.value)
        taken.append(asked)
        if asked:
            rows.append(int(dut.read__request__payload.value))
    assert rows == [*range(n), *range(k_tiles * n)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_forgets_tiles(dut) -> None:
    """Reset in the midst of a tile ends it, and the next one begins with its first row."""
    n = len(dut.read__response__payload) // 8
    edge = RisingEdge(dut.clk)
    for signal in (dut.start, dut.stop, dut.read__response__valid, dut.zero_point):
        signal.value = 0
    if hasattr(dut, "int4"):
        dut.int4.value = 0
    dut.read__response__payload.value = 0
    dut.read__request__ready.value = 1
    driver = StreamDriver(dut, "command")
    await reset(dut)
    for count in (n // 2, n - 1, n):
        driver.extend([3 << 14])
        started, rows, taken = False, [], deque([False] * row_read(CONFIGS[n]))
        while len(rows) < count:
            start = not started and dut.tile_ready.value == 1
            dut.start.value = start
            started |= start
            dut.read__response__valid.value = taken.popleft()
            await edge
            taken.append(bool(dut.read__request__valid.value))
            if dut.o__valid.value:
                rows.append(int(dut.o__payload.value) >> 9 * n)
        assert rows == [*range(count)]
        driver.cancel()
        dut.start.value = dut.read__response__valid.value = 0
        dut.rst.value = 1
        await edge
        dut.rst.value = 0
        await edge
        for output in (dut.o__valid, dut.tile_ready, dut.read__request__valid):
            assert not output.value


@pytest.mark.parametrize("n", CONFIGS)
def test_weight_sequencer(n: int) -> None:
    simulate(WeightSequencer(CONFIGS[n]), __file__, name=f"weight_sequencer_{n}")


@pytest.mark.parametrize("n", INT4)
def test_tiles_of_int4(n: int) -> None:
    simulate(WeightSequencer(INT4[n]), __file__, name=f"weight_sequencer_{n}_int4")
