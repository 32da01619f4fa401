"""The vector sequencer: the order and the pace of activation rows."""

import random
from itertools import pairwise

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain, RecordForm
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.mxu.vector_sequencer import VECTOR_COMMAND, VectorSequencer, drain_interval
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver

ROWS = 1024
CONFIGS = {
    "4": Config(array_size=4, ub_rows=ROWS),
    "8_lanes2": Config(array_size=8, ub_rows=ROWS, requant_lanes=2),
    "16": Config(array_size=16, ub_rows=ROWS),
}


def _command(config: Config, index: int, **fields: int) -> dict[str, int]:
    command = {
        "m": random.choice([1, 2, 3, config.array_size, 20]),
        "k_tiles": random.randint(1, 4),
        "act_row": random.randrange(ROWS // 2),
        "act_pitch": random.randrange(64),
        "weight_zero_point": 0,
        "drain": random.choice(list(Drain)),
        "record_form": random.choice(list(RecordForm)),
        "index": index,
    }
    return command | fields


def _config(dut) -> Config:
    n = len(dut.read__response__payload) // 8
    return next(config for config in CONFIGS.values() if config.array_size == n)


def _idle_inputs(dut) -> None:
    for name in ("tile_ready", "block_ready", "stop", "read__request__ready"):
        getattr(dut, name).value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.3], operands=[1.0, 0.3])
async def issues_every_vector_in_pace(dut, refuse: float, operands: float) -> None:
    """Rows come in order; starts, records and drained vectors keep their distances."""
    config = _config(dut)
    n = config.array_size
    commands = [_command(config, index) for index in range(40)]
    vectors = [(c, k, i) for c in commands for k in range(c["k_tiles"]) for i in range(c["m"])]
    _idle_inputs(dut)
    driver = StreamDriver(dut, "command")
    await reset(dut)
    driver.extend(pack(VECTOR_COMMAND, c) for c in commands)
    edge = RisingEdge(dut.clk)
    await edge

    last_start = last_block = last_report = -100
    interval = 1
    issued = cycle = 0
    while issued < len(vectors):
        dut.read__request__ready.value = random.random() >= refuse
        dut.tile_ready.value = tiles = random.random() < operands
        dut.block_ready.value = blocks = random.random() < operands
        await edge
        cycle += 1
        assert dut.start.value == (dut.issued.value and vectors[issued][2] == 0)
        if not dut.issued.value:
            continue
        command, k, i = vectors[issued]
        assert dut.index.value == command["index"]
        row = command["act_row"] + k * command["act_pitch"] + i
        assert dut.read__request__payload.value == row
        last_tile = k == command["k_tiles"] - 1
        requantizes = last_tile and command["drain"] == Drain.REQUANTIZE
        reports = last_tile and (command["drain"] != Drain.KEEP or i == command["m"] - 1)
        if i == 0:
            assert tiles, "started without weights"
            assert cycle - last_start >= n
            last_start = cycle
        assert dut.claim.value == (requantizes and i == 0)
        if requantizes and i == 0:
            assert blocks, "started without records"
            short = command["record_form"] == RecordForm.SHORT
            rows = config.short_record_rows if short else config.record_rows
            assert cycle - last_block >= rows
            last_block = cycle
        if reports:
            assert cycle - last_report >= interval
            last_report = cycle
            interval = drain_interval(config, raw=command["drain"] == Drain.RAW)
        issued += 1
    await edge
    assert not dut.busy.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def leaves_no_gap(dut) -> None:
    """With everything ready, k-tiles of all commands follow each other in max(M, N) cycles."""
    config = _config(dut)
    n = config.array_size
    # With few lanes a completion keeps the requantizer's pace, which a lone vector would feel.
    shortest = 1 if config.lanes == n else n
    commands = [
        _command(config, index, m=random.choice([shortest, n, n + 3]), drain=Drain.KEEP)
        for index in range(30)
    ]
    _idle_inputs(dut)
    dut.tile_ready.value = 1
    dut.read__request__ready.value = 1
    driver = StreamDriver(dut, "command")
    await reset(dut)
    driver.extend(pack(VECTOR_COMMAND, c) for c in commands)
    edge = RisingEdge(dut.clk)
    starts = []
    cycle = 0
    tiles = [c["m"] for c in commands for _ in range(c["k_tiles"])]
    while len(starts) < len(tiles):
        await edge
        cycle += 1
        if dut.start.value:
            starts.append(cycle)
    assert [b - a for a, b in pairwise(starts)] == [max(m, n) for m in tiles[:-1]]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reports_rows_outside_the_buffer(dut) -> None:
    """The k-tile that leaves the buffer is not begun; the ones before it are."""
    config = _config(dut)
    command = _command(
        config, 77, m=10, k_tiles=3, act_row=ROWS - 25, act_pitch=10, drain=Drain.KEEP
    )
    _idle_inputs(dut)
    for name in ("tile_ready", "block_ready", "read__request__ready"):
        getattr(dut, name).value = 1
    driver = StreamDriver(dut, "command")
    await reset(dut)
    driver.append(pack(VECTOR_COMMAND, command))
    edge = RisingEdge(dut.clk)
    issued = 0
    for _ in range(100):
        await edge
        issued += int(dut.issued.value)
    assert unpack(FAULT, int(dut.fault.value)) == {
        "valid": 1, "code": Fault.BUFFER, "index": 77, "address": ROWS + 4
    }  # fmt: skip
    assert issued == 20


@pytest.mark.parametrize("config", CONFIGS)
def test_vector_sequencer(config: str) -> None:
    simulate(VectorSequencer(CONFIGS[config]), __file__, name=f"vector_sequencer_{config}")
