"""The matrix unit as a whole against loops in numpy."""

import random
from itertools import pairwise

import cocotb
import numpy as np
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from command_index import position_of
from conv_draw import any_image, draw_conv, draw_kinds
from conv_model import ConvModel, tap_places
from mxu_bench import CONFIGS, ROWS, MatrixBench, config_of
from scale_draw import draw_scaled

from tpulite.arch.config import Config
from tpulite.arch.isa import (
    RECORD,
    Axis,
    Command,
    Drain,
    Opcode,
    RecordForm,
    dense,
    disassemble,
)
from tpulite.arch.numerics import Rounding, wrap32
from tpulite.arch.registers import Fault
from tpulite.golden.effects.access import FaultSite
from tpulite.golden.effects.footprint import footprint
from tpulite_rtl.mxu.matrix_unit import MatrixUnit
from tpulite_tb.effort import repeats
from tpulite_tb.harness import simulate
from tpulite_testing.regress import thinned

IMAGES = range(300)
RECORDS = range(300, 536)  # valid records, and whatever weights they make
TILES = range(536, 1024)  # weights of depthwise commands
OUTPUTS = range(1024, ROWS)


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
        places = set(tap_places(command, n).values())
        for place in set(range(n)) - places:
            self.model.buffer[row + place] = command["weight_zero_point"] & 0xFF
        return command.replace(weight_row=row)


def _draw(config: Config, tiles: _Tiles, kind: str, **fields: int) -> Command:
    command = draw_conv(
        config, kind, inputs=IMAGES, operands=RECORDS[:130], outputs=OUTPUTS, **fields
    )
    return tiles.lay(command) if command["depthwise"] else command


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.3], late=[0.0, 0.5])
async def convolves_like_plain_loops(dut, refuse: float, late: float) -> None:
    """Random CONVs of every kind: all rows written, in order, and all tokens given."""
    config = config_of(dut)
    model = ConvModel(config)
    _fill(model)
    tiles = _Tiles(model)
    bench = MatrixBench(dut, model, refuse=refuse, late=late)

    # Rows are kept before others accumulate on them, as nothing clears accumulators.
    rows = 4
    commands = [
        _draw(config, tiles, "product", columns=rows, acc_row=row, accumulate=0, drain=Drain.KEEP)
        for row in range(0, config.acc_rows, rows)
    ]
    kept = np.ones(config.acc_rows, bool)
    # As many of each kind: the depthwise ones need a tile each, for which there is so much room.
    drawn = [_draw(config, tiles, kind) for kind in draw_kinds(config, repeats(60))]
    drawn[::2] = [any_image(command, len(IMAGES)) for command in drawn[::2]]
    drawn.append(_draw(config, tiles, "product", columns=config.acc_rows, drain=Drain.RAW))
    for command in drawn:
        touched = slice(
            command["acc_row"], command["acc_row"] + command["rows"] * command["columns"]
        )
        if not kept[touched].all():
            command = command.replace(accumulate=0)
        kept[touched] = False  # a drain leaves its rows undefined
        if command["drain"] == Drain.KEEP:  # and pairs of int16 every other row
            kept[touched][:: 1 + command["int16"]] = True
        commands.append(command)
    running = cocotb.start_soon(bench.execute(commands))
    edge, written, number = RisingEdge(dut.clk), bench.buffer.written, 0
    for index, command in enumerate(commands):
        for due in model.execute(command):
            while len(written) == number and not running.done():
                await edge
            assert written[number:][:1] == [due], f"{index}: {disassemble(command)}"
            number += 1
    await running
    assert len(written) == number


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def leaves_no_gap_between_tiles_of_windows(dut) -> None:
    """A 3 x 3 convolution over 8 x 8, N outputs a command: nine tiles of N cycles each, no more."""
    config = config_of(dut)
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
    times = await MatrixBench(dut, model, refuse=0, late=0).execute(commands)
    assert [b - a for a, b in pairwise(times)] == [9 * n] * 7


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def leaves_no_gap_beside_transposed_tiles(dut) -> None:
    """A k-tile takes N cycles more than its vectors, however few these are."""
    config = config_of(dut)
    if not config.has_transposed_tiles:
        return
    n, m = config.array_size, 3
    model = ConvModel(config)
    _fill(model)
    draw = {"columns": m, "blocks": 4, "drain": Drain.KEEP, "accumulate": 0}
    tiles = _Tiles(model)
    commands = [_draw(config, tiles, "transposed_product", **draw) for _ in range(6)]
    times = await MatrixBench(dut, model, refuse=0, late=0).execute(commands)
    assert [b - a for a, b in pairwise(times)] == [4 * (n + m)] * 5


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(m=[1, 3, 4])
async def leaves_no_gap_beside_tiles_of_int4(dut, m: int) -> None:
    """A k-tile takes a cycle for each of its rows, N / 2 or N, as these are fetched one a cycle."""
    config = config_of(dut)
    if not config.int4:
        return
    n, tiles = config.array_size, 4
    model = ConvModel(config)
    _fill(model)
    draw = {"columns": m, "blocks": tiles, "drain": Drain.KEEP, "accumulate": 0, "prefetch": 1}
    kinds = ["int4_product"] * 4 + ["product"] * 2 + ["int4_product"] * 4
    commands = [_draw(config, _Tiles(model), kind, **draw) for kind in kinds]
    times = await MatrixBench(dut, model, refuse=0, late=0).execute(commands)
    rows = [n // 2 if command["int4"] else n for command in commands]
    due = [max(before, mine) + (tiles - 1) * mine for before, mine in pairwise(rows)]
    assert [b - a for a, b in pairwise(times)] == due


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def leaves_no_gap_between_depthwise_streams(dut) -> None:
    """3 x 3 with stride 1: groups of R = 6 rows, O columns long, take R (O + 2) cycles each."""
    config = config_of(dut)
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
    bench = MatrixBench(dut, model, refuse=0, late=0)
    times = await bench.execute(commands)
    assert [b - a for a, b in pairwise(times)] == [6 * (outputs + 2)] * 4


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def requantizes_any_sum(dut) -> None:
    """Sums that are their biases alone, as all operands are zero: at ties and beside them."""
    config = config_of(dut)
    model = ConvModel(config)
    roundings = [Rounding[name.upper()] for name in config.roundings]
    rows = config.record_rows
    used = rows * repeats(1024 // rows)
    records = []
    for _ in range(used * config.row_bytes // 16):
        total, record = draw_scaled(random.choice(roundings))
        records.append(RECORD.pack(**record | {"bias": wrap32(total + record["bias"]), "gain": 0}))
    data = b"".join(record.to_bytes(16, "little") for record in records)
    model.buffer[ROWS - used :] = np.frombuffer(data, np.uint8).reshape(used, -1)
    commands = [
        Command.make(
            Opcode.CONV,
            **dense(
                m=1,
                k_tiles=1,
                drain=Drain.REQUANTIZE,
                record_row=row,
                weight_row=random.randrange(ROWS - config.array_size),
                out_row=random.randrange(ROWS),
            ),
        )
        for row in range(ROWS - used, ROWS, rows)
    ]
    bench = MatrixBench(dut, model, refuse=0, late=0)
    await bench.execute(commands)
    assert bench.buffer.written == [row for command in commands for row in model.execute(command)]


@cocotb.test(timeout_time=100, timeout_unit="us")
async def keeps_completions_that_nobody_takes(dut) -> None:
    """However many: what has no room for them does not start. All are given in the end."""
    config = config_of(dut)
    model = ConvModel(config)
    _fill(model)
    commands = [_draw(config, _Tiles(model), "product", columns=1) for _ in range(40)]
    bench = MatrixBench(dut, model, refuse=0, late=0)
    bench.taker.stall(1)
    running = cocotb.start_soon(bench.execute(commands))
    await ClockCycles(dut.clk, 500)
    bench.taker.stall(0)
    await running


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(kind=["weights", "image", "record"], prefetch=[0, 1], run=range(repeats(3)))
async def reports_a_fault(dut, kind: str, prefetch: int, run: int) -> None:
    """Code, command and row; nothing behind it is complete."""
    config = config_of(dut)
    model = ConvModel(config)
    _fill(model)
    draw = {"accumulate": 0, "drain": Drain.REQUANTIZE, "prefetch": prefetch}
    commands = [_draw(config, _Tiles(model), "product", **draw) for _ in range(12)]
    number = random.randrange(1, 12)
    if kind != "record":
        beyond = {"weight_row": ROWS - random.randint(1, config.array_size - 1)}
        if kind == "image":  # by far
            beyond = {"height": random.randrange(1024, 2048), "act_pitch": random.getrandbits(14)}
        bad = commands[number].replace(**beyond)
        site = footprint(bad, config, ()).fault
        assert site is not None
    else:
        bad = commands[number].replace(record_row=RECORDS.stop, record_form=RecordForm.FULL)
        channel = random.randrange(config.array_size)
        place = RECORD.offsets()["rounding"]
        good = model.buffer[RECORDS.start :].tobytes()[:16]
        foreign = (int.from_bytes(good, "little") | 7 << place).to_bytes(16, "little")
        block = good * channel + foreign + good * (config.array_size - 1 - channel)
        rows = np.frombuffer(block, np.uint8).reshape(-1, config.row_bytes)
        model.buffer[RECORDS.stop :][: len(rows)] = rows
        byte = 16 * channel + place // 8
        site = FaultSite(Fault.RECORD, RECORDS.stop + byte // config.row_bytes)
    commands[number] = bad
    bench = MatrixBench(dut, model, refuse=0.2, late=0.2)
    await bench.start(commands)
    while not bench.fault["valid"]:
        await RisingEdge(dut.clk)
    fault = bench.fault
    assert (fault["code"], position_of(fault["index"])) == (site.code, number)
    assert fault["address"] == site.address
    assert len(bench.given) <= number


@pytest.mark.parametrize(
    "config",
    thinned(
        CONFIGS,
        "4",
        "4_int16",
        "4_transposed",
        "8_int4",
        reason="larger arrays repeat columns, and take minutes on Icarus",
    ),
)
def test_matrix_unit(config: str) -> None:
    simulate(MatrixUnit(CONFIGS[config]), __file__, name=f"matrix_unit_{config}")
