"""The intake: who gets what of a CONV, when, and what it refuses."""

import random
from dataclasses import dataclass, replace

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.registers import Fault
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.intake import Intake
from tpulite_rtl.mxu.preparation import REGION_BITS, prepared_layout
from tpulite_rtl.mxu.slots import VECTOR_COMMAND
from tpulite_rtl.mxu.weight_sequencer import WEIGHT_COMMAND
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

SHARES = {
    "weights": WEIGHT_COMMAND,
    "records": RECORD_COMMAND,
    "vectors": VECTOR_COMMAND,
    "drains": DRAIN_COMMAND,
}


@dataclass(frozen=True)
class _Command:
    """A prepared command: its shares are bits that the intake only passes on."""

    index: int
    wait: int
    prefetch: int
    requantizes: bool
    shares: dict[str, int]
    outside: bool = False

    @property
    def word(self) -> int:
        names = ("index", "wait", "prefetch", "requantizes", "outside")
        return pack(
            prepared_layout(Config()), {name: getattr(self, name) for name in names} | self.shares
        )


def _command(index: int | None = None, **fields: int) -> _Command:
    """Draw a command with some fields given."""
    if index is None:
        index = random.getrandbits(INDEX_BITS)
    drawn = {
        "wait": random.randrange(16),
        "prefetch": random.randrange(2),
        "requantizes": random.randrange(2),
        "shares": {name: random.getrandbits(layout.size) for name, layout in SHARES.items()},
    }
    return _Command(index, **(drawn | fields))


def _prepare(
    dut, stall: float, *, watch: bool = True, own: tuple[str, ...] = ()
) -> tuple[StreamDriver, dict[str, list[int]]]:
    dut.room.value = 1
    dut.stop.value = 0
    dut.address.value = 0
    received: dict[str, list[int]] = {name: [] for name in SHARES}
    for name, words in received.items():
        if name not in own:
            StreamSink(dut, name, stall=stall)
        if watch:
            StreamMonitor(dut, name, callback=words.append)
    return StreamDriver(dut, "command", idle=stall / 2), received


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], tokens=[0.0, 0.5], crowded=[0.0, 0.5])
async def shares_every_command_once(dut, stall: float, tokens: float, crowded: float) -> None:
    """All four receivers get their fields in order; nothing but operands goes before the tokens.

    A command starts when it takes its tokens, never without room.
    """
    driver, received = _prepare(dut, stall)
    taken: list[int] = []
    StreamSink(dut, "take", stall=tokens)
    StreamMonitor(dut, "take", callback=taken.append)
    await reset(dut)
    commands = [_command(index) for index in range(60)]
    requantizing = [command for command in commands if command.requantizes]
    driver.extend(command.word for command in commands)

    edge = RisingEdge(dut.clk)
    started = accepted = 0
    room = True
    while len(received["vectors"]) < len(commands):
        room = room or random.random() >= crowded
        dut.room.value = room
        await edge
        assert dut.started.value == (dut.take__valid.value and dut.take__ready.value)
        assert dut.waiting.value == (dut.take__valid.value and not dut.take__ready.value)
        assert room or not dut.take__valid.value
        assert not int(dut.fault.value) & 1
        room = room and not dut.started.value
        there = bool(dut.command__valid.value) or len(received["vectors"]) < accepted
        assert dut.empty.value != there
        accepted += bool(dut.command__valid.value and dut.command__ready.value)
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
        command = _command(prefetch, requantizes=1)
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
async def waits_for_the_receivers_that_it_needs(dut) -> None:
    """Records are sent only to requantize: whoever takes them need not be ready otherwise."""
    driver, received = _prepare(dut, 0, own=("records",))
    StreamSink(dut, "take")
    records = StreamSink(dut, "records", stall=1)
    await reset(dut)
    driver.extend(_command(requantizes=0).word for _ in range(5))
    await driver.drained()
    await ClockCycles(dut.clk, 3)
    assert len(received["vectors"]) == len(received["drains"]) == 5
    driver.append(_command(requantizes=1).word)
    await ClockCycles(dut.clk, 20)
    assert len(received["vectors"]) == len(received["drains"]) == 5
    assert len(received["weights"]) == 6
    records.stall(0)
    await ClockCycles(dut.clk, 5)
    assert [len(received[name]) for name in ("vectors", "drains", "records")] == [6, 6, 1]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_forgets_what_was_sent(dut) -> None:
    """Vectors that nobody has taken are gone."""
    driver, _ = _prepare(dut, 0, watch=False, own=("vectors",))
    StreamSink(dut, "take")
    StreamSink(dut, "vectors", stall=1)
    await reset(dut)
    driver.append(_command(requantizes=0).word)
    await driver.drained()
    await ClockCycles(dut.clk, 3)
    assert dut.vectors__valid.value == 1 and dut.empty.value == 0
    dut.rst.value = 1
    await ClockCycles(dut.clk, 1)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    assert dut.vectors__valid.value == 0 and dut.empty.value == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(run=range(20))
async def starts_nothing_after_stop(dut, run: int) -> None:
    """No tokens are taken, no operands are asked for, whatever has been sent already."""
    driver, _ = _prepare(dut, 0.5, watch=False)  # a stop withdraws offers
    StreamSink(dut, "take", stall=0.5)
    await reset(dut)
    driver.extend(_command(requantizes=1).word for _ in range(10))
    await ClockCycles(dut.clk, random.randint(2, 40))
    dut.stop.value = 1
    await RisingEdge(dut.clk)
    for _ in range(20):
        await RisingEdge(dut.clk)
        for name in ("take", "weights", "records"):
            assert not getattr(dut, f"{name}__valid").value, name
        assert not dut.started.value and not dut.waiting.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(prefetch=[0, 1], run=range(4))
async def refuses_what_is_outside(dut, prefetch: int, run: int) -> None:
    """A command whose regions leave their memories stops everything at its start."""
    driver, received = _prepare(dut, 0)
    dut.take__ready.value = 1
    await reset(dut)
    for _ in range(40):
        await RisingEdge(dut.clk)
        assert int(dut.fault.value) & 1 == 0
    driver.append(_command(requantizes=1).word)
    await ClockCycles(dut.clk, 6)
    assert len(received["vectors"]) == 1
    assert int(dut.fault.value) & 1 == 0
    address = random.randrange(1 << REGION_BITS)
    dut.address.value = address
    index = random.getrandbits(INDEX_BITS)
    driver.append(_command(index, requantizes=1, prefetch=prefetch, outside=True).word)
    dut.take__ready.value = 0
    await ClockCycles(dut.clk, 6)
    assert int(dut.fault.value) & 1 == 0, "a fault before the start"
    dut.take__ready.value = 1
    await ClockCycles(dut.clk, 6)
    assert unpack(FAULT, int(dut.fault.value)) == {
        "valid": 1, "code": Fault.BUFFER, "index": index, "address": address
    }  # fmt: skip
    assert {name: len(words) for name, words in received.items()} == dict.fromkeys(SHARES, 1)


def test_intake() -> None:
    simulate(Intake(Config()), __file__, name="intake")
