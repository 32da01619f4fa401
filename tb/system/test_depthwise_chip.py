"""Depthwise kernels that are no 3x3, and channel multipliers, on the Verilated chip."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis, Opcode
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, Depthwise, Layer, LayerGraph
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_tb.machines import DEFAULT, FEW_LANES, SMALL
from tpulite_testing.drawn.range_cases import config_name
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import plain_conv, random_requantization
from tpulite_testing.regress import breadth
from tpulite_verilated.rtl_device import RtlDevice

MOST = 0.02
"""How far from the chip's counters the cycle model may be."""


def check(layer: Conv | Depthwise, size: tuple[int, int], channels: int, config: Config) -> Program:
    """Run a layer alone on the chip; return its program."""
    image = Activation((*size, channels))
    out = layer._infer(image)
    graph = LayerGraph("alone", (layer,), {"x": image, "y": out}, ("x",), ("y",))
    program = kept_program(graph, config)
    x = np.random.default_rng(5).integers(-128, 128, image.shape).astype(np.int8)
    results = Session(program, RtlDevice(config, dram_bytes=1 << 20)).run({"x": x})
    assert results.fault is None
    due = plain_conv(x, layer, out.shape[:2], depthwise=isinstance(layer, Depthwise))
    np.testing.assert_array_equal(results.outputs["y"].reshape(out.shape), due)
    predicted = predict_cycles(program.commands, config)
    assert results.cycles == pytest.approx(predicted, rel=MOST)
    return program


def common(rng: np.random.Generator, channels: int) -> dict:
    return {
        "name": "layer",
        "inputs": ("x",),
        "output": "y",
        "requantization": random_requantization(rng, channels, 60_000),
        "input_zero_point": -9,
        "weight_zero_point": 4,
    }


def streams(program: Program) -> list:
    """Return the depthwise commands of a program."""
    return [x for x in program.commands if x.opcode == Opcode.CONV and x["depthwise"]]


@pytest.mark.parametrize("padding", [(2, 2, 2, 2), (1, 0, 3, 2)])
def test_every_second_tap_of_5x5_goes_through_the_delay_lines(padding):
    """Four passes of 3x3 accumulate; rows and columns of zero taps see what is not there."""
    rng, channels = np.random.default_rng(3), 20
    layer: Layer = Depthwise(
        **common(rng, channels),
        weight=rng.integers(-128, 128, (5, 5, channels)).astype(np.int8),
        stride=(2, 2),
        padding=padding,
    )
    program = check(layer, (24, 23), channels, DEFAULT)
    found = {
        (x["dilation_y"], x["stride_y"], x["kernel_rows"], x["kernel_columns"])
        for x in streams(program)
    }
    assert found == {(2, 1, 3, 3)}


@pytest.mark.parametrize(
    ("kernel", "size", "stride", "passes"),
    [
        ((5, 5), (14, 13), (1, 1), {(3, 5)}),  # the second pass repeats a line
        ((5, 5), (7, 7), (1, 1), {(3, 5), (2, 5)}),  # there is a row for each of ten taps
        ((5, 5), (11, 11), (2, 2), {(3, 5)}),
        ((7, 7), (12, 14), (1, 1), {(3, 5), (1, 5), (3, 3), (1, 3)}),
        ((3, 5), (32, 9), (1, 1), {(3, 5)}),
    ],
)
def test_lines_of_five_taps_go_through_the_delay_lines(kernel, size, stride, passes):
    """Passes accumulate, which follow each other without a gap; taps are lines by taps of one."""
    rng, channels = np.random.default_rng(6), 36
    padding = (kernel[0] // 2, kernel[1] // 2) * 2
    layer = Depthwise(
        **common(rng, channels),
        weight=rng.integers(-128, 128, (*kernel, channels)).astype(np.int8),
        stride=stride,
        padding=padding,
    )
    found = set()
    for x in streams(check(layer, size, channels, DEFAULT)):
        taps = x["kernel_rows"], x["kernel_columns"]
        found.add(taps if x["inner"] == Axis.X else taps[::-1])
    assert found == passes


@pytest.mark.parametrize(
    "config",
    [SMALL, *breadth("of 8x8 and 16x16 blocks no more is different", FEW_LANES, DEFAULT)],
    ids=config_name,
)
def test_multipliers_filter_repeated_channels(config):
    """Blocks of the repeated channels begin in the middle of those that are repeated."""
    rng, channels, times = np.random.default_rng(4), 2 * config.array_size + 1, 3
    every = np.arange(channels * times)
    weight = np.full((3, 3, channels, channels * times), 4, np.int8)
    weight[:, :, every // times, every] = rng.integers(-128, 128, (3, 3, channels * times))
    layer = Conv(**common(rng, channels * times), weight=weight, padding=(1, 1, 1, 1))
    assert streams(check(layer, (9, 10), channels, config))
