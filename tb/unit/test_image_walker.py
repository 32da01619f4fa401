"""The image walker against loops over outputs and taps."""

import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from conv_draw import ONES, any_image, draw_conv, draw_kinds, stretched
from conv_model import delay, line_taps, odd_rows, outputs, pairs, stream, taps
from conv_shares import vector_bits

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis, Command, Drain, RecordForm, disassemble
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_rtl.mxu.image_walker import ImageWalker
from tpulite_rtl.mxu.slots import slot_layout
from tpulite_tb.bits import unpack
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink
from tpulite_testing.regress import thinned

CONFIGS = {
    "4": Config(array_size=4),
    "8": Config(array_size=8, requant_lanes=2),
    "16": Config(array_size=16),
    "4_transposed": Config(array_size=4, transposed_tiles=True),
    "4_int4": Config(array_size=4, transposed_tiles=True, int4=True),
}
ROWS = range(1 << 14)


def _config(dut) -> Config:
    """Return which of the configurations was built."""
    return {slot_layout(config).size: config for config in CONFIGS.values()}[len(dut.o__payload)]


def _draw(config: Config, kind: str) -> Command:
    return draw_conv(config, kind, inputs=ROWS, operands=ROWS, outputs=ROWS)


def _longest(command: Command, axis: str, stride: int) -> Command:
    """Return a depthwise CONV with one axis of 2047 outputs, and all vectors between these.

    The number of steps is odd if the stride is: what goes wrong in each does not cancel out. A long
    inner axis is walked twice.
    """
    inner, outer = ("rows", "columns") if command["inner"] == Axis.Y else ("columns", "rows")
    strides = {"rows": "stride_y", "columns": "stride_x"}
    long = {axis: 2047, f"kernel_{axis}": random.randrange(2, 16, 2), strides[axis]: stride}
    again = {outer: 2, strides[outer]: 1} if axis == inner else {}
    return command.replace(**(ONES | again | long))


def _loads(command: Command, tile: int, index: int, n: int) -> list[dict[str, int]]:
    """Return the slots that read a transposed weight tile."""
    nothing = dict.fromkeys(("emits", "first", "claims", "reports", "paced", "depthwise"), 0)
    always = {"read": 1, "enters": 1, "loads": 1, "transposed": 1, "index": index}
    always |= {"zero_point": command["weight_zero_point"] & 0xFF}
    first = command["weight_row"] + tile * n
    return [nothing | always | {"row": (first + i) % len(ROWS)} for i in range(n)]


def _slots(command: Command, index: int, config: Config) -> list[dict[str, int]]:
    """Return the slots of a command; fields that do not matter are left out."""
    n = config.array_size
    slots = []
    order = outputs(command)
    tiles, late = taps(command), delay(command, n)
    for tile, tap in enumerate(tiles):
        last_tile = tap == tiles[-1]
        emitted, begun = 0, False
        if command["transposed"]:
            slots += _loads(command, tile, index, n)
        odd = odd_rows(command, n) if pairs(command, n) else None
        for row, enters, emits in stream(command, tap, n):
            slot = {
                "read": row is not None,
                "enters": enters,
                "emits": emits,
                "first": not begun and bool(emits or late),
                "raw": command["drain"] == Drain.RAW,
                "short": command["record_form"] == RecordForm.SHORT,
                "depthwise": command["depthwise"],
                "dense": command["byte_step"] != 0,
                "pad": command["pad"] & 0xFF,
                "zero_point": command["weight_zero_point"] & 0xFF,
                "index": index,
            }
            if n >= 16:
                slot["delay"], slot["pair"], slot["odd_read"] = late, odd is not None, False
                slot["wide"] = late > 0 and line_taps(command) == 5
            if config.has_transposed_tiles:
                slot["loads"], slot["transposed"] = 0, command["transposed"]
            if config.int4:
                slot["int4"] = command["int4"]
            if odd and (odd_row := next(odd)) is not None:
                slot["odd_read"], slot["odd_row"] = True, odd_row
            if row is not None:
                slot["row"] = row
            if emits and command["byte_step"]:
                _, ox = order[emitted]
                slot["shift"] = ox * command["byte_step"] % n
            begun |= slot["first"]
            emitted += emits
            leaves = command["drain"] != Drain.KEEP or emitted == len(order)
            slot["reports"] = emits and last_tile and leaves
            slot["paced"] = slot["first"] if command["depthwise"] else slot["reports"]
            requantizes = last_tile and command["drain"] == Drain.REQUANTIZE
            slot["claims"] = slot["first"] and requantizes
            slots.append(slot)
        assert emitted == len(order)
    return slots


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def walks_like_plain_loops(dut, idle: float, stall: float) -> None:
    """Random CONVs of every kind: all slots in order."""
    config = _config(dut)
    layout = slot_layout(config)
    kinds = draw_kinds(config, repeats(32))
    commands = [any_image(_draw(config, kind), len(ROWS)) for kind in kinds]
    long = [stretched(command) for command in random.choices(commands, k=repeats(3))]
    for axis in ("kernel_rows", "kernel_columns"):  # odd, as above
        large = ONES | {axis: random.randrange(9, 16, 2)}
        long.append(_draw(config, "window").replace(**large))
    if not idle and not stall and repeats(2) == 2:  # Verilator
        inner = random.choice(list(Axis))  # of both: one is long inside, one outside
        for axis, stride in zip(("rows", "columns"), random.sample([5, 9], 2), strict=True):
            long.append(_longest(_draw(config, "depthwise").replace(inner=inner), axis, stride))
        wide = ONES | {"columns": random.randrange(1 << 10, 1 << 11)}
        long.append(_draw(config, "bytes").replace(**wide))
    commands += [any_image(command, len(ROWS)) for command in long]
    ending = [
        _draw(config, "pairs") for _ in range(repeats(8))
    ]  # images that end about where they do
    commands = ending + commands
    if not idle and not stall and repeats(2) == 2:
        origin = ONES | {"pad_top": 0, "pad_left": 0, "stride_y": 1, "stride_x": 1, "act_row": 0}
        for axis, size in (("columns", "width"), ("rows", "height")):  # far inside an image
            far = {axis: 2047, size: 2047 - random.randrange(8), "act_pitch": random.randrange(8)}
            commands.append(_draw(config, "window").replace(**(origin | far)))
    indices = [random.getrandbits(INDEX_BITS) for _ in commands]
    received: list[int] = []
    StreamSink(dut, "o", stall=stall)
    StreamMonitor(dut, "o", callback=received.append)
    driver = StreamDriver(dut, "command", idle=idle)
    await reset(dut)
    driver.extend(
        vector_bits(config, command, index)
        for index, command in zip(indices, commands, strict=True)
    )
    expected = (
        (slot, command)
        for index, command in zip(indices, commands, strict=True)
        for slot in _slots(command, index, config)
    )
    edge = RisingEdge(dut.clk)
    first = cycle = number = 0
    for number, (slot, command) in enumerate(expected):
        while len(received) == number:
            await edge
            cycle += 1
            if dut.o__valid.value:
                offered = int(dut.o__payload.value) >> layout["index"].offset
                assert dut.busy.value and dut.index.value == offered % (1 << INDEX_BITS)
        first = first or cycle
        got = unpack(layout, received[number])
        assert {name: got[name] for name in slot} == slot, disassemble(command)
    if not idle and not stall:
        assert cycle - first == number, "a gap"
    for _ in range(4):
        await edge
    assert dut.busy.value == 0
    assert len(received) == number + 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(index=[0, 77, (1 << INDEX_BITS) - 1])
async def offers_the_first_slot_after_two_cycles(dut, index: int) -> None:
    """And says from the cycle after the command that it is busy, and with which one."""
    dut.o__ready.value = 0
    dut.command__valid.value = 0
    config = _config(dut)
    command = _draw(config, "product")
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    dut.command__valid.value = 1
    dut.command__payload.value = vector_bits(config, command, index)
    await edge
    assert dut.command__ready.value == 1
    assert dut.busy.value == 0
    dut.command__valid.value = 0
    await edge
    assert (dut.o__valid.value, dut.busy.value, dut.index.value) == (0, 1, index)
    await edge
    assert (dut.o__valid.value, dut.busy.value, dut.index.value) == (1, 1, index)


@pytest.mark.parametrize(
    "config",
    thinned(
        CONFIGS,
        "16",
        "4",
        "4_transposed",
        "4_int4",
        reason="a size only changes how many tiles there are",
    ),
)
def test_image_walker(config: str) -> None:
    simulate(ImageWalker(CONFIGS[config]), __file__, name=f"image_walker_{config}")
