"""Copy engine against plain Python: rows, tokens, states, faults, stop."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, Command, Opcode
from tpulite.arch.registers import EngineState, Fault
from tpulite_rtl.lib.interfaces import FAULT, write_layout
from tpulite_rtl.vpu.copy_engine import CopyEngine
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

CONFIG = Config(array_size=int(os.environ.get("ARRAY_SIZE", "4")), ub_rows=1024)
WRITE = write_layout(CONFIG)
READ_LATENCY = 2


class Bench:
    """The engine at a buffer of its own, with random refusals at every stream."""

    def __init__(self, dut, *, stall: float = 0.0) -> None:
        self.dut = dut
        self.buffer = [random.randbytes(CONFIG.row_bytes) for _ in range(CONFIG.ub_rows)]
        self.expected = list(self.buffer)
        self.commands = StreamDriver(dut, "engine__command")
        self.takes = StreamSink(dut, "engine__take", stall=stall)
        self.gives = StreamSink(dut, "engine__give", stall=stall)
        self.reads = StreamSink(dut, "read__request", stall=stall)
        self.writes = StreamSink(dut, "write__request", stall=stall)
        self.events: list[tuple[str, int]] = []
        self.cycles: dict[str, list[int]] = {"read": [], "write": []}
        self.cycle = 0
        self.sent = 0
        for name in ("take", "give"):
            StreamMonitor(dut, f"engine__{name}", callback=self._token(name))
        StreamMonitor(dut, "read__request", callback=self._read)
        StreamMonitor(dut, "write__request", callback=self._write)
        self._answer: bytes | None = None
        dut.engine__stop.value = 0
        cocotb.start_soon(self._respond())

    def send(self, command: Command, *, legal: bool = True) -> None:
        """Queue a command; if it is legal, expect what it does."""
        word = int.from_bytes(command.encode(), "little")
        self.commands.append(word | self.sent << COMMANDS[Opcode.COPY].width)
        self.sent += 1
        for line in range(command["lines"] if legal else 0):
            source = command["src_row"] + line * command["src_pitch"]
            target = command["dst_row"] + line * command["dst_pitch"]
            self.expected[target : target + command["rows"]] = [
                clamped(row, command) for row in self.expected[source : source + command["rows"]]
            ]

    async def finished(self) -> None:
        """Wait until every command has given its tokens."""
        while sum(what == "give" for what, _ in self.events) < self.sent:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 8)

    @property
    def fault(self) -> tuple[int, int, int] | None:
        """The fault that the engine shows: code, index and address."""
        fault = FAULT.from_bits(self.dut.engine__fault.value.to_unsigned())
        return (fault.code, fault.index, fault.address) if fault.valid else None

    def _token(self, name: str):
        return lambda mask: self.events.append((name, mask))

    def _read(self, row: int) -> None:
        self._answer = self.buffer[row]
        self.events.append(("read", row))
        self.cycles["read"].append(self.cycle)

    def _write(self, payload: int) -> None:
        request = WRITE.from_bits(payload)
        self.buffer[request.row] = request.data.to_bytes(CONFIG.row_bytes, "little")
        self.events.append(("write", request.row))
        self.cycles["write"].append(self.cycle)

    async def _respond(self) -> None:
        """Show each row for exactly the cycle that the port promises, garbage otherwise."""
        response = self.dut.read__response__payload
        waiting: bytes | None = None
        while True:
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            shown = waiting if waiting is not None else random.randbytes(CONFIG.row_bytes)
            response.value = int.from_bytes(shown, "little")
            # The monitor of this edge may run before or after: give it its turn.
            await cocotb.triggers.NullTrigger()
            waiting, self._answer = self._answer, None


def clamped(row: bytes, command: Command) -> bytes:
    values = (byte - 256 if byte > 127 else byte for byte in row)
    low, high = command["low"], command["high"]
    # The hardware's answer if low > high, which no compiler asks for.
    return bytes((low if v < low else high if v > high else v) % 256 for v in values)


def random_copy(**fields: int) -> Command:
    """Return a COPY of a few lines from the lower into the upper half of the buffer, or back."""
    half = CONFIG.ub_rows // 2
    lines, rows = random.choice([(1, 1), (1, random.randint(2, 40)), (random.randint(2, 6), 7)])
    pitches = [random.randint(rows, rows + 5) for _ in range(2)]
    starts = [random.randrange(half - lines * pitch) for pitch in pitches]
    starts[random.randrange(2)] += half
    low = random.randrange(-128, 128)
    values = {
        "wait": random.randrange(16),
        "signal": random.randrange(16),
        "lines": lines,
        "rows": rows,
        "src_row": starts[0],
        "src_pitch": pitches[0],
        "dst_row": starts[1],
        "dst_pitch": pitches[1],
        "low": low,
        "high": random.randrange(low, 128),
    }
    return Command.make(Opcode.COPY, **(values | fields))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def rows_are_copied_and_clamped(dut, stall: float) -> None:
    """Random commands; each starts with its wait and completes with its signal, in order."""
    bench = Bench(dut, stall=stall)
    await reset(dut)
    commands = [random_copy() for _ in range(40)]
    for command in commands:
        bench.send(command)
    await bench.finished()
    assert bench.buffer == bench.expected
    assert bench.fault is None and dut.engine__idle.value and dut.engine__quiet.value
    tokens = [event for event in bench.events if event[0] in ("take", "give")]
    assert tokens == [
        event for c in commands for event in (("take", c["wait"]), ("give", c["signal"]))
    ]
    # All of a command's rows were written between its tokens.
    position = 0
    for command in commands:
        count = 2 * command["lines"] * command["rows"] + 2
        assert bench.events[position][0] == "take"
        assert bench.events[position + count - 1][0] == "give"
        position += count


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def one_row_a_cycle(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    bench.send(random_copy(lines=7, rows=9, src_row=0, src_pitch=20, dst_row=600, dst_pitch=9))
    await bench.finished()
    reads, writes = bench.cycles["read"], bench.cycles["write"]
    assert reads == list(range(reads[0], reads[0] + 63))
    assert writes == [cycle + READ_LATENCY + 1 for cycle in reads]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def states_say_what_happens(dut) -> None:
    """Idle, waiting for tokens, refused by the buffer, and all of that with the right index."""
    bench = Bench(dut)
    bench.takes.stall(1)
    await reset(dut)

    async def state_after(cycles: int) -> EngineState:
        await ClockCycles(dut.clk, cycles)
        return EngineState(int(dut.engine__state.value))

    assert await state_after(3) == EngineState.IDLE
    bench.sent = 41
    bench.send(random_copy(lines=1, rows=64, src_row=0, dst_row=600))
    bench.sent = 1
    assert await state_after(5) == EngineState.TOKEN
    assert dut.engine__index.value == 41 and dut.engine__idle.value
    bench.takes.stall(0)
    assert await state_after(6) == EngineState.BUSY
    assert dut.engine__index.value == 41 and not dut.engine__idle.value
    bench.reads.stall(1)
    assert await state_after(10) == EngineState.BUFFER and dut.conflict.value
    bench.reads.stall(0)
    assert await state_after(3) == EngineState.BUSY and not dut.conflict.value
    bench.writes.stall(1)
    assert await state_after(20) == EngineState.BUFFER and dut.conflict.value
    bench.writes.stall(0)
    bench.gives.stall(1)
    assert await state_after(80) == EngineState.BUSY, "waiting to give"
    assert not dut.engine__idle.value
    bench.gives.stall(0)
    assert await state_after(5) == EngineState.IDLE
    assert bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    case=[
        # Fields, then the fault's address and the rows read before it.
        ({"src_row": 1000, "rows": 25, "lines": 1}, 1024, 0),
        ({"dst_row": 1000, "rows": 25, "lines": 2}, 1024, 0),
        ({"src_row": 1023, "dst_row": 1023, "rows": 2, "lines": 1}, 1024, 0),
        ({"src_row": 900, "src_pitch": 60, "rows": 10, "lines": 9}, 1029, 20),
        ({"dst_row": 1000, "dst_pitch": 16383, "rows": 10, "lines": 4095}, 17392, 10),
        ({"src_row": 16383, "dst_row": 16383, "rows": 32767, "lines": 4095}, 49149, 0),
    ]
)
async def row_outside_the_buffer_is_a_fault(dut, case) -> None:
    fields, address, rows = case
    bench = Bench(dut, stall=0.2)
    await reset(dut)
    before = random_copy()
    bench.send(before)
    places = {"src_row": 0, "src_pitch": 0, "dst_row": 0, "dst_pitch": 0} | fields
    bench.send(random_copy(**places), legal=False)
    while bench.fault is None:
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 50)
    assert bench.fault == (Fault.BUFFER, 1, address)
    read = sum(what == "read" for what, _ in bench.events)
    assert read == before["lines"] * before["rows"] + rows
    assert read == sum(what == "write" for what, _ in bench.events)
    assert [mask for what, mask in bench.events if what == "give"] == [before["signal"]]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def whole_buffer_is_legal(dut) -> None:
    """Touch the last row, with a pitch that leads beyond it after the last line."""
    bench = Bench(dut)
    await reset(dut)
    last = CONFIG.ub_rows - 10
    bench.send(random_copy(src_row=0, dst_row=last, rows=10, lines=1, dst_pitch=16383))
    bench.send(random_copy(src_row=last, dst_row=0, rows=10, lines=1, src_pitch=16383))
    await bench.finished()
    assert bench.fault is None and bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def stop_ends_the_reads(dut) -> None:
    """Keep a raised request, write what was read, move no token, start no command."""
    bench = Bench(dut)
    await reset(dut)
    bench.send(random_copy(lines=3, rows=60, src_pitch=60, dst_pitch=60, src_row=0, dst_row=600))
    bench.send(random_copy())
    while len(bench.cycles["read"]) < 70:
        await RisingEdge(dut.clk)
    bench.reads.stall(1)
    await ClockCycles(dut.clk, 5)
    dut.engine__stop.value = 1
    await ClockCycles(dut.clk, 5)
    assert dut.read__request__valid.value
    read = len(bench.cycles["read"])
    bench.reads.stall(0)
    await ClockCycles(dut.clk, 50)
    assert len(bench.cycles["read"]) == len(bench.cycles["write"]) == read + 1
    assert sum(what in ("take", "give") for what, _ in bench.events) == 1


@pytest.mark.parametrize("array_size", [4, 16])
def test_copy_engine(array_size):
    simulate(
        CopyEngine(Config(array_size=array_size, ub_rows=1024)),
        __file__,
        name=f"copy_engine_{array_size}",
        extra_env={"ARRAY_SIZE": str(array_size)},
    )
