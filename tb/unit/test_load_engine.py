"""LOAD against the meaning of its commands: rows, bursts, tokens, faults, stopping and speed."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from dma_bench import ENGINE_FAULT_KINDS, DmaBench
from dma_model import (
    CONFIGS,
    PERMITTED,
    Burst,
    FaultSeen,
    flip_mask,
    legal_part,
    pack_commands,
    rows_in_dram,
    trace,
)

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES, REFERENCE_MEMORY
from tpulite.arch.registers import EngineState, Fault
from tpulite_rtl.dma.load_engine import LoadEngine
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_tb.effort import repeats
from tpulite_tb.harness import simulate
from tpulite_tb.stream import StreamMonitor
from tpulite_testing.regress import thinned


class LoadBench(DmaBench):
    """DRAM that is read, with a latency; the rows that are written are just recorded."""

    opcode = Opcode.LOAD
    address, channels, ready_channels = "axi__ar", ("axi__r",), ()
    port = "write__request"

    def __init__(self, dut, *, stall: float = 0.0, latency: int = 2) -> None:
        self.latency = latency
        dut.axi__r__valid.value = 0
        super().__init__(dut, stall=stall)

    def clear(self) -> None:
        super().clear()
        self.beats: deque[tuple[int, int]] = deque()  # due time, payload
        self.offered = False

    def retired(self, moved: dict[str, int]) -> bool:
        return bool(moved.get("axi__r", 0) >> 129)

    def step(self, moved: dict[str, int]) -> None:
        if "axi__ar" in moved:
            self._answer(moved["axi__ar"])
        if "axi__r" in moved:
            self.beats.popleft()
            self.offered = False
        if self.stopped:
            assert not self.dut.axi__r__valid.value or "axi__r" in moved, "beat not dropped at once"
        due = self.beats and self.beats[0][0] <= self.now + 1
        if due and not self.offered:
            self.offered = random.random() >= self.stall
        self.dut.axi__r__valid.value = self.offered
        self.dut.axi__r__payload.value = (
            self.beats[0][1] if self.offered else random.getrandbits(130)
        )

    def _answer(self, payload: int) -> None:
        address, beats = payload % (1 << ADDRESS_BITS), (payload >> ADDRESS_BITS) + 1
        contents = self.dram.view(address, beats * BEAT_BYTES).tobytes()
        number = len(self.seen["axi__ar"]) - 1
        for i in range(beats):
            word = int.from_bytes(contents[i * BEAT_BYTES :][:BEAT_BYTES], "little")
            word |= (self.error_at == (number, i)) << 128 | (i == beats - 1) << 129
            self.beats.append((self.now + self.latency, word))

    def compare(self, commands: list[Command], bursts: list[Burst], *, whole: bool) -> None:
        expected = [
            row | int.from_bytes((contents ^ flip_mask(command)).tobytes(), "little") << ROW_BITS
            for command in legal_part(self.config, self.windows, commands)
            for row, contents in rows_in_dram(self.config, self.dram, self.windows, command)
        ]
        written = self.payloads("write__request")
        assert written == (expected if whole else expected[: len(written)])

    def completed_at(self, commands: list[Command]) -> list[int]:
        times = iter(self.times("write__request"))
        return [
            [next(times) for _ in range(command["lines"] * command["rows"])][-1]
            for command in commands
        ]


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(stall=[0.0, 0.4], latency=[1, 50])
async def loads_what_the_commands_say(dut, stall: float, latency: int) -> None:
    """Random commands back to back: every row, burst and token, in order and nothing more."""
    bench = await LoadBench.start(dut, stall=stall, latency=latency)
    for name in ("write__request", "engine__take", "engine__give"):
        StreamMonitor(dut, name)
    await bench.check(bench.random_commands(repeats(60)))
    await bench.check_late_tokens(repeats(30))


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(rows=[5, 16, 256])
async def keeps_the_memory_busy(dut, rows: int) -> None:
    """Back to back commands reach what rows, beats and outstanding bursts allow."""
    latency = REFERENCE_MEMORY.read_latency
    bench = await LoadBench.start(dut, latency=latency)
    config = bench.config
    to_page = -bench.windows[1].base % PAGE_BYTES  # so that no short line is cut in two
    command = Command.make(Opcode.LOAD, window=1, offset=to_page, lines=1, rows=rows, signal=1)
    await bench.check([command] * (800 // rows))

    bursts, _ = trace(config, bench.windows, [command])
    speed_of_rows = min(1.0, sum(burst.beats for burst in bursts) / rows)
    # The beats that can be outstanding, and the time from an address to the end of its burst.
    window = [bursts[i % len(bursts)].beats for i in range(config.dma_bursts)]
    limit = min(speed_of_rows, sum(window) / (latency + window[0] / speed_of_rows))
    moved = bench.times("axi__r")
    speed = len(moved) / (moved[-1] - moved[0] + 1)
    dut._log.info("%d rows a line: %.3f beats a cycle, limit %.3f", rows, speed, limit)
    assert speed >= 0.9 * limit


@cocotb.test(timeout_time=400, timeout_unit="us")
async def bursts_are_as_long_as_they_may_be(dut) -> None:
    """A whole page, if the buffer has it, in as few bursts as the machine can, and short ones."""
    bench = await LoadBench.start(dut)
    window = PERMITTED[Opcode.LOAD][0]
    to_page = -bench.windows[window].base % PAGE_BYTES
    short = Command.make(Opcode.LOAD, window=window, offset=to_page, lines=1, rows=1)
    size = min(PAGE_BYTES, bench.config.ub_bytes)
    await bench.check([short, short.replace(rows=size // bench.config.row_bytes), short])
    longest = max(beats for _, beats in bench.bursts())
    assert longest == min(bench.config.burst_beats, size // BEAT_BYTES)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def starts_and_ends_quickly(dut) -> None:
    """AR three cycles after the command, the row after its beat, tokens after the row."""
    bench = await LoadBench.start(dut, latency=50)
    await bench.check([Command.make(Opcode.LOAD, window=1, lines=1, rows=1, signal=4)])
    (start,) = bench.times("engine__command")
    assert bench.times("engine__take") == [start + 1]
    assert bench.times("axi__ar") == [start + 3]
    assert bench.times("axi__r")[0] == start + 53
    unpacking = 1 if bench.config.row_bytes < BEAT_BYTES else 0
    assert bench.times("write__request") == [bench.times("axi__r")[-1] + 1 + unpacking]
    assert bench.times("engine__give") == [bench.times("write__request")[-1] + 1]
    assert bench.cycles_in(EngineState.AXI) == 49  # without an address or a beat
    assert bench.cycles_in(EngineState.TOKEN) == 0  # nobody makes it wait for one


@cocotb.test(timeout_time=400, timeout_unit="us")
async def waits_for_no_token_while_another_command_is_queued(dut) -> None:
    """Two commands without tokens: no cycle is TOKEN, though nothing is outstanding at first."""
    bench = await LoadBench.start(dut, latency=50)
    await bench.check([Command.make(Opcode.LOAD, window=1, lines=1, rows=1)] * 2)
    assert bench.cycles_in(EngineState.TOKEN) == 0


@cocotb.test(timeout_time=400, timeout_unit="us")
async def says_why_it_waits(dut) -> None:
    """TOKEN, BUFFER and AXI, with the index of the command that waits."""
    bench = await LoadBench.start(dut, latency=3)
    command = Command.make(Opcode.LOAD, window=1, lines=1, rows=64, wait=1, signal=1)
    for name in ("engine__take", "axi__ar", "write__request", "engine__give"):
        bench.sinks[name].stall(1)
    bench.commands.extend(pack_commands([command] * 3, start=7))
    for name, state in (
        ("engine__take", EngineState.TOKEN),
        ("axi__ar", EngineState.AXI),
        ("write__request", EngineState.BUFFER),
    ):
        await bench.cycles(60)
        before = bench.states[state, 7]
        await bench.cycles(20)
        assert bench.states[state, 7] == before + 20
        bench.sinks[name].stall(0)
    assert bench.conflicts >= 20
    # Four rows wait for the buffer, and where rows are no beats one beat in the unpacker.
    row_bytes = bench.config.row_bytes
    assert len(bench.seen["axi__r"]) == 4 * row_bytes // BEAT_BYTES + (row_bytes != BEAT_BYTES)
    await bench.cycles(1000)
    # The first cannot give its token, so the second cannot be completed.
    assert len(bench.seen["write__request"]) == 2 * 64 - 1
    bench.sinks["engine__give"].stall(0)
    await bench.completed()
    bench.compare([command] * 3, [], whole=True)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def forgets_no_command_in_flight(dut) -> None:
    """As many short commands as can start before the buffer takes a row: each gives its token."""
    bench = await LoadBench.start(dut, latency=1)
    command = Command.make(Opcode.LOAD, window=1, lines=1, rows=1, signal=1)
    commands = [command] * (bench.config.dma_bursts + 9)
    bench.sinks["write__request"].stall(1)

    async def release() -> None:
        await bench.cycles(10 * len(commands))
        bench.sinks["write__request"].stall(0)

    cocotb.start_soon(release())
    await bench.check(commands)


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(kind=ENGINE_FAULT_KINDS, stall=[0.0, 0.3])
async def refuses_what_is_illegal(dut, kind: str, stall: float) -> None:
    """Show the right fault, issue nothing from there on, stop cleanly, work after reset."""
    bench = await LoadBench.start(dut, stall=stall, latency=30)
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
async def reports_read_errors(dut, stall: float) -> None:
    """Name the burst whose beat fails; rows before that beat may be there, none after it."""
    bench = await LoadBench.start(dut, stall=stall, latency=20)
    for _ in range(repeats(5)):
        commands = bench.random_commands(8)
        bursts, _ = trace(bench.config, bench.windows, commands)
        number = random.choice([random.randrange(len(bursts)), len(bursts) - 1])
        beat = random.randrange(bursts[number].beats)
        bench.error_at = number, beat
        bench.commands.extend(pack_commands(commands))
        burst = bursts[number]
        assert await bench.faulted() == FaultSeen(Fault.READ, burst.index, burst.address)
        await bench.check_stop(commands)
    await bench.check(bench.random_commands(3))


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(stall=[0.0, 0.5])
async def stops_at_any_moment(dut, stall: float) -> None:
    """Stop from outside, with anything in flight."""
    bench = await LoadBench.start(dut, stall=stall, latency=20)
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
def test_load_engine(machine):
    simulate(
        LoadEngine(CONFIGS[machine]),
        __file__,
        name=f"load_engine_{machine}",
        extra_env={"MACHINE": machine},
    )
