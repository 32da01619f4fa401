"""Banks of the cycle model, against the rules in plain loops."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis, Command, Drain, Opcode
from tpulite.golden.timing.banks import Traffic, walk
from tpulite.golden.timing.operands import OperandFetch
from tpulite.golden.timing.phases import FREE, Activations, Outputs

BANKS, SIZE = 8, 16
SEEDS = range(60)


def as_bytes(phases):
    return (phases % BANKS).astype(np.uint8).tobytes()


def plain_walk(phases, begin, row, rows, *, starve):
    """Ask for rows one after the other, cycle by cycle."""
    cycle, refused = begin, 0
    while rows:
        asked = [p[cycle] for p in phases if cycle < len(p) and p[cycle] != FREE]
        if row % BANKS in [(phase + cycle) % BANKS for phase in asked] and (starve or refused < 16):
            refused += 1
        else:
            refused, row, rows = 0, row + 1, rows - 1
        cycle += 1
    return cycle


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("starve", [True, False])
def test_a_walker_waits_for_its_bank(seed, starve):
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 200))
    choices = [*range(BANKS), *[FREE] * int(rng.integers(0, 12))]
    phases = [bytes(rng.choice(choices, length).tolist()) for _ in range(rng.integers(1, 3))]
    if seed % 3 == 0:  # the better port stays in a bank
        phases = [as_bytes(seed - np.arange(length))]
    begin, row, rows = (int(rng.integers(0, bound)) for bound in (20, 100, 60))
    trace = bytearray([FREE]) * 1000
    end = walk(phases, begin, (row - begin) % BANKS, rows, BANKS, starve=starve, trace=trace)
    assert end == plain_walk(phases, begin, row, rows, starve=starve)
    assert len(trace) == 1000
    assert [i for i, phase in enumerate(trace) if phase != FREE] == list(range(begin, end))


class Constant:
    """A port that stays in bank 0."""

    def __init__(self, begin, length):
        self.begin, self.length = begin, length

    def phases(self, first, stop):
        return as_bytes(-self.begin - np.arange(first, min(stop, self.length)))


def test_rows_are_delayed_by_what_is_asked_for_meanwhile():
    traffic = Traffic(BANKS)
    traffic.add(100, 130, Constant(100, 30))
    traffic.add(130, 131, Constant(130, 1))
    traffic.add(140, 150, Constant(140, 10))
    assert traffic.delay(1, 50, 40, starve=True) == 89  # before
    assert traffic.delay(1, 200, 40, starve=True) == 239  # after
    assert traffic.delay(1, 100, 7, starve=True) == 106  # other banks
    assert traffic.delay(1, 100, 8, starve=True) == 131  # bank 0 is free at 131
    assert traffic.delay(1, 105, 8, starve=False) == 128  # after 16 refusals
    assert traffic.delay(0, 120, 9, starve=True) == 131 + 8
    assert traffic.delay(0, 120, 20, starve=True) == 153


def random_conv(seed):
    """Return the fields of a CONV that need make no sense, but are legal."""
    rng = np.random.default_rng(seed)
    mode = ("plain", "depthwise", "dense")[seed % 3]
    draw = lambda low, high: int(rng.integers(low, high))  # noqa: E731
    return Command.make(
        Opcode.CONV,
        depthwise=mode == "depthwise",
        inner=Axis.X if mode == "dense" else draw(0, 2),
        byte_step=draw(1, 17) if mode == "dense" else 0,
        **{name: draw(1, 6) for name in ("rows", "columns", "kernel_rows", "kernel_columns")},
        **{name: draw(1, 4) for name in ("stride_y", "stride_x", "dilation_y", "dilation_x")},
        **{name: draw(0, 99) for name in ("act_row", "act_pitch", "act_block_pitch", "out_row")},
        **{name: draw(0, 99) for name in ("out_pitch", "out_step")},
        **{name: draw(1, 12) for name in ("height", "width")},
        **{name: draw(0, 3) for name in ("pad_top", "pad_left")},
        blocks=1 if mode == "depthwise" else draw(1, 3),
        drain=draw(1, 2 if mode == "depthwise" else 3),
        transposed=mode == "plain" and seed % 2,
        weight_row=seed,
    )


def loop_order(command, rows, columns):
    """Return positions (y, x) in the order of issue."""
    if command["inner"] == Axis.Y:
        return [(y, x) for x in range(columns) for y in range(rows)]
    return [(y, x) for y in range(rows) for x in range(columns)]


def plain_reads(command, tile):
    """Return the row that each slot of a k-tile reads, or None."""
    f = command.fields
    reads = []
    if f["transposed"]:
        reads += range(f["weight_row"] + tile * SIZE, f["weight_row"] + (tile + 1) * SIZE)
    block, tap = divmod(tile, f["kernel_rows"] * f["kernel_columns"])
    ky, kx = divmod(tap, f["kernel_columns"])
    positions = []  # image coordinates
    if f["depthwise"]:
        height = (f["rows"] - 1) * f["stride_y"] + f["kernel_rows"]
        width = (f["columns"] - 1) * f["stride_x"] + f["kernel_columns"]
        for y, x in loop_order(command, height, width):
            positions.append((y * f["dilation_y"], x * f["dilation_x"]))
    elif f["byte_step"]:
        for y in range(f["rows"]):
            held = -1
            for ox in range(-1, f["columns"]):
                vector = max(ox, 0) * f["byte_step"] // SIZE + (ox >= 0)
                at = (y * f["stride_y"] + ky * f["dilation_y"], vector + kx * f["dilation_x"])
                positions.append(at if vector > held else None)
                held = vector
    else:
        for y, x in loop_order(command, f["rows"], f["columns"]):
            at_y = y * f["stride_y"] + ky * f["dilation_y"]
            positions.append((at_y, x * f["stride_x"] + kx * f["dilation_x"]))
    for position in positions:
        if position is None:
            reads.append(None)
            continue
        y, x = position[0] - f["pad_top"], position[1] - f["pad_left"]
        inside = 0 <= y < f["height"] and 0 <= x < f["width"]
        row = f["act_row"] + block * f["act_block_pitch"] + y * f["act_pitch"] + x
        reads.append(row if inside else None)
    return reads


def banks(phases, begin):
    return [None if p == FREE else (p + begin + i) % BANKS for i, p in enumerate(phases)]


@pytest.mark.parametrize("seed", SEEDS)
def test_activations_read_the_rows_of_the_image(seed):
    command = random_conv(seed)
    tiles = 1
    if not command["depthwise"]:
        tiles = command["blocks"] * command["kernel_rows"] * command["kernel_columns"]
    slots = len(plain_reads(command, 0))
    pace, begin = max(slots, SIZE), 1000 + seed
    expected = []
    for tile in range(tiles):
        rows = plain_reads(command, tile)
        expected += [None if row is None else row % BANKS for row in rows]
        expected += [None] * (pace - slots)
    activations = Activations(command.fields, SIZE, BANKS, begin, tiles, pace)
    assert banks(activations.phases(0, tiles * pace), begin) == expected
    first, stop = sorted(np.random.default_rng(seed).integers(0, tiles * pace + 9, 2).tolist())
    part = banks(activations.phases(first, stop), begin + first)
    assert part == expected[first:stop]


@pytest.mark.parametrize("interval", [1, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_outputs_write_the_rows_of_the_region(seed, interval):
    command = random_conv(seed)
    f = command.fields
    if f["depthwise"]:
        interval = 1
    if f["drain"] == Drain.RAW:
        interval = max(interval, 4)
    order = loop_order(command, f["rows"], f["columns"])
    expected = {}
    for index, (y, x) in enumerate(order):
        cycle = index * interval
        if f["depthwise"]:
            height = (f["rows"] - 1) * f["stride_y"] + f["kernel_rows"]
            width = (f["columns"] - 1) * f["stride_x"] + f["kernel_columns"]
            at = (y * f["stride_y"], x * f["stride_x"])
            cycle = loop_order(command, height, width).index(at)
        elif f["byte_step"] and interval == 1:
            cycle = index + y  # a slot fills the window
        row = f["out_row"] + y * f["out_pitch"] + x * f["out_step"]
        for part in range(4 if f["drain"] == Drain.RAW else 1):
            expected[cycle + part] = (row + part) % BANKS
    phases = Outputs(f, interval, BANKS, 777).phases(0, 10_000)
    assert {i: bank for i, bank in enumerate(banks(phases, 777)) if bank is not None} == expected


def test_a_depthwise_layer_whose_rows_share_a_bank_starves_a_store():
    """Six rows at a pitch of 56 lie in one bank: a STORE reads a row in six cycles."""
    f = {"rows": 4, "columns": 54, "kernel_rows": 3, "kernel_columns": 3, "inner": Axis.Y}
    ones = dict.fromkeys(("stride_y", "stride_x", "dilation_y", "dilation_x", "blocks"), 1)
    delays = {}
    for pitch in (56, 57):
        command = Command.make(
            Opcode.CONV, depthwise=1, height=6, width=56, act_pitch=pitch, **f, **ones
        )
        traffic = Traffic(Config().ub_banks)
        stream = Activations(command.fields, SIZE, BANKS, 0, 1, 336)
        traffic.add(0, 336, stream)
        delays[pitch] = traffic.delay(0, 0, 50, starve=True)
    assert 5.5 * 50 < delays[56] < 6.2 * 50
    assert delays[57] < 1.3 * 50


def test_records_wait_for_weights_and_both_for_activations():
    free, none_odd = Traffic(BANKS), Traffic(BANKS)
    apart = OperandFetch(free, none_odd, (3, 101, 16), (4, 100, 16), starve=True)
    assert apart.last() == (116, 115)
    in_step = OperandFetch(free, none_odd, (4, 101, 16), (3, 100, 16), starve=True)
    assert in_step.last() == (116, 116)
    busy = Traffic(BANKS)
    busy.add(90, 150, Constant(90, 60))  # bank 0
    held = OperandFetch(busy, none_odd, (4, 101, 16), (4, 100, 16), starve=True)
    assert held.last() == (150 + 11, 150 + 12)
    far = OperandFetch(free, none_odd, (0, 5000, 16), (0, 100, 16), starve=True)
    assert far.last() == (5015, 115)
    none = OperandFetch(busy, none_odd, (1, 100, 7), (0, 0, 0), starve=True)
    assert none.last()[0] == 106
    ports = [Traffic(BANKS), Traffic(BANKS)]
    held.add_to(ports, 100)
    assert ports[0].delay(4, 101, 4, starve=True) == 105  # behind the weights
