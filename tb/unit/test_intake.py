"""The intake: who gets what of a MATMUL, when, and what it refuses."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import MATMUL, Drain, Opcode, RecordForm
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.intake import Intake
from tpulite_rtl.mxu.vector_sequencer import VECTOR_COMMAND
from tpulite_rtl.mxu.weight_sequencer import WEIGHT_COMMAND
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

CONFIG = Config(array_size=4, ub_rows=1024, acc_rows=64)
LAYOUT = command_layout(Opcode.MATMUL)
SHARES = {
    "weights": WEIGHT_COMMAND,
    "records": RECORD_COMMAND,
    "vectors": VECTOR_COMMAND,
    "drains": DRAIN_COMMAND,
}


def _command(index: int, **fields: int) -> dict[str, int]:
    """Draw a legal command."""
    return {
        "opcode": Opcode.MATMUL,
        "wait": random.randrange(16),
        "signal": random.randrange(16),
        "prefetch": random.randrange(2),
        "m": random.randint(1, 32),
        "k_tiles": random.randint(1, 16),
        "act_row": random.randrange(1024),
        "act_pitch": random.randrange(1024),
        "weight_row": random.randrange(900),
        "weight_zero_point": random.randrange(-128, 128),
        "acc_row": random.randrange(32),
        "accumulate": random.randrange(2),
        "drain": random.choice(list(Drain)),
        "record_form": random.choice(list(RecordForm)),
        "record_row": random.randrange(1000),
        "out_row": random.randrange(800),
        "index": index,
    } | fields


def _prepare(dut, stall: float) -> tuple[StreamDriver, dict[str, list[dict[str, int]]]]:
    dut.room.value = 1
    dut.stop.value = 0
    received: dict[str, list[dict[str, int]]] = {name: [] for name in SHARES}
    for name, layout in SHARES.items():

        def keep(word: int, name=name, layout=layout) -> None:
            received[name].append(unpack(layout, word))

        StreamSink(dut, name, stall=stall)
        StreamMonitor(dut, name, callback=keep)
    return StreamDriver(dut, "command", idle=stall / 2), received


def _share(name: str, command: dict[str, int]) -> dict[str, int]:
    layout = SHARES[name]
    return unpack(layout, pack(layout, {field: command[field] for field in layout.members}))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], tokens=[0.0, 0.5])
async def shares_every_command_once(dut, stall: float, tokens: float) -> None:
    """All four receivers get their fields in order; nothing but operands goes before the tokens."""
    driver, received = _prepare(dut, stall)
    taken: list[int] = []
    StreamSink(dut, "take", stall=tokens)
    StreamMonitor(dut, "take", callback=taken.append)
    await reset(dut)
    commands = [_command(index) for index in range(60)]
    requantizing = [c for c in commands if c["drain"] == Drain.REQUANTIZE]
    driver.extend(pack(LAYOUT, c) for c in commands)

    edge = RisingEdge(dut.clk)
    started = 0
    while len(received["vectors"]) < len(commands):
        await edge
        assert len(received["drains"]) <= started + int(dut.started.value)
        for name, due in (("weights", commands), ("records", requantizing)):
            if (count := len(received[name])) and not due[count - 1]["prefetch"]:
                assert due[count - 1]["index"] < started + int(dut.started.value)
        started += int(dut.started.value)
    await ClockCycles(dut.clk, 4)
    assert dut.empty.value == 1
    assert int(dut.fault.value) & 1 == 0
    assert taken == [c["wait"] for c in commands]
    for name in SHARES:
        due = requantizing if name == "records" else commands
        assert received[name] == [_share(name, c) for c in due], name


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def prefetches_only_what_may_be_prefetched(dut) -> None:
    """Without its tokens a command's operands go out if it says so, its vectors never."""
    driver, received = _prepare(dut, 0)
    dut.take__ready.value = 0
    await reset(dut)
    for prefetch in (0, 1):
        for fields in received.values():
            fields.clear()
        driver.append(pack(LAYOUT, _command(prefetch, prefetch=prefetch, drain=Drain.REQUANTIZE)))
        await ClockCycles(dut.clk, 10)
        counts = {name: len(got) for name, got in received.items()}
        assert counts == {"weights": prefetch, "records": prefetch, "vectors": 0, "drains": 0}
        assert dut.waiting.value == 1
        dut.take__ready.value = 1
        await ClockCycles(dut.clk, 1)
        dut.take__ready.value = 0
        await ClockCycles(dut.clk, 3)
        assert {name: len(got) for name, got in received.items()} == dict.fromkeys(SHARES, 1)


OUTSIDE = {
    "accumulators": ({"acc_row": 60, "m": 5}, 64),
    "weights": ({"weight_row": 1020, "k_tiles": 2}, 1027),
    "records": (
        {"drain": Drain.REQUANTIZE, "record_form": RecordForm.FULL, "record_row": 1010},
        1025,
    ),
    "short_records": (
        {"drain": Drain.REQUANTIZE, "record_form": RecordForm.SHORT, "record_row": 1020},
        1027,
    ),
    "output": ({"drain": Drain.REQUANTIZE, "m": 20, "out_row": 1005}, 1024),
    "raw_output": ({"drain": Drain.RAW, "m": 20, "out_row": 960}, 1039),
}


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(region=list(OUTSIDE))
async def refuses_ranges_outside(dut, region: str) -> None:
    """A command whose region leaves the buffer stops everything at its start."""
    driver, received = _prepare(dut, 0)
    dut.take__ready.value = 1
    await reset(dut)
    fields, address = OUTSIDE[region]
    # Just inside is fine: the same command one row (or tile) lower.
    inside = {"acc_row": 59, "weight_row": 1016, "record_row": 1008, "out_row": 900}
    if region == "short_records":
        inside["record_row"] = 1016
    legal = {name: inside.get(name, value) for name, value in fields.items()}
    driver.append(pack(LAYOUT, _command(1, **legal)))
    await ClockCycles(dut.clk, 6)
    assert len(received["vectors"]) == 1
    assert int(dut.fault.value) & 1 == 0
    driver.append(pack(LAYOUT, _command(2, **fields)))  # with prefetch or without
    await ClockCycles(dut.clk, 6)
    assert unpack(FAULT, int(dut.fault.value)) == {
        "valid": 1, "code": Fault.BUFFER, "index": 2, "address": address
    }  # fmt: skip
    assert len(received["vectors"]) == 1
    assert len(received["weights"]) == 1


def test_intake() -> None:
    simulate(Intake(CONFIG), __file__, name="intake")


def test_shares_have_the_fields_of_the_command() -> None:
    names = {field.name for field in MATMUL.fields} | {"index"}
    for layout in SHARES.values():
        assert set(layout.members) <= names
