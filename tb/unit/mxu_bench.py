"""The matrix unit with a unified buffer in Python, which refuses at random."""

import random
from collections import deque

import cocotb
from amaranth.lib import data
from cocotb.triggers import FallingEdge, RisingEdge
from command_index import index_of, position_of
from conv_model import ConvModel
from lane_user import use_lanes

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.registers import EngineState
from tpulite.arch.streams import conv_stream
from tpulite.arch.timing import row_read
from tpulite_rtl.lib.interfaces import FAULT, ROW_BITS, write_layout
from tpulite_rtl.lib.layout import command_layout
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

__all__ = ["CONFIGS", "ROWS", "MatrixBench", "config_of", "share_of"]

ROWS = 1 << ROW_BITS
CONFIGS = {
    "4": Config(array_size=4, ub_rows=ROWS, acc_rows=64),
    "8_lanes2": Config(
        array_size=8, ub_rows=ROWS, acc_rows=64, requant_lanes=2, ram_registers=True
    ),
    "16": Config(array_size=16, ub_rows=ROWS, acc_rows=64),
    "4_int16": Config(array_size=4, ub_rows=ROWS, acc_rows=64, int16=True),
    "16_int16": Config(array_size=16, ub_rows=ROWS, acc_rows=64, int16=True),
    "4_transposed": Config(array_size=4, ub_rows=ROWS, acc_rows=64, transposed_tiles=True),
    "8_int4": Config(array_size=8, ub_rows=ROWS, acc_rows=64, transposed_tiles=True, int4=True),
}

_BANKS = 4  # as many as the smallest buffer has


def config_of(dut) -> Config:
    """Return which of the configurations was built."""
    found = len(dut.read_activation__response__payload), len(dut.engine__command__payload)
    return next(
        config
        for config in CONFIGS.values()
        if found == (8 * config.array_size, command_layout(Opcode.CONV, config).size)
    )


def share_of(layout: data.StructLayout, command: Command) -> dict[str, int]:
    """Return the fields of a CONV that a machine's queue has."""
    fields = {"opcode": int(Opcode.CONV), **command.fields}
    return {name: value for name, value in fields.items() if name in layout.members}


class _Buffer:
    """The unified buffer, with refusals at random; never of the drain or of a steady read."""

    def __init__(self, dut, model: ConvModel, refuse: float) -> None:
        self.dut, self.model, self.refuse = dut, model, refuse
        self.layout = write_layout(model.config)
        self.answers = {name: deque() for name in ("activation", "weight", "record")}
        self.written: list[tuple[int, bytes]] = []
        for name in self.answers:
            self._port(name, "request", "ready").value = 0
            self._port(name, "response", "valid").value = 0
        dut.write__request__ready.value = 1

    def _port(self, name: str, side: str, part: str):
        return getattr(self.dut, f"read_{name}__{side}__{part}")

    async def run(self) -> None:
        edge, middle = RisingEdge(self.dut.clk), FallingEdge(self.dut.clk)
        cycle = 0
        while True:
            for name, answers in self.answers.items():
                due = bool(answers) and answers[0][0] == cycle
                self._port(name, "response", "valid").value = due
                self._port(name, "response", "payload").value = (
                    answers.popleft()[1]
                    if due
                    else random.getrandbits(8 * self.model.config.row_bytes)
                )
            await middle
            for index, name in enumerate(self.answers):
                steady = int(self.dut.steady.value) >> index
                ready = bool(steady & 1) or random.random() >= self.refuse
                self._port(name, "request", "ready").value = ready
            await edge
            self._check_banks()
            for name, answers in self.answers.items():
                request = self._port(name, "request", "payload")
                if not self._port(name, "request", "valid").value:
                    continue
                if self._port(name, "request", "ready").value:
                    data = self.model.buffer[int(request.value)].tobytes()
                    due = cycle + row_read(self.model.config)
                    answers.append((due, int.from_bytes(data, "little")))
                elif name == "activation":
                    assert self.dut.engine__state.value == EngineState.BUFFER
            if self.dut.write__request__valid.value:
                payload = unpack(self.layout, int(self.dut.write__request__payload.value))
                data = payload["data"].to_bytes(self.model.config.row_bytes, "little")
                self.written.append((payload["row"], data))
            cycle += 1

    def _check_banks(self) -> None:
        """Check that two reads that must not be refused ask for two banks."""
        ports = [
            [self._port(name, "request", part).value for part in ("valid", "payload")]
            for name in ("activation", "weight")
        ]
        if int(self.dut.steady.value) == 3 and all(valid for valid, _ in ports):
            even, odd = (int(row) % _BANKS for _, row in ports)
            assert even != odd


class MatrixBench:
    """The matrix unit with a buffer, and what it said of tokens."""

    def __init__(self, dut, model: ConvModel, *, refuse: float, late: float) -> None:
        self.dut = dut
        self.buffer = _Buffer(dut, model, refuse)
        self.taken: list[int] = []
        self.given: list[int] = []
        dut.engine__stop.value = 0
        dut.vector__valid.value = 0
        StreamSink(dut, "engine__take", stall=late)
        StreamMonitor(dut, "engine__take", callback=self.taken.append)
        self.taker = StreamSink(dut, "engine__give", stall=late)
        StreamMonitor(dut, "engine__give", callback=self.given.append)
        self.driver = StreamDriver(dut, "engine__command", idle=late)

    async def start(self, commands: list[Command]) -> None:
        """Reset the unit, and offer commands to it and its lanes to somebody else."""
        await reset(self.dut)
        cocotb.start_soon(self.buffer.run())
        cocotb.start_soon(use_lanes(self.dut, self.buffer.model.config))
        layout = command_layout(Opcode.CONV, self.buffer.model.config)
        self.driver.extend(
            pack(layout, share_of(layout, command) | {"index": index_of(position)})
            for position, command in enumerate(commands)
        )

    async def execute(self, commands: list[Command]) -> list[int]:
        """Run commands to the end; return in which cycle each gave its tokens."""
        await self.start(commands)
        edge = RisingEdge(self.dut.clk)
        cycle, entered, times = 0, 0, []
        while len(self.given) < len(commands):
            await edge
            cycle += 1
            entered += int(self.dut.entered.value)
            assert not self.fault["valid"]
            self._check_index(len(times), commands)
            if self.dut.engine__give__valid.value and self.dut.engine__give__ready.value:
                times.append(cycle)
        while self.dut.engine__idle.value == 0:  # a depthwise stream may outlast its sums
            await edge
            entered += int(self.dut.entered.value)
        config = self.buffer.model.config
        assert entered == sum(
            conv_stream(command.fields, config).tiles * command["rows"] * command["columns"]
            for command in commands
        )
        assert self.taken == [command["wait"] for command in commands]
        assert self.given == [command["signal"] for command in commands]
        return times

    @property
    def fault(self) -> dict[str, int]:
        """What the unit says of a fault."""
        return unpack(FAULT, int(self.dut.engine__fault.value))

    def _check_index(self, given: int, commands: list[Command]) -> None:
        """Check that a command inside is named; the oldest one while nobody takes its tokens."""
        dut = self.dut
        if dut.engine__state.value == EngineState.IDLE:
            return
        position = position_of(int(dut.engine__index.value))
        if dut.engine__give__valid.value and not dut.engine__give__ready.value:
            assert position == given
        outlasts = given and commands[given - 1]["depthwise"]  # the stream its sums
        assert given - bool(outlasts) <= position < len(commands), f"{position} after {given}"
