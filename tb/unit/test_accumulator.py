"""The accumulator against sums in numpy."""

import random
from collections import deque

import cocotb
import numpy as np
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND, Accumulator
from tpulite_rtl.mxu.systolic_array import psum_width
from tpulite_rtl.vpu.requantizer import requant_input
from tpulite_tb.bits import pack, pack_lanes, unpack, unpack_lanes
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver

ACC_ROWS = 64
LATENCY = 2


def _command(n: int) -> dict[str, int]:
    inner, outer = random.choice(
        [(1, 1), (1, 2), (n, 1), (n + 1, 1), (1, 20), (5, 4), (3, 7), (40, 1)]
    )
    m = inner * outer
    return {
        "m": m,
        "inner_last": inner - 1,
        "inner_step": random.choice([1, 4, random.randrange(1 << 14)]),
        "outer_step": random.choice([5, random.randrange(1 << 14)]),
        "k_tiles": random.randint(1, 40) if m < n else random.randint(1, 4),
        "acc_row": random.randrange(ACC_ROWS - m + 1),
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


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(bubble=[0.0, 0.3], extreme=[False, True])
async def accumulates(dut, bubble: float, extreme: bool) -> None:
    """Random commands at the shortest cadence: every sum that leaves, and when."""
    n = {4 * (16 + 2): 4, 16 * (16 + 4): 16}[len(dut.i__payload)]
    config = Config(array_size=n, acc_rows=ACC_ROWS)
    width = psum_width(config)
    layout = requant_input(config)
    rng = np.random.default_rng(random.getrandbits(64))
    driver = StreamDriver(dut, "command")
    dut.i__valid.value = 0
    await reset(dut)

    # Everything is kept first, so that later commands may accumulate on any row.
    commands = [
        {"m": 1, "k_tiles": 1, "acc_row": row, "drain": Drain.KEEP} for row in range(ACC_ROWS)
    ]
    commands += [_command(n) for _ in range(60)]
    for before, after in zip(commands[ACC_ROWS::2], commands[ACC_ROWS + 1 :: 2], strict=True):
        # A row is read again in the very next cycle.
        after["acc_row"] = min(before["acc_row"] + before["m"] - 1, ACC_ROWS - after["m"])
    accumulators = np.zeros((ACC_ROWS, n), np.int32)
    expected: deque[tuple[int, dict[str, int], list[int]]] = deque()
    edge = RisingEdge(dut.clk)
    await edge
    seen = 0

    async def step(cycle: int) -> None:
        nonlocal seen
        await edge
        due = bool(expected) and expected[0][0] == cycle
        assert dut.o__valid.value == due, f"cycle {cycle}"
        if not due:
            return
        _, control, sums = expected.popleft()
        word = int(dut.o__payload.value)
        values = unpack(layout, word)
        assert {name: values[name] for name in control} == control
        if sums:
            assert unpack_lanes(values["sums"], 32, n) == sums
        seen += 1

    driver.extend(pack(DRAIN_COMMAND, _share(command)) for command in commands)
    await ClockCycles(dut.clk, 3)  # a command is there before its first sum
    cycle = reports = 0
    for command in commands:
        for k in range(command["k_tiles"]):
            start = cycle
            for i in range(command["m"]):
                while random.random() < bubble:
                    dut.i__valid.value = 0
                    await step(cycle)
                    cycle += 1
                limit = (1 << width - 1) - 1
                sums = np.full(n, limit) if extreme else rng.integers(-limit, limit, n)
                dut.i__valid.value = 1
                dut.i__payload.value = pack_lanes(sums, width)
                row = command["acc_row"] + i
                old = accumulators[row] if k or command.get("accumulate") else 0
                total = (old + sums).astype(np.int32)
                last, end = k == command["k_tiles"] - 1, i == command["m"] - 1
                drain = command["drain"] if last else Drain.KEEP
                if drain == Drain.KEEP:
                    accumulators[row] = total
                if drain != Drain.KEEP or (last and end):
                    control = {
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
                    leaving = total.tolist() if control["write"] else []
                    expected.append((cycle + LATENCY, control, leaving))
                    reports += 1
                await step(cycle)
                cycle += 1
            while cycle < start + n:
                dut.i__valid.value = 0
                await step(cycle)
                cycle += 1
    dut.i__valid.value = 0
    for _ in range(LATENCY + 2):
        await step(cycle)
        cycle += 1
    assert seen == reports


@pytest.mark.parametrize("n", [4, 16])
def test_accumulator(n: int) -> None:
    accumulator = Accumulator(Config(array_size=n, acc_rows=ACC_ROWS))
    simulate(accumulator, __file__, name=f"accumulator_{n}", macros=True)
