"""What surrounds the burst splitter in its bench, and commands that reach far."""

import os
import random

import cocotb
from cocotb.triggers import RisingEdge
from command_index import position_of
from dma_model import (
    CONFIGS,
    FaultSeen,
    line_bytes,
    lines_of,
    make_windows,
    pack_windows,
    trace,
)

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES, WindowBinding
from tpulite.arch.registers import Fault
from tpulite_rtl.dma.burst_splitter import STARTED, descriptor_layout, rows_layout
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_tb.harness import reset
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

__all__ = ["SplitterBench", "start", "wide_command", "wide_windows"]


class SplitterBench:
    """Retires bursts at random and records what comes out."""

    def __init__(self, dut, *, stall: float, retire: float = 0.3) -> None:
        self.dut, self.retire = dut, retire
        self.config = CONFIGS[os.environ["MACHINE"]]
        self.opcode = Opcode[os.environ["OPCODE"]]
        self.windows = make_windows()
        self.now = self.outstanding = 0
        self.started: list[tuple[int, dict[str, int]]] = []
        self.descriptors: list[tuple[int, dict[str, int]]] = []
        self.addresses: list[tuple[int, int]] = []
        self.taken: list[int] = []
        self.shown: FaultSeen | None = None  # in any cycle
        self.rows: dict[str, int] | None = None  # of the burst that was issued a cycle ago
        self.commands = StreamDriver(dut, "command", idle=stall)
        StreamSink(dut, "take", stall=stall)
        self.address = StreamSink(dut, "address", stall=stall)
        StreamMonitor(dut, "address", callback=self._address)
        dut.stop.value = 0
        dut.retire.value = 0
        dut.windows.value = pack_windows(self.windows)

    def _address(self, payload: int) -> None:
        self.addresses.append((payload % (1 << ADDRESS_BITS), (payload >> ADDRESS_BITS) + 1))

    async def start(self) -> None:
        """Take the splitter out of reset and watch it for ever."""
        await reset(self.dut)
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.now += 1
            self.outstanding += bool(dut.descriptor__valid.value)
            assert int(dut.outstanding.value) == self.outstanding <= self.config.dma_bursts
            started = bool(dut.started__valid.value)
            assert started == bool(dut.take__valid.value and dut.take__ready.value)
            assert dut.take__valid.value == (dut.waiting.value and not dut.stop.value)
            if started:
                self.taken.append(int(dut.take__payload.value))
                position = position_of(int(dut.index.value))
                assert position == len(self.started), "the command that waits has another index"
                self.started.append((self.now, _unpack(STARTED, int(dut.started__payload.value))))
            self.outstanding -= bool(dut.retire.value)
            if dut.descriptor__valid.value:
                layout = descriptor_layout(self.config)
                descriptor = _unpack(layout, int(dut.descriptor__payload.value))
                self.descriptors.append((self.now, descriptor))
                moved = {k.removeprefix("rows."): v for k, v in descriptor.items() if "rows" in k}
                assert moved == self.rows
                assert dut.address__valid.value
            else:
                assert self.rows is None
            issued = bool(dut.rows__valid.value)
            rows = _unpack(rows_layout(self.config), int(dut.rows__payload.value))
            self.rows = rows if issued else None
            dut.retire.value = self.outstanding > 0 and random.random() < self.retire
            fault = self.fault()
            assert self.shown in (None, fault) or dut.stop.value, "a fault stays until reset"
            self.shown = self.shown or fault

    def fault(self) -> FaultSeen | None:
        """Return the fault that is shown."""
        word = int(self.dut.fault.value)
        if not word & 1 << FAULT["valid"].offset:
            return None
        fault = _unpack(FAULT, word)
        return FaultSeen(Fault(fault["code"]), position_of(fault["index"]), fault["address"])

    async def settled(self) -> None:
        """Wait until nothing has moved for some time."""
        await self.commands.drained()
        last = None
        while last != (last := (len(self.addresses), self.outstanding)) or self.outstanding:
            for _ in range(40):
                await RisingEdge(self.dut.clk)

    def check(self, commands: list[Command]) -> None:
        """Compare all that was seen with what the commands say, up to a fault."""
        bursts, fault = trace(self.config, self.windows, commands)
        assert self.fault() == self.shown == fault
        assert self.taken == [command["wait"] for command in commands[: len(self.taken)]]
        assert len(self.taken) == len(self.started)
        assert self.addresses == [(burst.address, burst.beats) for burst in bursts]
        seen = [
            (
                descriptor["origin.address"],
                descriptor["rows.len"] + 1,
                position_of(descriptor["origin.index"]),
            )
            for _, descriptor in self.descriptors
        ]
        assert seen == [(burst.address, burst.beats, burst.index) for burst in bursts]
        assert [entry["signal"] for _, entry in self.started] == [
            command["signal"] for command in commands[: len(self.started)]
        ]
        if fault is None:
            assert len(self.started) == len(commands)
            self._check_rows(commands)

    def _check_rows(self, commands: list[Command]) -> None:
        """Check that the bursts carry the rows of every line."""
        descriptors = (descriptor for _, descriptor in self.descriptors)
        per_beat = max(BEAT_BYTES // self.config.row_bytes, 1)
        for command in commands:
            for number, line in enumerate(lines_of(command), start=1):
                beats = line_bytes(self.config, line.rows) // BEAT_BYTES
                first = True
                while beats:
                    burst = next(descriptors)
                    beats -= burst["rows.len"] + 1
                    assert burst["rows.row"] == line.first_row
                    assert burst["rows.first"] == first
                    assert burst["rows.flip"] == command["flip"]
                    tail = per_beat if beats else (line.rows - 1) % per_beat + 1
                    assert burst["rows.tail"] == tail - 1
                    assert burst["origin.last"] == (not beats and number == command["lines"])
                    first = False


def _unpack(layout, word: int, prefix: str = "") -> dict[str, int]:
    values = {}
    for name, field in layout:
        value = word >> field.offset & (1 << field.width) - 1
        if hasattr(field.shape, "members"):
            values |= _unpack(field.shape, value, f"{prefix}{name}.")
        else:
            values[prefix + name] = value
    return values


async def start(dut, **options) -> SplitterBench:
    """Return a bench whose splitter runs."""
    bench = SplitterBench(dut, **options)
    await bench.start()
    return bench


def wide_windows() -> tuple[WindowBinding, ...]:
    """Return windows of any size, anywhere; most end with a page, or a few beats before."""
    windows = []
    for _ in range(4):
        size = random.getrandbits(random.randint(13, 32)) // BEAT_BYTES * BEAT_BYTES
        base = random.randrange((1 << ADDRESS_BITS) - size) // BEAT_BYTES * BEAT_BYTES
        if random.getrandbits(2):
            size -= (base + size) % PAGE_BYTES + random.randrange(8) * BEAT_BYTES
        windows.append(WindowBinding(base=base, size=max(size, 0), read=True, write=True))
    return tuple(windows)


def wide_command(bench: SplitterBench, *, legal: bool) -> Command:
    """Return a command anywhere in the windows; if it is not to be legal, it may leave them.

    Then its last line often begins in its window and has several bursts.
    """
    window, ub_rows = random.randrange(4), bench.config.ub_rows
    pages = 4 * PAGE_BYTES // bench.config.row_bytes
    rows = random.randint(1, random.choice([20, 300] if legal else [20, pages, pages]))
    lines = random.randint(1, 9 if legal else 3)
    pitch = random.choice([0, rows, random.randrange(ub_rows // 9)])
    if not legal and random.random() < 0.2:
        lines, pitch = 4095, random.randrange(200, 4096)
    size = line_bytes(bench.config, rows)
    last = bench.windows[window].size - size  # where the last line begins
    if not legal:
        excess = random.randrange(random.choice([8 * BEAT_BYTES, size])) // BEAT_BYTES * BEAT_BYTES
        last += random.choice([0, excess, excess, excess, 1 << random.randrange(4, 31)])
    last, steps = max(last, 0), min(lines, 9) - 1
    stride = random.randrange(last // max(steps, 1) + 1) // BEAT_BYTES * BEAT_BYTES
    offset = last - steps * stride
    if legal:
        offset = random.choice([offset, random.randrange(offset + 1)])
    command = Command.make(
        bench.opcode,
        wait=random.randrange(16),
        signal=random.randrange(16),
        flip=random.getrandbits(1),
        window=window,
        offset=min(offset // BEAT_BYTES * BEAT_BYTES, (1 << 32) - BEAT_BYTES),
        stride=stride,
        lines=lines,
        rows=rows,
        row=random.randrange(max(ub_rows - rows - steps * pitch, 0) + 1),
        pitch=pitch,
    )
    if legal and trace(bench.config, bench.windows, [command])[1]:
        return wide_command(bench, legal=legal)
    return command
