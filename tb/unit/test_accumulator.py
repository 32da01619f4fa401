"""The accumulator against sums in numpy."""

import random
from collections import deque

import cocotb
import numpy as np
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.isa import Drain
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND, IN_FLIGHT, Accumulator
from tpulite_rtl.mxu.systolic_array import psum_width
from tpulite_rtl.mxu.weight_sequencer import TILES_BITS
from tpulite_rtl.vpu.requantizer import requant_input
from tpulite_tb.bits import pack, pack_lanes, unpack, unpack_lanes
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver

ACC_ROWS = {4: 64, 16: 1024}
USED_ROWS = 64  # by most commands
LATENCY = 2


def _size_of(dut) -> int:
    return {4 * (16 + 2): 4, 16 * (16 + 4): 16}[len(dut.i__payload)]


def _command(n: int, rows: range, size: tuple[int, int] | None = None) -> dict[str, int]:
    """Draw a command on some rows of the accumulators, of some inner and outer vectors."""
    inner, outer = size or random.choice(
        [(1, 1), (1, 2), (n, 1), (n + 1, 1), (1, 20), (5, 4), (3, 7), (40, 1)]
    )
    m = inner * outer
    return {
        "m": m,
        "inner_last": inner - 1,
        "inner_step": random.choice([1, 4, random.randrange(1 << 14)]),
        "outer_step": random.choice([5, random.randrange(1 << 14)]),
        "k_tiles": random.randint(1, 40) if m < n else random.randint(1, 4),
        "acc_row": random.choice(rows[: len(rows) - m + 1]),
        "accumulate": random.random() < 0.5,
        "drain": random.choice(list(Drain)),
        "out_row": random.randrange(1 << 14),
        "signal": random.randrange(16),
    }


def _share(command: dict[str, int]) -> dict[str, int]:
    """Return what the accumulator is told of a command of m vectors and so many k-tiles."""
    counts = ("m", "k_tiles")
    share = {name: value for name, value in command.items() if name not in counts}
    share["last_row"] = command["acc_row"] + command["m"] - 1
    return share | {"last_tile": command["k_tiles"] - 1}


def _control(command: dict[str, int], k: int, i: int) -> dict[str, int]:
    """Return what leaves with the sum of a k-tile and a vector, if any does."""
    last, end = k == command["k_tiles"] - 1, i == command["m"] - 1
    drain = command["drain"] if last else Drain.KEEP
    control: dict[str, int] = {
        "raw": drain == Drain.RAW,
        "first": drain == Drain.REQUANTIZE and i == 0,
        "write": drain != Drain.KEEP,
        "done": last and end,
    }
    if control["done"]:
        control["signal"] = command.get("signal", 0)
    if control["write"]:
        line, place = divmod(i, command["inner_last"] + 1)
        row = command["out_row"] + line * command["outer_step"]
        control["row"] = (row + place * command["inner_step"]) % (1 << 14)
    return control


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(bubble=[0.0, 0.3], extreme=[False, True])
async def accumulates(dut, bubble: float, extreme: bool) -> None:
    """Random commands at the shortest cadence: every sum that leaves, and when."""
    n = _size_of(dut)
    every = range(ACC_ROWS[n])
    rows = every[-USED_ROWS:]
    config = Config(array_size=n, acc_rows=len(every))
    width = psum_width(config)
    layout = requant_input(config)
    rng = np.random.default_rng(random.getrandbits(64))
    driver = StreamDriver(dut, "command")
    dut.i__valid.value = 0
    await reset(dut)

    # Everything is kept first, so that later commands may accumulate on any row.
    commands = [{"m": 1, "k_tiles": 1, "acc_row": row, "drain": Drain.KEEP} for row in rows]
    commands += [_command(n, rows) for _ in range(60)]
    for before, after in zip(commands[USED_ROWS::2], commands[USED_ROWS + 1 :: 2], strict=True):
        # A row is read again in the very next cycle.
        after["acc_row"] = min(before["acc_row"] + before["m"] - 1, len(every) - after["m"])
    if len(every) > USED_ROWS and not bubble:
        whole = {"k_tiles": 1, "accumulate": False, "drain": Drain.RAW}
        commands.append(_command(n, every, (len(every), 1)) | whole)
    accumulators = np.zeros((len(every), n), np.int32)
    expected: deque[tuple[int, dict[str, int], list[int]]] = deque()
    edge = RisingEdge(dut.clk)
    await edge
    cycle = seen = reports = ahead = 0

    async def step(cycles: int) -> None:
        nonlocal cycle, seen
        for _ in range(cycles):
            await edge
            due = bool(expected) and expected[0][0] == cycle
            assert dut.o__valid.value == due, f"cycle {cycle}"
            cycle += 1
            if not due:
                continue
            _, control, sums = expected.popleft()
            word = int(dut.o__payload.value)
            values = unpack(layout, word)
            assert {name: values[name] for name in control} == control
            if control["write"]:
                assert unpack_lanes(values["sums"], 32, n) == sums
            seen += 1

    for number, command in enumerate(commands):
        if not ahead:  # the queue is empty, and takes all that it holds before the first sum
            ahead = random.choice([*range(1, IN_FLIGHT + 1), 40])
            coming = commands[number : number + ahead]
            driver.extend(pack(DRAIN_COMMAND, _share(new)) for new in coming)
            await step(IN_FLIGHT + 2)
            assert dut.command__ready.value == (len(coming) < IN_FLIGHT)
        ahead -= 1
        for k in range(command["k_tiles"]):
            start = cycle
            for i in range(command["m"]):
                while random.random() < bubble:
                    dut.i__valid.value = 0
                    await step(1)
                limit = (1 << width - 1) - 1
                sums = np.full(n, limit) if extreme else rng.integers(-limit, limit, n)
                dut.i__valid.value = 1
                dut.i__payload.value = pack_lanes(sums, width)
                row = command["acc_row"] + i
                old = accumulators[row] if k or command.get("accumulate") else 0
                total = (old + sums).astype(np.int32)
                control = _control(command, k, i)
                if not control["write"]:
                    accumulators[row] = total
                if control["write"] or control["done"]:
                    expected.append((cycle + LATENCY, control, total.tolist()))
                    reports += 1
                await step(1)
            dut.i__valid.value = 0
            await step(start + n - cycle)
    await step(LATENCY + 2)
    assert seen == reports


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def counts_all_tiles(dut) -> None:
    """A command ends with its last k-tile, however many there are, or with reset."""
    n = _size_of(dut)
    layout = requant_input(Config(array_size=n, acc_rows=ACC_ROWS[n]))
    command = {"last_row": 1, "inner_last": 1, "inner_step": 3, "drain": Drain.REQUANTIZE}
    edge = RisingEdge(dut.clk)
    dut.i__valid.value = dut.command__valid.value = 0
    dut.i__payload.value = pack_lanes([1] * n, len(dut.i__payload) // n)
    await reset(dut)

    async def begin(last_tile: int) -> None:
        dut.rst.value = 1
        await edge
        dut.rst.value = 0
        dut.command__payload.value = pack(DRAIN_COMMAND, command | {"last_tile": last_tile})
        dut.command__valid.value = 1
        await edge
        dut.command__valid.value = 0
        await edge
        dut.i__valid.value = 1

    for bit in range(1, TILES_BITS):
        await begin(1 << bit)
        for _ in range(3):
            await edge
            assert not dut.o__valid.value
        dut.i__valid.value = 0
        for _ in range(LATENCY):
            await edge
            assert not dut.o__valid.value
    tiles = 1 << TILES_BITS
    await begin(tiles - 1)
    await ClockCycles(dut.clk, 2 * tiles)
    dut.i__valid.value = 0
    for row in range(2):
        await edge
        assert dut.o__valid.value
        values = unpack(layout, int(dut.o__payload.value))
        assert values["row"] == 3 * row and values["done"] == row
        assert unpack_lanes(values["sums"], 32, n) == [tiles] * n
    await edge
    assert not dut.o__valid.value


@pytest.mark.parametrize("n", ACC_ROWS)
def test_accumulator(n: int) -> None:
    accumulator = Accumulator(Config(array_size=n, acc_rows=ACC_ROWS[n]))
    simulate(accumulator, __file__, name=f"accumulator_{n}", build=Build(memories="macro"))
