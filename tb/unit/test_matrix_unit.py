"""The matrix unit as a whole against the golden machine's data path."""

import random
from collections import deque

import cocotb
import numpy as np
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import RECORD, Command, Drain, Opcode, RecordForm, disassemble
from tpulite.arch.numerics import Rounding
from tpulite.golden.datapath import Datapath
from tpulite.golden.footprint import footprint
from tpulite_rtl.lib.interfaces import READ_LATENCY, write_layout
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.mxu.matrix_unit import MatrixUnit
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

ROWS = 1024
INPUTS = 512  # rows below are read, rows above are written
RECORDS = 256  # records lie in the rows from here up to INPUTS

CONFIGS = {
    "4": Config(array_size=4, ub_rows=ROWS, acc_rows=64),
    "8_lanes2": Config(array_size=8, ub_rows=ROWS, acc_rows=64, requant_lanes=2),
    "16": Config(array_size=16, ub_rows=ROWS, acc_rows=64),
}


def _config(dut) -> Config:
    n = len(dut.read_activation__response__payload) // 8
    return next(config for config in CONFIGS.values() if config.array_size == n)


def _fill(datapath: Datapath) -> None:
    """Random operands, and valid records whose results are mostly not saturated."""
    config = datapath.config
    rng = np.random.default_rng(random.getrandbits(64))
    datapath.buffer[:INPUTS] = rng.integers(0, 256, (INPUTS, config.row_bytes), np.uint8)
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
        ).to_bytes(16, "little")
        for _ in range((INPUTS - RECORDS) * config.row_bytes // 16)
        for rounding in [random.choice(list(Rounding))]
    )
    flat = np.frombuffer(records, np.uint8).reshape(-1, config.row_bytes)
    datapath.buffer[RECORDS : RECORDS + len(flat)] = flat


def _draw(config: Config) -> Command:
    n = config.array_size
    m = random.choice([1, 2, n, n + 1, 20])
    k_tiles = random.randint(1, 4)
    return Command.make(
        Opcode.MATMUL,
        wait=random.randrange(16),
        signal=random.randrange(16),
        prefetch=random.randrange(2),
        m=m,
        k_tiles=k_tiles,
        act_row=random.randrange(RECORDS - m),
        act_pitch=random.randrange(80),
        weight_row=random.randrange(INPUTS - k_tiles * n),
        weight_zero_point=random.randrange(-128, 128),
        acc_row=random.randrange(config.acc_rows - m),
        accumulate=random.randrange(2),
        drain=random.choice(list(Drain)),
        record_form=random.choice(list(RecordForm)),
        # Whole records, and biases that are records' bytes in the short form: any int32 will do.
        record_row=RECORDS + random.randrange(8) * max(1, 16 // n) * 4,
        out_row=INPUTS + random.randrange(INPUTS - 80),
    )


class _Buffer:
    """The unified buffer, with refusals at random; the drain is never refused."""

    def __init__(self, dut, datapath: Datapath, refuse: float) -> None:
        self.dut, self.datapath, self.refuse = dut, datapath, refuse
        self.layout = write_layout(datapath.config)
        self.answers = {name: deque() for name in ("activation", "weight", "record")}
        self.written: list[tuple[int, bytes]] = []
        for name in self.answers:
            self._port(name, "request", "ready").value = 0
            self._port(name, "response", "valid").value = 0

    def _port(self, name: str, side: str, part: str):
        return getattr(self.dut, f"read_{name}__{side}__{part}")

    async def run(self) -> None:
        edge = RisingEdge(self.dut.clk)
        cycle = 0
        self.dut.write__request__ready.value = 1
        while True:
            for name, answers in self.answers.items():
                self._port(name, "request", "ready").value = random.random() >= self.refuse
                due = bool(answers) and answers[0][0] == cycle
                self._port(name, "response", "valid").value = due
                self._port(name, "response", "payload").value = (
                    answers.popleft()[1]
                    if due
                    else random.getrandbits(8 * self.datapath.config.row_bytes)
                )
            await edge
            for name, answers in self.answers.items():
                request = self._port(name, "request", "payload")
                if (
                    self._port(name, "request", "valid").value
                    and self._port(name, "request", "ready").value
                ):
                    data = self.datapath.buffer[int(request.value)].tobytes()
                    answers.append((cycle + READ_LATENCY, int.from_bytes(data, "little")))
            if self.dut.write__request__valid.value:
                payload = unpack(self.layout, int(self.dut.write__request__payload.value))
                data = payload["data"].to_bytes(self.datapath.config.row_bytes, "little")
                self.written.append((payload["row"], data))
            cycle += 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.3], late=[0.0, 0.5])
async def multiplies_like_the_golden_machine(dut, refuse: float, late: float) -> None:
    """Random MATMULs of every kind: all rows written, in order, and all tokens given."""
    config = _config(dut)
    datapath = Datapath(config)
    _fill(datapath)
    buffer = _Buffer(dut, datapath, refuse)
    dut.engine__stop.value = 0
    taken: list[int] = []
    given: list[int] = []
    StreamSink(dut, "engine__take", stall=late)
    StreamMonitor(dut, "engine__take", callback=taken.append)
    StreamSink(dut, "engine__give", stall=late)
    StreamMonitor(dut, "engine__give", callback=given.append)
    driver = StreamDriver(dut, "engine__command", idle=late)
    await reset(dut)
    cocotb.start_soon(buffer.run())

    # Rows are kept before others accumulate on them, as nothing clears accumulators.
    commands = [
        _draw(config).replace(m=16, acc_row=row, accumulate=0, drain=Drain.KEEP)
        for row in range(0, config.acc_rows, 16)
    ]
    kept = np.ones(config.acc_rows, bool)
    for _ in range(40):
        command = _draw(config)
        rows = slice(command["acc_row"], command["acc_row"] + command["m"])
        if not kept[rows].all():
            command = command.replace(accumulate=0)
        kept[rows] = command["drain"] == Drain.KEEP  # a drain leaves its rows undefined
        commands.append(command)
    layout = command_layout(Opcode.MATMUL)
    driver.extend(
        pack(layout, {"opcode": Opcode.MATMUL, **command.fields, "index": index})
        for index, command in enumerate(commands)
    )
    golden = Datapath(config)
    golden.buffer[:] = datapath.buffer
    expected = []
    origin: list[Command] = []
    for command in commands:
        golden.matmul(command, footprint(command, config, ()))
        if command["drain"] != Drain.KEEP:
            rows = command["m"] * (4 if command["drain"] == Drain.RAW else 1)
            origin += [command] * rows
            expected += [
                (row, golden.buffer[row].tobytes())
                for row in range(command["out_row"], command["out_row"] + rows)
            ]

    edge = RisingEdge(dut.clk)
    while len(given) < len(commands):
        await edge
        assert int(dut.engine__fault.value) & 1 == 0
    await edge
    assert dut.engine__idle.value == 1
    assert taken == [command["wait"] for command in commands]
    assert given == [command["signal"] for command in commands]
    assert len(buffer.written) == len(expected)
    for got, due, command in zip(buffer.written, expected, origin, strict=True):
        assert got == due, disassemble(command)


@pytest.mark.parametrize("config", CONFIGS)
def test_matrix_unit(config: str) -> None:
    simulate(MatrixUnit(CONFIGS[config]), __file__, name=f"matrix_unit_{config}")
