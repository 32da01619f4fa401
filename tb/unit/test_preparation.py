"""The preparation against the arithmetic of the decision record."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from conv_draw import KINDS, draw_conv
from conv_shares import drain_share, k_tiles, vector_share

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, Command, Drain, Opcode, RecordForm
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.mxu.preparation import PREPARED, Preparation
from tpulite_tb.bits import pack, unpack
from tpulite_tb.commands import random_command
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

CONFIGS = {n: Config(array_size=n) for n in (4, 16, 32)}
LAYOUT = command_layout(Opcode.CONV)


def _last_rows(command: Command, config: Config) -> dict[str, int]:
    short = command["record_form"] == RecordForm.SHORT
    records = config.short_record_rows if short else config.record_rows
    return {
        "accumulators": command["acc_row"] + command["rows"] * command["columns"] - 1,
        "weights": command["weight_row"] + k_tiles(command) * config.array_size - 1,
        "records": command["record_row"] + records - 1,
        "output": command["out_row"]
        + (command["rows"] - 1) * command["out_pitch"]
        + (command["columns"] - 1) * command["out_step"]
        + 3 * (command["drain"] == Drain.RAW),
        "image": command["act_row"]
        + (command["blocks"] - 1) * command["act_block_pitch"]
        + (command["height"] - 1) * command["act_pitch"]
        + command["width"]
        - 1,
    }


def _check(word: int, command: Command, index: int, config: Config, *, shares: bool) -> None:
    """Compare a prepared command; its shares only if they fit."""
    got = PREPARED.from_bits(word)
    assert got.wait == command["wait"] and got.prefetch == command["prefetch"]
    assert got.index == index
    assert got.requantizes == (command["drain"] == Drain.REQUANTIZE)
    assert got.drained == (command["drain"] != Drain.KEEP)
    for region, last in _last_rows(command, config).items():
        assert got.last_rows[region] == last, region
    assert got.records.record_row == command["record_row"]
    assert got.records.record_form == command["record_form"]
    assert got.records.index == index
    for name, value in vector_share(command, index).items():
        if isinstance(value, dict):
            for part, number in value.items():
                assert got.vectors[name][part] == number, f"{name}.{part}"
        else:
            assert got.vectors[name] == value, name
    if not shares:
        return
    assert got.weights.weight_row == command["weight_row"]
    assert got.weights.k_tiles == k_tiles(command)
    for name, value in drain_share(command).items():
        assert got.drains[name] == value, name


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def prepares_every_command(dut, idle: float, stall: float) -> None:
    """Commands that fit, then any field values: nothing wraps in the regions' last rows."""
    config = CONFIGS[int(os.environ["ARRAY_SIZE"])]
    rows = range(4096)
    fitting = [
        draw_conv(config, random.choice(KINDS), inputs=rows, operands=rows, outputs=rows)
        for _ in range(100)
    ]
    extreme = [random_command(Opcode.CONV, config) for _ in range(200)]
    largest = {
        field.name: field.range[-1] if field.enum is None else int(max(field.enum))
        for field in COMMANDS[Opcode.CONV].fields[1:]
    }
    largest |= {"byte_step": 0, "drain": Drain.REQUANTIZE}
    extreme.append(Command.make(Opcode.CONV, **(largest | {"depthwise": 0})))
    extreme.append(Command.make(Opcode.CONV, **(largest | {"blocks": 1})))
    commands = fitting + extreme

    received: list[int] = []
    StreamSink(dut, "o", stall=stall)
    StreamMonitor(dut, "o", callback=received.append)
    driver = StreamDriver(dut, "i", idle=idle)
    await reset(dut)
    driver.extend(
        pack(LAYOUT, {"opcode": Opcode.CONV, **command.fields, "index": index})
        for index, command in enumerate(commands)
    )
    await driver.drained()
    await ClockCycles(dut.clk, 12)
    assert len(received) == len(commands)
    for index, (word, command) in enumerate(zip(received, commands, strict=True)):
        _check(word, command, index, config, shares=command in fitting)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def passes_one_command_a_cycle(dut) -> None:
    """Each is offered in the cycle after it came, as long as the one before it was taken."""
    dut.o__ready.value = 1
    dut.i__valid.value = 0
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    for index in range(10):
        dut.i__valid.value = 1
        dut.i__payload.value = pack(LAYOUT, {"index": index})
        await edge
        assert dut.i__ready.value == 1
        assert dut.o__valid.value == (index > 0)
        if index:
            assert unpack(PREPARED, int(dut.o__payload.value))["index"] == index - 1


@pytest.mark.parametrize("n", CONFIGS)
def test_preparation(n: int) -> None:
    simulate(
        Preparation(CONFIGS[n]),
        __file__,
        name=f"preparation_{n}",
        extra_env={"ARRAY_SIZE": str(n)},
    )
