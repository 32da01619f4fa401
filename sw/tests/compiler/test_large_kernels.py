"""Convolutions that no single command can express, or of which one output row reads too much."""

import itertools

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV, Opcode
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import plain_conv, random_requantization
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import thinned

CONFIGS = {
    "16": Config(ub_rows=512, acc_rows=64),
    "8 with two lanes": Config(array_size=8, requant_lanes=2, vector_lanes=4, ub_rows=512),
    "4": Config(array_size=4, ub_rows=512, acc_rows=64),
    "32": Config(array_size=32, ub_rows=512),
}

ONE, UNPACKED = quick_options(), quick_options(dense_mode=False)


def conv(rng, size, kernel, channels, *, stride=(1, 1), dilation=(1, 1), padding=(0, 0, 0, 0), raw):
    """Return the graph of a convolution from ``channels[0]`` to ``channels[1]`` channels."""
    reach = 5000 * (kernel[0] * kernel[1] * channels[0]) ** 0.5
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (*kernel, *channels)).astype(np.int8),
        requantization=None if raw else random_requantization(rng, channels[1], reach),
        input_zero_point=int(rng.integers(-128, 128)),
        weight_zero_point=int(rng.integers(-128, 128)),
        stride=stride,
        dilation=dilation,
        padding=padding,
    )
    image = Activation((*size, channels[0]))
    dtype = "int32" if raw else "int8"
    images = {"x": image, "y": Activation(layer._infer(image).shape, dtype)}
    return LayerGraph("net", (layer,), images, ("x",), ("y",))


def check_bits(rng, graph, config, options=ONE):
    """Compare every image of a batch with plain loops; return the program."""
    program = kept_program(graph, config, options)
    layer, shape = graph.layers[0], graph.activations["y"].shape
    x = rng.integers(-128, 128, (options.batch, *graph.activations["x"].shape)).astype(np.int8)
    y = Session(program).run({"x": x.reshape(program.inputs[0].shape)}).outputs["y"]
    expected = [plain_conv(each, layer, shape[:2]) for each in x]
    np.testing.assert_array_equal(y.reshape(-1, *shape), np.stack(expected))
    return program


GEOMETRIES = {
    "stride": ((35, 33), (3, 2), (16, 17), (1, 1), (2, 1, 0, 0)),
    "patches": ((32, 48), (16, 16), (16, 16), (1, 1), (0, 0, 0, 0)),
    "dilation": ((9, 40), (2, 3), (1, 2), (1, 16), (0, 3, 0, 0)),
    "atrous": ((4, 5), (3, 3), (1, 1), (32, 33), (32, 33, 32, 33)),
    "padding above": ((5, 3), (2, 2), (3, 1), (1, 1), (40, 0, 0, 36)),
    "padding before": ((3, 5), (1, 4), (1, 2), (1, 2), (0, 33, 2, 0)),
    "padding behind": ((4, 9), (2, 20), (2, 1), (2, 1), (0, 10, 33, 50)),
    "everything": ((3, 3), (2, 1), (17, 20), (20, 1), (50, 34, 1, 33)),
}


@pytest.mark.parametrize(
    ("machine", "name", "raw"),
    thinned(
        itertools.product(CONFIGS, GEOMETRIES, (False, True)),
        *(
            (machine, name, (i + j) % 2 == 1)
            for i, machine in enumerate(CONFIGS)
            for j, name in enumerate(GEOMETRIES)
        ),
        reason="any two of machine, geometry and output meet in others",
    ),
)
def test_geometries_beyond_the_fields(machine, name, raw):
    config, (size, kernel, stride, dilation, padding) = CONFIGS[machine], GEOMETRIES[name]
    rng = np.random.default_rng(sum(size))
    graph = conv(
        rng, size, kernel, (3, 7), stride=stride, dilation=dilation, padding=padding, raw=raw
    )
    check_bits(rng, graph, config)
    check_bits(rng, graph, config, UNPACKED)


LARGE = {
    "channels": ((1, 12), (1, 1), (3000, 5), (0, 0, 0, 0)),
    "whole image": ((40, 20), (40, 20), (6, 3), (0, 0, 0, 0)),
    "kernel": ((31, 18), (29, 17), (20, 2), (2, 1, 0, 1)),
    "wide and deep": ((3, 60), (3, 3), (70, 40), (1, 1, 1, 1)),
}


@pytest.mark.parametrize(
    ("machine", "name", "batch"),
    thinned(
        itertools.product(CONFIGS, LARGE, (1, 2)),
        *((machine, name, 1 + i % 2) for i, machine in enumerate(CONFIGS) for name in LARGE),
        reason="every machine has each case, and every case each batch",
    ),
)
def test_inputs_of_one_output_row_may_be_larger_than_the_buffer(machine, name, batch):
    config, (size, kernel, channels, padding) = CONFIGS[machine], LARGE[name]
    rng = np.random.default_rng(batch)
    graph = conv(rng, size, kernel, channels, padding=padding, raw=False)
    blocks = -(-channels[0] // config.array_size)
    assert blocks * min(kernel[0], size[0]) * size[1] > config.ub_rows
    check_bits(rng, graph, config, quick_options(batch=batch))


@pytest.mark.parametrize("height", [1, 2])
def test_image_rows_may_be_longer_than_any_pitch(height):
    rng = np.random.default_rng(height)
    graph = conv(rng, (height, 17000), (height, 3), (3, 2), raw=False)
    assert graph.activations["x"].shape[1] > CONV.limit("act_pitch")
    check_bits(rng, graph, Config(ub_rows=4096))


def test_each_piece_is_loaded_once_for_all_columns_of_a_kernel():
    """Of 45 x 45 taps, 15 rows go together; a tile of 15 rows serves three commands."""
    rng = np.random.default_rng(0)
    graph = conv(rng, (45, 45), (45, 45), (4, 2), raw=False)
    program = check_bits(rng, graph, Config(ub_rows=1024))
    loads = [x for x in program.commands if x.opcode == Opcode.LOAD and x["window"] == 1]
    convs = [x for x in program.commands if x.opcode == Opcode.CONV]
    assert sum(load["lines"] * load["rows"] for load in loads) <= 45 * 45
    assert len(convs) > len(loads)


def test_the_matrix_unit_hardly_waits_for_tiles():
    """31 x 31 taps on 64 x 64 x 64: the matrix unit reads each tile many times."""
    rng = np.random.default_rng(0)
    graph = conv(rng, (64, 64), (31, 31), (64, 16), padding=(15, 15, 15, 15), raw=False)
    config = Config(ub_rows=4096)
    cycles = predict_cycles(kept_program(graph, config).commands, config)
    assert cycles < 1.05 * sum(graph.macs().values()) / 256


FAR = {
    "patches": ((64, 96, 5), (16, 16), (16, 16), (0, 0, 0, 0)),
    "borders": ((40, 130, 8), (5, 20), (17, 18), (2, 9, 2, 9)),
    "dilation": ((20, 150, 4), (3, 3), (2, 16), (1, 20, 1, 20)),
    "gaps": ((50, 200, 20), (2, 3), (40, 33), (1, 0, 0, 0)),
}


FAR_CONFIGS = (Config(), Config(array_size=4), Config(ub_rows=512, acc_rows=64))


@pytest.mark.parametrize(
    ("name", "raw", "machine"),
    thinned(
        itertools.product(FAR, (False, True), range(3)),
        *((name, (i + j) % 2 == 1, j) for i, name in enumerate(FAR) for j in range(3)),
        reason="any two of name, output and machine meet in others",
    ),
)
def test_columns_that_are_far_from_each_other(name, raw, machine):
    """Many outputs of a row are one command, also if the host did not pack the input."""
    (size, kernel, stride, padding), rng = FAR[name], np.random.default_rng(7)
    dilation = (1, 20) if name == "dilation" else (1, 1)
    channels = size[2], 24
    graph = conv(
        rng, size[:2], kernel, channels, stride=stride, dilation=dilation, padding=padding, raw=raw
    )
    check_bits(rng, graph, FAR_CONFIGS[machine], UNPACKED)


def test_far_columns_keep_the_array_busy():
    """The 14 outputs of a row go together: alone, each takes 16 cycles for each of 256 tiles."""
    rng, config = np.random.default_rng(0), Config(ub_rows=8192)
    graph = conv(rng, (64, 224), (16, 16), (3, 16), stride=(16, 16), raw=False)
    program = check_bits(rng, graph, config, UNPACKED)
    assert predict_cycles(program.commands, config) < 4 * 14 * 256 * 16 // 4
