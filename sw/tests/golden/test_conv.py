"""CONV against convolutions written as plain loops over the image."""

import random
from itertools import product

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Axis, Drain, illegal_combination
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.machine import Machine
from tpulite_testing.compiling.programs import WINDOWS, conv, end, filled_dram, image_of, load
from tpulite_testing.oracles.conv_loops import OUT, SIZES, Reference, draw, filled
from tpulite_testing.timing import yardsticks

CONVOLUTIONS = 50
"""Of a program whose time is taken."""


@pytest.mark.parametrize("mode", ["normal", "dense", "depthwise", "transposed", "int4"])
@pytest.mark.parametrize("size", SIZES)
def test_convolves_like_plain_loops(size, mode):
    """Sums, order of issue, and every read in its order; padding on all four sides."""
    options = {"transposed_tiles": mode == "transposed", "int4": mode == "int4"}
    config = Config(array_size=size, ub_rows=4096, acc_rows=64, **options)
    rng = random.Random(size)
    padded = set()
    for seed in range(60):
        command = draw(rng, size, mode)
        assert illegal_combination(command, config) is None
        datapath = filled(config, seed)
        before = datapath.buffer.copy()
        reference = Reference(before, command, size)
        access = footprint(command, config, WINDOWS)
        assert access.fault is None
        assert access.reads.tolist() == reference.reads
        assert datapath.conv(command, access) is None
        if command["drain"] == Drain.KEEP:
            first = command["acc_row"]
            result = datapath.accumulators[first : first + len(reference.outputs)]
            assert np.array_equal(datapath.buffer, before)
        else:
            places = [
                OUT + oy * command["out_pitch"] + ox * command["out_step"]
                for oy, ox in reference.outputs
            ]
            result = np.array(
                [datapath.buffer[x : x + RAW_ROWS].reshape(-1).view("<i4") for x in places]
            )
            rows = [x + i for x in places for i in range(RAW_ROWS)]
            assert access.writes.tolist() == rows
            assert access.reads_before.tolist() == np.repeat(reference.done, RAW_ROWS).tolist()
        assert np.array_equal(result, [reference.sums[place] for place in reference.outputs])
        padded.add(bool((access.vectors < 0).any()))
    assert padded == {False, True}


@pytest.mark.parametrize(
    ("kernel", "stride", "outer"), [((3, 3), 1, 4), ((3, 3), 2, 3), ((5, 5), 1, 3)]
)
@pytest.mark.parametrize("inner", Axis)
def test_depthwise_layers(kernel, stride, outer, inner):
    """Interleave as many rows as taps fit; a 5 x 5 kernel takes passes over its kernel rows."""
    size, config = 16, Config(ub_rows=4096, acc_rows=64)
    height = width = 12
    interleaved = {3: 6 if stride == 1 else 5, 5: 10}[kernel[0]]
    count = (interleaved - kernel[0]) // stride + 1
    passes = [range(3)] if kernel[0] == 3 else [range(0, 2), range(2, 4), range(4, 5)]
    datapath = filled(config, 0)
    rng = np.random.default_rng(1)
    taps = rng.integers(-128, 128, (*kernel, size))  # [outer, inner, channel]
    zero_point = -5
    for number, part in enumerate(passes):
        tile = np.full((size, size), zero_point)
        for k_outer in part:
            for k_inner in range(kernel[1]):
                tile[interleaved * (k_outer - part[0]) + k_inner] = taps[k_outer, k_inner]
        datapath.buffer[512 : 512 + size] = tile.astype(np.int8).view(np.uint8)
        down, across = (outer, count), (len(part), kernel[1])
        if inner == Axis.Y:
            down, across = down[::-1], across[::-1]
        names = ("pad_top", "pad_left") if inner == Axis.X else ("pad_left", "pad_top")
        # Padding is unsigned: a later pass begins further down in the image instead.
        skipped = max(0, part[0] - 1)
        command = conv(
            depthwise=1, inner=inner, rows=down[0], columns=down[1], stride_y=stride,
            stride_x=stride, kernel_rows=across[0], kernel_columns=across[1],
            act_row=skipped * (width if inner == Axis.X else 1), act_pitch=width,
            height=height - skipped * (inner == Axis.X), width=width - skipped * (inner == Axis.Y),
            pad=7, weight_row=512, weight_zero_point=zero_point, accumulate=number > 0,
            **{names[0]: int(part[0] == 0), names[1]: 1},
        )  # fmt: skip
        access = footprint(command, config, WINDOWS)
        assert access.fault is None
        assert datapath.stray_weights(command, access).size == 0
        datapath.conv(command, access)
    image = datapath.buffer[: height * width].view(np.int8).reshape(height, width, size)
    if inner == Axis.Y:
        image = image.transpose(1, 0, 2)
    padded = np.pad(image.astype(np.int64), ((1, 9), (1, 9), (0, 0)), constant_values=7)
    for o in range(outer):
        for i in range(count):
            y, x = o * stride, i * stride
            window = padded[y : y + kernel[0], x : x + kernel[1]]
            sums = (window * (taps - zero_point)).sum(axis=(0, 1))
            assert np.array_equal(datapath.accumulators[o * count + i], sums), (o, i)


def check_delayed(inner, outputs, stride, order, zero_point):
    """Compare a CONV of three lines of taps through the delay lines with loops.

    Outputs are counted along the outer and the inner axis; the order is that of a line's taps in
    the tile, whose other rows hold the zero point.
    """
    size, config, taps = 16, Config(ub_rows=4096), len(order)
    (outer, count), rows_of_taps = outputs, 3 * taps
    datapath = filled(config, 0)
    # [outer, inner, channel]
    weights = np.random.default_rng(taps).integers(-128, 128, (3, taps, size))
    tile = np.full((size, size), zero_point)
    tile[:rows_of_taps] = weights[:, order].reshape(rows_of_taps, size)
    datapath.buffer[1024 : 1024 + size] = tile.astype(np.int8).view(np.uint8)
    extents = (outer, count), (outer + 2, (count - 1) * stride + taps), (3, taps), (1, stride)
    if inner == Axis.Y:
        extents = tuple(pair[::-1] for pair in extents)
    (rows, columns), (height, width), kernel, steps = extents
    command = conv(
        depthwise=1, inner=inner, rows=rows, columns=columns, stride_y=steps[0],
        stride_x=steps[1], kernel_rows=kernel[0], kernel_columns=kernel[1], act_pitch=width,
        height=height, width=width, weight_row=1024, weight_zero_point=zero_point,
    )  # fmt: skip
    access = footprint(command, config, WINDOWS)
    assert datapath.stray_weights(command, access).size == 0
    datapath.conv(command, access)
    image = datapath.buffer[: height * width].view(np.int8).reshape(height, width, size)
    image = (image if inner == Axis.X else image.transpose(1, 0, 2)).astype(np.int64)
    for o, i in product(range(outer), range(count)):
        window = image[o : o + 3, i * stride : i * stride + taps]
        sums = (window * (weights - zero_point)).sum(axis=(0, 1))
        assert np.array_equal(datapath.accumulators[o * count + i], sums), (o, i)
    datapath.buffer[1024 + rows_of_taps] = 1
    assert datapath.stray_weights(command, access).tolist() == [1024 + rows_of_taps]


@pytest.mark.parametrize("inner", Axis)
@pytest.mark.parametrize(
    ("interleaved", "stride"), [(9, 1), (9, 2), (17, 2), (33, 2), (67, 2), (34, 1), (33, 3)]
)
def test_depthwise_layers_with_delay_lines(interleaved, stride, inner):
    """The nine taps are rows 0 to 8 of the tile, however many positions are interleaved.

    In pairs, along x, the last taps of lines come before the middle ones; along y, 67 are too many.
    """
    count = (interleaved - 3) // stride + 1
    pairs = inner == Axis.X and stride == 2 and count >= 8
    if interleaved > 34 and not pairs:
        return
    check_delayed(inner, (4, count), stride, [0, 2, 1] if pairs else [0, 1, 2], zero_point=-5)


@pytest.mark.parametrize("inner", Axis)
@pytest.mark.parametrize(("count", "stride"), [(7, 1), (4, 2), (32, 1), (16, 2)])
def test_lines_of_five_taps_go_through_delay_lines(count, stride, inner):
    """The fifteen taps are rows 0 to 14 of the tile: the fewest, and the most, positions."""
    check_delayed(inner, (3, count), stride, [0, 1, 2, 3, 4], zero_point=7)


def test_a_large_convolution_costs_little():
    """32 x 32 x 16 to 16 channels, 3 x 3."""
    config = Config()
    command = conv(
        **image_of(32, 32), rows=32, columns=32, kernel_rows=3, kernel_columns=3, pad_top=1,
        pad_left=1, weight_row=2000, drain=Drain.REQUANTIZE, record_row=3000, out_row=4000,
        out_pitch=32,
    )  # fmt: skip
    datapath = filled(config, 0)
    datapath.buffer[3000:3016] = 0
    cost = yardsticks(lambda: datapath.conv(command, footprint(command, config, WINDOWS)))
    print(f"{cost:.0f} yardsticks")
    assert cost < 2500


def test_detecting_races_of_convolutions_costs_little():
    """With race detection, on maps of 16 x 16 with 4 channel blocks in and 3 x 3 taps."""
    command = conv(
        **image_of(16, 16), rows=16, columns=16, kernel_rows=3, kernel_columns=3, pad_top=1,
        pad_left=1, blocks=4, act_block_pitch=256, weight_row=2000, drain=Drain.RAW, out_row=4000,
        out_step=RAW_ROWS, out_pitch=16 * RAW_ROWS,
    )  # fmt: skip
    program = [load(0, 200), *[command] * CONVOLUTIONS, end()]
    dram = filled_dram()
    cost = (
        yardsticks(lambda: Machine(Config()).run(program, WINDOWS, dram, strict=False))
        / CONVOLUTIONS
    )
    print(f"{cost:.0f} yardsticks a convolution")
    assert cost < 3500
