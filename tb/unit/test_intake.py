"""The intake: who gets what of a CONV, when, and what it refuses."""

import random
from dataclasses import dataclass, replace

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.intake import Intake
from tpulite_rtl.mxu.preparation import PREPARED, REGIONS
from tpulite_rtl.mxu.slots import VECTOR_COMMAND
from tpulite_rtl.mxu.weight_sequencer import WEIGHT_COMMAND
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

CONFIG = Config(array_size=4, ub_rows=1024, acc_rows=64)
SHARES = {
    "weights": WEIGHT_COMMAND,
    "records": RECORD_COMMAND,
    "vectors": VECTOR_COMMAND,
    "drains": DRAIN_COMMAND,
}
LIMITS = dict.fromkeys(REGIONS, CONFIG.ub_rows) | {"accumulators": CONFIG.acc_rows}
UNUSED = 1 << 27
"""Last row of a region that the command does not use."""


@dataclass(frozen=True)
class _Command:
    """A prepared command: its shares are bits that the intake only passes on."""

    index: int
    wait: int
    prefetch: int
    requantizes: bool
    last_rows: dict[str, int]
    shares: dict[str, int]

    @property
    def word(self) -> int:
        drained = self.last_rows["output"] != UNUSED
        last_rows = PREPARED["last_rows"].shape.const(self.last_rows).as_bits()
        return pack(
            PREPARED,
            {
                "wait": self.wait,
                "prefetch": self.prefetch,
                "index": self.index,
                "requantizes": self.requantizes,
                "drained": drained,
                "last_rows": last_rows,
                **self.shares,
            },
        )


def _command(index: int, *, drain: Drain | None = None, **last_rows: int) -> _Command:
    """Draw a command whose regions fit but for those given."""
    drain = random.choice(list(Drain)) if drain is None else drain
    rows = {region: random.choice([0, limit - 1]) for region, limit in LIMITS.items()}
    if drain != Drain.REQUANTIZE:
        rows["records"] = UNUSED
    if drain == Drain.KEEP:
        rows["output"] = UNUSED
    return _Command(
        index,
        random.randrange(16),
        random.randrange(2),
        drain == Drain.REQUANTIZE,
        rows | last_rows,
        {name: random.getrandbits(layout.size) for name, layout in SHARES.items()},
    )


def _prepare(dut, stall: float) -> tuple[StreamDriver, dict[str, list[int]]]:
    dut.room.value = 1
    dut.stop.value = 0
    received: dict[str, list[int]] = {name: [] for name in SHARES}
    for name, words in received.items():
        StreamSink(dut, name, stall=stall)
        StreamMonitor(dut, name, callback=words.append)
    return StreamDriver(dut, "command", idle=stall / 2), received


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
    requantizing = [command for command in commands if command.requantizes]
    driver.extend(command.word for command in commands)

    edge = RisingEdge(dut.clk)
    started = 0
    while len(received["vectors"]) < len(commands):
        await edge
        assert len(received["drains"]) <= started + int(dut.started.value)
        for name, due in (("weights", commands), ("records", requantizing)):
            if (count := len(received[name])) and not due[count - 1].prefetch:
                assert due[count - 1].index < started + int(dut.started.value)
        started += int(dut.started.value)
    await ClockCycles(dut.clk, 4)
    assert dut.empty.value == 1
    assert int(dut.fault.value) & 1 == 0
    assert taken == [command.wait for command in commands]
    for name in SHARES:
        due = requantizing if name == "records" else commands
        assert received[name] == [command.shares[name] for command in due], name


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def prefetches_only_what_may_be_prefetched(dut) -> None:
    """Without its tokens a command's operands go out if it says so, its vectors never."""
    driver, received = _prepare(dut, 0)
    dut.take__ready.value = 0
    await reset(dut)
    for prefetch in (0, 1):
        for words in received.values():
            words.clear()
        command = _command(prefetch, drain=Drain.REQUANTIZE)
        driver.append(replace(command, prefetch=prefetch).word)
        await ClockCycles(dut.clk, 10)
        counts = {name: len(got) for name, got in received.items()}
        assert counts == {"weights": prefetch, "records": prefetch, "vectors": 0, "drains": 0}
        assert dut.waiting.value == 1
        dut.take__ready.value = 1
        await ClockCycles(dut.clk, 1)
        dut.take__ready.value = 0
        await ClockCycles(dut.clk, 3)
        assert {name: len(got) for name, got in received.items()} == dict.fromkeys(SHARES, 1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(region=REGIONS)
async def refuses_regions_outside(dut, region: str) -> None:
    """A command whose region leaves the buffer stops everything at its start."""
    driver, received = _prepare(dut, 0)
    dut.take__ready.value = 0
    await reset(dut)
    limit = LIMITS[region]
    driver.append(_command(1, drain=Drain.REQUANTIZE, **{region: limit - 1}).word)
    dut.take__ready.value = 1
    await ClockCycles(dut.clk, 6)
    assert len(received["vectors"]) == 1
    assert int(dut.fault.value) & 1 == 0
    # Of several regions the first one counts, however far the others go.
    later = REGIONS[REGIONS.index(region) + 1 :]
    worse = {name: UNUSED for name in later if random.randrange(2)}
    address = limit + random.choice([0, 1, random.randrange(1 << 26)])
    driver.append(_command(2, drain=Drain.REQUANTIZE, **{region: address}, **worse).word)
    dut.take__ready.value = 0
    await ClockCycles(dut.clk, 6)
    assert int(dut.fault.value) & 1 == 0, "a fault before the start"
    dut.take__ready.value = 1
    await ClockCycles(dut.clk, 6)
    assert unpack(FAULT, int(dut.fault.value)) == {
        "valid": 1, "code": Fault.BUFFER, "index": 2, "address": address
    }  # fmt: skip
    assert {name: len(words) for name, words in received.items()} == dict.fromkeys(SHARES, 1)


def test_intake() -> None:
    simulate(Intake(CONFIG), __file__, name="intake")
