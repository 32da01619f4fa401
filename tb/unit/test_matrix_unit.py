"""The matrix unit as a whole against loops in numpy."""

import random
from collections import deque
from itertools import pairwise

import cocotb
import numpy as np
import pytest
from cocotb.triggers import FallingEdge, RisingEdge
from conv_draw import KINDS, draw_conv
from conv_model import ConvModel

from tpulite.arch.config import Config
from tpulite.arch.isa import RECORD, Axis, Command, Drain, Opcode, disassemble
from tpulite.arch.numerics import Rounding
from tpulite_rtl.lib.interfaces import READ_LATENCY, write_layout
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.mxu.matrix_unit import MatrixUnit
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

ROWS = 2048
IMAGES = range(300)
RECORDS = range(300, 600)  # valid records, and whatever weights they make
TILES = range(600, 1024)  # weights of depthwise commands
OUTPUTS = range(1024, ROWS)
LAYOUT = command_layout(Opcode.CONV)

CONFIGS = {
    "4": Config(array_size=4, ub_rows=ROWS, acc_rows=64),
    "8_lanes2": Config(array_size=8, ub_rows=ROWS, acc_rows=64, requant_lanes=2),
    "16": Config(array_size=16, ub_rows=ROWS, acc_rows=64),
}


def _config(dut) -> Config:
    n = len(dut.read_activation__response__payload) // 8
    return next(config for config in CONFIGS.values() if config.array_size == n)


def _fill(model: ConvModel) -> None:
    """Random operands, and valid records whose results are mostly not saturated."""
    config = model.config
    rng = np.random.default_rng(random.getrandbits(64))
    model.buffer[:] = rng.integers(0, 256, model.buffer.shape, np.uint8)
    records = b"".join(
        RECORD.pack(
            bias=random.randrange(-20000, 20000),
            multiplier=random.randrange(1 << 30, 1 << 31)
            if rounding != Rounding.FLOAT32
            else random.randrange(1 << 23, 1 << 24),
            shift=random.randint(-10, -4) - (23 if rounding == Rounding.FLOAT32 else 0),
            rounding=rounding,
            zero_point=random.randrange(-20, 20),
            low=-128,
            high=random.choice([127, 50]),
            gain=random.randrange(-(1 << 15), 1 << 15),
        ).to_bytes(16, "little")
        for _ in range(len(RECORDS) * config.row_bytes // 16)
        for rounding in [random.choice(list(Rounding))]
    )
    flat = np.frombuffer(records, np.uint8).reshape(-1, config.row_bytes)
    model.buffer[RECORDS.start : RECORDS.start + len(flat)] = flat


class _Tiles:
    """Weight tiles of depthwise commands: the weight zero point where no tap belongs."""

    def __init__(self, model: ConvModel) -> None:
        self.model, self.row = model, TILES.start

    def lay(self, command: Command) -> Command:
        """Return the command with a tile of its own."""
        n = self.model.config.array_size
        row, self.row = self.row, self.row + n
        assert self.row <= TILES.stop
        rows = {"rows": "stride_y", "columns": "stride_x"}
        inner, kernel_i, kernel_o = ("columns", "kernel_columns", "kernel_rows")
        if command["inner"] == Axis.Y:
            inner, kernel_i, kernel_o = ("rows", "kernel_rows", "kernel_columns")
        length = (command[inner] - 1) * command[rows[inner]] + command[kernel_i]
        places = {
            length * ko + ki for ko in range(command[kernel_o]) for ki in range(command[kernel_i])
        }
        for place in set(range(n)) - places:
            self.model.buffer[row + place] = command["weight_zero_point"] & 0xFF
        return command.replace(weight_row=row)


def _draw(config: Config, tiles: _Tiles, kind: str, **fields: int) -> Command:
    command = draw_conv(
        config, kind, inputs=IMAGES, operands=RECORDS[:130], outputs=OUTPUTS, **fields
    )
    return tiles.lay(command) if command["depthwise"] else command


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
            for name in self.answers:
                steady = name == "activation" and self.dut.steady.value
                ready = bool(steady) or random.random() >= self.refuse
                self._port(name, "request", "ready").value = ready
            await edge
            for name, answers in self.answers.items():
                request = self._port(name, "request", "payload")
                if (
                    self._port(name, "request", "valid").value
                    and self._port(name, "request", "ready").value
                ):
                    data = self.model.buffer[int(request.value)].tobytes()
                    answers.append((cycle + READ_LATENCY, int.from_bytes(data, "little")))
            if self.dut.write__request__valid.value:
                payload = unpack(self.layout, int(self.dut.write__request__payload.value))
                data = payload["data"].to_bytes(self.model.config.row_bytes, "little")
                self.written.append((payload["row"], data))
            cycle += 1


class _Bench:
    """The matrix unit with a buffer, and what it said of tokens."""

    def __init__(self, dut, model: ConvModel, *, refuse: float, late: float) -> None:
        self.dut = dut
        self.buffer = _Buffer(dut, model, refuse)
        self.taken: list[int] = []
        self.given: list[int] = []
        dut.engine__stop.value = 0
        StreamSink(dut, "engine__take", stall=late)
        StreamMonitor(dut, "engine__take", callback=self.taken.append)
        StreamSink(dut, "engine__give", stall=late)
        StreamMonitor(dut, "engine__give", callback=self.given.append)
        self.driver = StreamDriver(dut, "engine__command", idle=late)

    async def execute(self, commands: list[Command]) -> list[int]:
        """Run commands to the end; return in which cycle each gave its tokens."""
        await reset(self.dut)
        cocotb.start_soon(self.buffer.run())
        self.driver.extend(
            pack(LAYOUT, {"opcode": Opcode.CONV, **command.fields, "index": index})
            for index, command in enumerate(commands)
        )
        edge = RisingEdge(self.dut.clk)
        cycle, times = 0, []
        while len(self.given) < len(commands):
            await edge
            cycle += 1
            times += [cycle] * (len(self.given) - len(times))
            assert int(self.dut.engine__fault.value) & 1 == 0
        while self.dut.engine__idle.value == 0:  # a depthwise stream may outlast its sums
            await edge
        assert self.taken == [command["wait"] for command in commands]
        assert self.given == [command["signal"] for command in commands]
        return times


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.3], late=[0.0, 0.5])
async def convolves_like_plain_loops(dut, refuse: float, late: float) -> None:
    """Random CONVs of every kind: all rows written, in order, and all tokens given."""
    config = _config(dut)
    model = ConvModel(config)
    _fill(model)
    tiles = _Tiles(model)
    bench = _Bench(dut, model, refuse=refuse, late=late)

    # Rows are kept before others accumulate on them, as nothing clears accumulators.
    rows = 4
    commands = [
        _draw(config, tiles, "product", columns=rows, acc_row=row, accumulate=0, drain=Drain.KEEP)
        for row in range(0, config.acc_rows, rows)
    ]
    kept = np.ones(config.acc_rows, bool)
    for _ in range(60):
        command = _draw(config, tiles, random.choice(KINDS))
        touched = slice(
            command["acc_row"], command["acc_row"] + command["rows"] * command["columns"]
        )
        if not kept[touched].all():
            command = command.replace(accumulate=0)
        kept[touched] = command["drain"] == Drain.KEEP  # a drain leaves its rows undefined
        commands.append(command)
    await bench.execute(commands)

    written = iter(bench.buffer.written)
    for index, command in enumerate(commands):
        for due in model.execute(command):
            assert next(written, None) == due, f"{index}: {disassemble(command)}"
    assert next(written, None) is None


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def leaves_no_gap_between_tiles_of_windows(dut) -> None:
    """A 3 x 3 convolution over 8 x 8, N outputs a command: nine tiles of N cycles each, no more."""
    config = _config(dut)
    n = config.array_size
    model = ConvModel(config)
    _fill(model)
    columns = min(8, n)
    window = {
        "rows": n // columns, "columns": columns, "height": 8, "width": 8, "act_pitch": 9,
        "blocks": 1, "kernel_rows": 3, "kernel_columns": 3, "inner": Axis.X,
        "stride_y": 1, "stride_x": 1, "dilation_y": 1, "dilation_x": 1, "pad_left": 1,
        "prefetch": 0, "drain": Drain.REQUANTIZE if config.lanes == n else Drain.KEEP,
        "record_form": 0, "acc_row": 0, "accumulate": 0, "out_step": 1, "out_pitch": columns,
    }  # fmt: skip
    commands = [
        _draw(config, _Tiles(model), "window", **window, pad_top=row % 2) for row in range(8)
    ]
    times = await _Bench(dut, model, refuse=0, late=0).execute(commands)
    assert [b - a for a, b in pairwise(times)] == [9 * n] * 7


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def leaves_no_gap_between_depthwise_streams(dut) -> None:
    """3 x 3 with stride 1: groups of R = 6 rows, O columns long, take R (O + 2) cycles each."""
    config = _config(dut)
    model = ConvModel(config)
    _fill(model)
    outputs = 14
    group = {
        "rows": 4, "columns": outputs, "height": 8, "width": 16, "act_pitch": 17, "inner": Axis.Y,
        "kernel_rows": 3, "kernel_columns": 3, "stride_y": 1, "stride_x": 1, "dilation_y": 1,
        "dilation_x": 1, "pad_top": 1, "pad_left": 1, "accumulate": 0, "acc_row": 0,
        "drain": Drain.REQUANTIZE if config.lanes == config.array_size else Drain.KEEP,
    }  # fmt: skip
    tiles = _Tiles(model)
    commands = [_draw(config, tiles, "depthwise", **group) for _ in range(5)]
    bench = _Bench(dut, model, refuse=0, late=0)
    times = await bench.execute(commands)
    assert [b - a for a, b in pairwise(times)] == [6 * (outputs + 2)] * 4


@pytest.mark.parametrize("config", CONFIGS)
def test_matrix_unit(config: str) -> None:
    simulate(MatrixUnit(CONFIGS[config]), __file__, name=f"matrix_unit_{config}")
