"""The preparation against the arithmetic of the decision record."""

import os
import random
from itertools import islice

import cocotb
import pytest
from amaranth.lib.data import StructLayout
from cocotb.triggers import ClockCycles, RisingEdge
from conv_draw import draw_conv, draw_kinds
from conv_shares import drain_share, k_tiles, vector_share
from mxu_bench import share_of

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, Axis, Command, Drain, Opcode, RecordForm
from tpulite.arch.timing import PREPARATION
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.mxu.preparation import Preparation, prepared_layout
from tpulite_tb.bits import pack, unpack
from tpulite_tb.commands import random_command
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink
from tpulite_testing.regress import thinned

CONFIGS = {n: Config(array_size=n, int4=n == 8) for n in (4, 8, 16, 32)}


def _machine() -> Config:
    """Return the machine that was built."""
    return CONFIGS[int(os.environ["ARRAY_SIZE"])]


def _layout() -> StructLayout:
    """Return the layout of its commands."""
    return command_layout(Opcode.CONV, _machine())


def _prepared() -> StructLayout:
    """Return that of prepared ones."""
    return prepared_layout(_machine())


def _last_rows(command: Command, config: Config) -> dict[str, int]:
    """Return where the regions end that a command uses, in the order of the checks."""
    short = command["record_form"] == RecordForm.SHORT
    records = config.short_record_rows if short else config.record_rows
    tile_rows = config.array_size // (1 + command["int4"])
    rows = {
        "accumulators": command["acc_row"] + command["rows"] * command["columns"] - 1,
        "weights": command["weight_row"] + k_tiles(command) * tile_rows - 1,
        "records": command["record_row"] + records - 1,
        "output": command["out_row"]
        + (command["rows"] - 1) * command["out_pitch"]
        + (command["columns"] - 1) * command["out_step"]
        + 3 * (command["drain"] == Drain.RAW),
        "image": command["act_row"]
        + (command["blocks"] - 1) * command["act_block_pitch"]
        + (command["height"] - 1) * command["act_pitch"]
        + command["width"]
        - 1,
    }
    if command["drain"] != Drain.REQUANTIZE:
        del rows["records"]
    if command["drain"] == Drain.KEEP:
        del rows["output"]
    return rows


def _limit(region: str, config: Config) -> int:
    """Return how many rows the memory of a region has."""
    return config.acc_rows if region == "accumulators" else config.ub_rows


def _beyond(command: Command, config: Config) -> dict[str, int]:
    """Return where those regions end that leave their memories."""
    rows = _last_rows(command, config)
    return {region: last for region, last in rows.items() if last >= _limit(region, config)}


def _check(word: int, command: Command, index: int, config: Config) -> None:
    """Compare a prepared command; the shares of memories only if they fit."""
    got = prepared_layout(config).from_bits(word)
    assert got.wait == command["wait"] and got.prefetch == command["prefetch"]
    assert got.index == index
    assert got.requantizes == (command["drain"] == Drain.REQUANTIZE)
    outside = _beyond(command, config)
    assert got.outside == bool(outside)
    assert got.records.record_row == command["record_row"]
    assert got.records.record_form == command["record_form"]
    assert got.records.index == index
    for name, value in vector_share(command, config.array_size, index).items():
        if isinstance(value, dict):
            for part, number in value.items():
                assert got.vectors[name][part] == number, f"{name}.{part}"
        else:
            assert got.vectors[name] == value, name
    if outside:
        return
    assert got.weights.weight_row == command["weight_row"]
    assert got.weights.last_tile == k_tiles(command) - 1
    assert not config.int4 or got.weights.int4 == got.vectors.int4 == command["int4"]
    for name, value in drain_share(command).items():
        assert got.drains[name] == value, name


_REGION_FIELDS = {
    "accumulators": ("acc_row", "rows", "columns"),
    "weights": ("weight_row", "blocks", "kernel_rows", "kernel_columns"),
    "records": ("record_row",),
    "output": ("out_row", "rows", "columns", "out_pitch", "out_step"),
    "image": ("act_row", "blocks", "height", "width", "act_block_pitch", "act_pitch"),
}
"""What each region's last row grows with; its first row comes first."""


_DEPTHWISE = {"depthwise": 1, "blocks": 1, "byte_step": 0, "drain": Drain.KEEP, "int4": 0}
_INT4 = {"depthwise": 0, "byte_step": 0, "transposed": 0, "int4": 1, "weight_zero_point": 0}


def _least(name: str) -> int:
    return next(f.minimum or 0 for f in COMMANDS[Opcode.CONV].fields if f.name == name)


def _alone_outside(config: Config, region: str | None) -> Command:
    """Return a command of any size of which all regions but one fit, or, for None, all of them.

    That one leaves its memory by any number of rows, often by few; others often end in its last
    row. Often there is but one row or column.
    """
    while True:
        free = random.choice([region, None])  # may be as large as it is drawn
        command = random_command(Opcode.CONV, config)
        if random.random() < 0.3:
            command = command.replace(**_DEPTHWISE)
        elif config.int4 and random.random() < 0.5:
            command = command.replace(**_INT4)
        if random.random() < 0.5:
            command = command.replace(**{random.choice(["rows", "columns"]): 1})
        while too_far := [r for r in _beyond(command, config) if r != free]:
            name = random.choice(_REGION_FIELDS[too_far[0]])
            less = random.randrange(_least(name), command[name] + 1)
            command = command.replace(**{name: less})
        few = random.choice([1, random.randint(1, 8)])
        for end in filter(None, [*random.sample(list(_REGION_FIELDS), 2), region]):
            first = _REGION_FIELDS[end][0]
            excess = _last_rows(command, config).get(end, 0) - _limit(end, config) + 1
            start = command[first] - excess + few * (end == region)
            if 0 <= start < _limit(end, config):
                command = command.replace(**{first: start})
        if region is None or region in _beyond(command, config):
            return command


def _carries(config: Config) -> list[Command]:
    """Return commands that fit, of which a region begins at a row with all bits but one.

    It ends behind the next row: with that bit it would leave its memory.
    """
    found = []
    for region, fields in _REGION_FIELDS.items():
        limit = _limit(region, config)
        for bit in range(limit.bit_length() - 1):
            first = {fields[0]: limit - 1 - (1 << bit)}
            drawn = (_fitting(config).replace(**first) for _ in range(50))
            fits = (x for x in drawn if not _beyond(x, config))
            behind = (x for x in fits if _last_rows(x, config).get(region, 0) > first[fields[0]])
            found += islice(behind, 1)
    return found


def _of_all_accumulators(config: Config) -> list[Command]:
    """Return commands of one line of outputs, along each axis, that needs all accumulators."""
    line = {"acc_row": 0, "drain": Drain.KEEP, "depthwise": 0, "byte_step": 0}
    return [
        _fitting(config).replace(**line, rows=rows, columns=config.acc_rows // rows, inner=inner)
        for rows, inner in ((1, Axis.X), (config.acc_rows, Axis.Y))
    ]


def _fitting(config: Config) -> Command:
    rows = range(4096)
    kind = random.choice(draw_kinds(config, 2))
    return draw_conv(config, kind, inputs=rows, operands=rows, outputs=rows)


def _largest() -> list[Command]:
    """Return commands with the largest values of all fields."""
    largest = {
        field.name: field.range[-1] if field.enum is None else int(max(field.enum))
        for field in COMMANDS[Opcode.CONV].fields[1:]
    }
    largest |= {"byte_step": 0, "int4": 0, "drain": Drain.REQUANTIZE}
    return [
        Command.make(Opcode.CONV, **(largest | {"depthwise": 0})),
        Command.make(Opcode.CONV, **(largest | {"blocks": 1})),
    ]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def prepares_every_command(dut, idle: float, stall: float) -> None:
    """Commands that fit, small ones and of any size, then any field values: nothing wraps."""
    config = _machine()
    fitting = [_fitting(config) for _ in range(30)]
    fitting += _carries(config) + _of_all_accumulators(config)
    wide = [_alone_outside(config, None) for _ in range(60)]
    extreme = [random_command(Opcode.CONV, config) for _ in range(30)]
    extreme[20:] = [command.replace(**_DEPTHWISE) for command in extreme[20:]]
    commands = fitting + wide + extreme + _largest()

    received: list[int] = []
    StreamSink(dut, "o", stall=stall)
    StreamMonitor(dut, "o", callback=received.append)
    driver = StreamDriver(dut, "i", idle=idle)
    await reset(dut)
    layout = _layout()
    driver.extend(
        pack(layout, share_of(layout, command) | {"index": index})
        for index, command in enumerate(commands)
    )
    await driver.drained()
    await ClockCycles(dut.clk, 24)
    assert len(received) == len(commands)
    for index, (word, command) in enumerate(zip(received, commands, strict=True)):
        _check(word, command, index, config)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def takes_so_many_cycles(dut) -> None:
    """A command is offered so long after it came, for as long as nobody accepts it."""
    dut.o__ready.value = 0
    dut.i__valid.value = 0
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    for index in range(4):
        dut.i__valid.value = 1
        dut.i__payload.value = pack(_layout(), {"index": index})
        waits = random.randrange(3)
        for cycle in range(PREPARATION + waits + 1):
            dut.o__ready.value = cycle == PREPARATION + waits
            await edge
            assert dut.o__valid.value == (cycle >= PREPARATION)
            assert dut.i__ready.value == (cycle == PREPARATION + waits)
        assert unpack(_prepared(), int(dut.o__payload.value))["index"] == index


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def says_where_the_first_region_ends(dut) -> None:
    """Nothing wraps there, whatever the fields are; it is known a cycle after the offer."""
    config = _machine()
    dut.o__ready.value = 0
    dut.i__valid.value = 0
    await reset(dut)
    edge, layout = RisingEdge(dut.clk), _layout()
    commands = [random_command(Opcode.CONV, config) for _ in range(repeats(40))]
    regions = (*_REGION_FIELDS, "output", None)  # the output has two products
    alone = [_alone_outside(config, region) for region in regions * repeats(16)]
    for command in commands + alone + _largest():
        dut.i__valid.value = 1
        dut.i__payload.value = pack(layout, share_of(layout, command))
        dut.o__ready.value = 0
        await ClockCycles(dut.clk, PREPARATION + 1)
        assert dut.o__valid.value == 1
        dut.o__ready.value = 1
        await edge
        outside = list(_beyond(command, config).values())
        assert dut.o__payload.value[_prepared()["outside"].offset] == bool(outside)
        if outside:
            assert dut.address.value == outside[0]


@pytest.mark.parametrize(
    "n", thinned(CONFIGS, 4, 8, 32, reason="between the smallest and the largest machine")
)
def test_preparation(n: int) -> None:
    simulate(
        Preparation(CONFIGS[n]),
        __file__,
        name=f"preparation_{n}",
        extra_env={"ARRAY_SIZE": str(n)},
    )
