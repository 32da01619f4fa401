"""STORE against the meaning of its commands: bytes, strobes, bursts, tokens, faults and speed."""

import random
from collections import deque
from collections.abc import Iterator
from itertools import islice

import cocotb
import numpy as np
import pytest
from cocotb.triggers import RisingEdge
from dma_bench import ENGINE_FAULT_KINDS, DmaBench
from dma_model import (
    CONFIGS,
    PERMITTED,
    Burst,
    FaultSeen,
    flip_mask,
    lines_of,
    pack_commands,
    rows_in_dram,
    trace,
)

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES, REFERENCE_MEMORY
from tpulite.arch.registers import EngineState, Fault
from tpulite.arch.timing import row_read
from tpulite_rtl.dma.store_engine import StoreEngine
from tpulite_tb.effort import repeats
from tpulite_tb.harness import simulate
from tpulite_tb.stream import StreamMonitor
from tpulite_testing.regress import thinned


class StoreBench(DmaBench):
    """A buffer that is read, some cycles late, and DRAM that is written and answers."""

    opcode = Opcode.STORE
    address, channels, ready_channels = "axi__aw", ("axi__w", "axi__b"), ("axi__w",)
    port = "read__request"

    def __init__(self, dut, *, stall: float = 0.0, response: int = 2) -> None:
        self.response = response
        dut.axi__b__valid.value = 0
        dut.read__response__valid.value = 0
        super().__init__(dut, stall=stall)
        shape = self.config.ub_rows, self.config.row_bytes
        self.rows = np.frombuffer(random.randbytes(self.config.ub_bytes), np.uint8).reshape(shape)

    def clear(self) -> None:
        super().clear()
        self.before = [contents.copy() for _, contents in self.dram.regions]
        self.rows_asked: deque[int | None] = deque([None] * (row_read(self.config) - 1))
        self.unwritten: deque[tuple[int, int]] = deque()  # bursts: address, beats
        self.beat = 0  # in the oldest unwritten burst
        self.early: deque[tuple[int, int]] = deque()  # beats whose burst is not accepted
        self.responses: deque[int] = deque()  # due times
        self.offered = False

    def retired(self, moved: dict[str, int]) -> bool:
        return "axi__b" in moved

    def step(self, moved: dict[str, int]) -> None:
        dut = self.dut
        # The buffer answers some cycles after it has accepted, whatever happens.
        row = self.rows_asked.popleft()
        self.rows_asked.append(moved.get("read__request"))
        answer = (
            random.randbytes(self.config.row_bytes) if row is None else self.rows[row].tobytes()
        )
        dut.read__response__valid.value = row is not None
        dut.read__response__payload.value = int.from_bytes(answer, "little")

        if "axi__aw" in moved:
            self.unwritten.append(self.bursts()[-1])
        if "axi__w" in moved:
            self.early.append((self.now, moved["axi__w"]))
        self._write()
        if self.early:
            beats = (int(dut.axi__aw__payload.value) >> ADDRESS_BITS) + 1
            assert dut.axi__aw__valid.value and len(self.early) <= beats, "beat without an address"

        if "axi__b" in moved:
            self.responses.popleft()
            self.offered = False
        if self.stopped:
            assert not dut.axi__b__valid.value or "axi__b" in moved, "response not taken at once"
        if self.responses and self.responses[0] <= self.now + 1 and not self.offered:
            self.offered = random.random() >= self.stall
        error = self.error_at is not None and len(self.seen["axi__b"]) == self.error_at[0]
        dut.axi__b__valid.value = self.offered
        dut.axi__b__payload.value = error if self.offered else random.getrandbits(1)

    def _write(self) -> None:
        while self.unwritten and self.early:
            address, beats = self.unwritten[0]
            now, word = self.early.popleft()
            view = self.dram.view(address + self.beat * BEAT_BYTES, BEAT_BYTES)
            for i, byte in enumerate((word % (1 << 128)).to_bytes(BEAT_BYTES, "little")):
                if word >> 128 + i & 1:
                    view[i] = byte
            self.beat += 1
            assert bool(word >> 144) == (self.beat == beats), "wrong last"
            if self.beat == beats:
                self.unwritten.popleft()
                self.beat = 0
                self.responses.append(max(now, self.now) + self.response)

    def compare(self, commands: list[Command], bursts: list[Burst], *, whole: bool) -> None:
        assert not self.unwritten and not self.early and not self.responses
        beats = self.payloads("axi__w")
        assert len(beats) == sum(beats for _, beats in self.bursts())
        reads = self.payloads("read__request")
        expected_rows = [
            line.first_row + i
            for command in commands
            for line in lines_of(command)
            for i in range(line.rows)
        ]
        assert reads == (expected_rows if whole else expected_rows[: len(reads)])

        void = False
        for beat, (data, strobe) in zip(
            beats, islice(self._beats(commands), len(beats)), strict=True
        ):
            seen = beat >> 128 & 0xFFFF
            assert seen & ~strobe == 0 and not (void and seen)
            void |= seen != strobe
            mask = int.from_bytes(bytes(0xFF * (seen >> i & 1) for i in range(16)), "little")
            assert beat & mask == data & mask
        assert not (whole and void)
        if whole:
            assert len(beats) == sum(burst.beats for burst in bursts)
            self._compare_dram(commands)

    def _beats(self, commands: list[Command]) -> Iterator[tuple[int, int]]:
        """Yield data and strobe of each beat, also those beyond an illegal one."""
        for command in commands:
            for line in lines_of(command):
                rows = self.rows[line.first_row : line.first_row + line.rows]
                contents = (rows ^ flip_mask(command)).tobytes()
                for start in range(0, len(contents), BEAT_BYTES):
                    part = contents[start : start + BEAT_BYTES]
                    yield int.from_bytes(part, "little"), (1 << len(part)) - 1

    def _compare_dram(self, commands: list[Command]) -> None:
        written = [contents.copy() for _, contents in self.dram.regions]
        for (_, contents), before in zip(self.dram.regions, self.before, strict=True):
            contents[:] = before
        for command in commands:
            for row, view in rows_in_dram(self.config, self.dram, self.windows, command):
                view[:] = self.rows[row] ^ flip_mask(command)
        for (_, contents), seen in zip(self.dram.regions, written, strict=True):
            assert np.array_equal(contents, seen)

    def completed_at(self, commands: list[Command]) -> list[int]:
        times = iter(self.times("axi__b"))
        counts = [len(trace(self.config, self.windows, [command])[0]) for command in commands]
        return [[next(times) for _ in range(count)][-1] for count in counts]


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(stall=[0.0, 0.4], response=[1, 20])
async def stores_what_the_commands_say(dut, stall: float, response: int) -> None:
    """Random commands back to back: every byte, strobe, burst and token, and nothing more."""
    bench = await StoreBench.start(dut, stall=stall, response=response)
    for name in ("read__request", "engine__take", "engine__give"):
        StreamMonitor(dut, name)
    await bench.check(bench.random_commands(repeats(60)))
    await bench.check_late_tokens(repeats(30))


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(rows=[5, 16, 256])
async def keeps_the_memory_busy(dut, rows: int) -> None:
    """Back to back commands reach what rows, beats and outstanding bursts allow."""
    response = REFERENCE_MEMORY.write_response
    bench = await StoreBench.start(dut, response=response)
    config = bench.config
    to_page = -bench.windows[2].base % PAGE_BYTES  # so that no short line is cut in two
    command = Command.make(Opcode.STORE, window=2, offset=to_page, lines=1, rows=rows, signal=1)
    await bench.check([command] * (800 // rows))

    bursts, _ = trace(config, bench.windows, [command])
    speed_of_rows = min(1.0, sum(burst.beats for burst in bursts) / rows)
    # The beats that can be outstanding, and the time from the first address to its response: the
    # first row is asked for at once and three cycles later sent.
    window = [bursts[i % len(bursts)].beats for i in range(config.dma_bursts)]
    limit = min(speed_of_rows, sum(window) / (3 + window[0] / speed_of_rows + response))
    moved = bench.times("axi__w")
    speed = len(moved) / (moved[-1] - moved[0] + 1)
    dut._log.info("%d rows a line: %.3f beats a cycle, limit %.3f", rows, speed, limit)
    assert speed >= 0.9 * limit


@cocotb.test(timeout_time=400, timeout_unit="us")
async def bursts_are_as_long_as_they_may_be(dut) -> None:
    """A whole page, if the buffer has it, in as few bursts as the machine can, and short ones."""
    bench = await StoreBench.start(dut)
    window = PERMITTED[Opcode.STORE][0]
    to_page = -bench.windows[window].base % PAGE_BYTES
    short = Command.make(Opcode.STORE, window=window, offset=to_page, lines=1, rows=1)
    size = min(PAGE_BYTES, bench.config.ub_bytes)
    await bench.check([short, short.replace(rows=size // bench.config.row_bytes), short])
    longest = max(beats for _, beats in bench.bursts())
    assert longest == min(bench.config.burst_beats, size // BEAT_BYTES)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def starts_and_ends_quickly(dut) -> None:
    """AW three, the first row four cycles after the command, W three later or four, then tokens."""
    bench = await StoreBench.start(dut, response=8)
    await bench.check([Command.make(Opcode.STORE, window=2, lines=1, rows=1, signal=4)])
    (start,) = bench.times("engine__command")
    assert bench.times("engine__take") == [start + 1]
    assert bench.times("axi__aw") == [start + 3]
    assert bench.times("read__request") == [start + 4]
    assert bench.times("axi__w")[0] == start + 7 + bench.config.ram_registers
    (answered,) = bench.times("axi__b")
    assert answered == bench.times("axi__w")[-1] + 8
    assert bench.times("engine__give") == [answered + 1]
    assert bench.cycles_in(EngineState.AXI) == 7  # between W and B
    assert bench.cycles_in(EngineState.TOKEN) == 0  # nobody makes it wait for one


@cocotb.test(timeout_time=400, timeout_unit="us")
async def says_why_it_waits(dut) -> None:
    """TOKEN, BUFFER and AXI, with the index of the command that waits."""
    bench = await StoreBench.start(dut, response=3)
    command = Command.make(Opcode.STORE, window=2, lines=1, rows=64, wait=1, signal=1)
    commands = [command] * (bench.config.dma_bursts + 2)  # one more than can be in flight
    stalled = "engine__take", "read__request", "axi__w", "engine__give"
    for name in stalled:
        bench.sinks[name].stall(1)
    bench.commands.extend(pack_commands(commands, start=7))
    for name, state in zip(
        stalled, (EngineState.TOKEN, EngineState.BUFFER, EngineState.AXI), strict=False
    ):
        await bench.cycles(60)
        before = bench.states[state, 7]
        await bench.cycles(20)
        assert bench.states[state, 7] == before + 20
        bench.sinks[name].stall(0)
    assert bench.conflicts >= 20
    await bench.cycles(1000)
    # The first cannot give its token, so the second cannot be completed.
    bursts, _ = trace(bench.config, bench.windows, [command])
    assert len(bench.seen["axi__b"]) == 2 * len(bursts) - 1
    bench.sinks["engine__give"].stall(0)
    await bench.completed()
    bench.compare(commands, bursts * len(commands), whole=True)


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(kind=ENGINE_FAULT_KINDS, stall=[0.0, 0.3])
async def refuses_what_is_illegal(dut, kind: str, stall: float) -> None:
    """Show the right fault, issue nothing from there on, stop cleanly, work after reset."""
    bench = await StoreBench.start(dut, stall=stall, response=20)
    for _ in range(2):
        commands = bench.random_commands(6)
        commands.insert(3, bench.bad_command(kind))
        bench.commands.extend(pack_commands(commands))
        _, fault = trace(bench.config, bench.windows, commands)
        assert await bench.faulted() == fault
        await bench.check_stop(commands)
    await bench.check(bench.random_commands(3))


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(stall=[0.0, 0.3])
async def reports_write_errors(dut, stall: float) -> None:
    """Name the burst that is answered with an error; its command gives no token."""
    bench = await StoreBench.start(dut, stall=stall, response=12)
    for _ in range(repeats(5)):
        commands = bench.random_commands(8)
        bursts, _ = trace(bench.config, bench.windows, commands)
        number = random.choice([random.randrange(len(bursts)), len(bursts) - 1])
        bench.error_at = number, 0
        bench.commands.extend(pack_commands(commands))
        burst = bursts[number]
        assert await bench.faulted() == FaultSeen(Fault.WRITE, burst.index, burst.address)
        earlier = [command for command in commands[: burst.index] if command["signal"]]
        assert len(bench.seen["engine__give"]) <= len(earlier)
        await bench.check_stop(commands)
    await bench.check(bench.random_commands(3))


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(stall=[0.0, 0.5])
async def stops_at_any_moment(dut, stall: float) -> None:
    """Stop from outside, with anything in flight."""
    bench = await StoreBench.start(dut, stall=stall, response=20)
    for _ in range(repeats(15)):
        commands = bench.random_commands(6)
        bench.commands.extend(pack_commands(commands))
        await bench.cycles(random.randint(1, 150))
        dut.engine__stop.value = 1
        await RisingEdge(dut.clk)
        assert bench.fault is None
        await bench.check_stop(commands)
    await bench.check_tokens_stop()
    bench.sinks["engine__give"].stall(stall)
    await bench.check(bench.random_commands(3))


@pytest.mark.parametrize(
    "machine", thinned(CONFIGS, "4", "32", reason="between parts of a beat and several beats a row")
)
def test_store_engine(machine):
    simulate(
        StoreEngine(CONFIGS[machine]),
        __file__,
        name=f"store_engine_{machine}",
        extra_env={"MACHINE": machine},
    )
