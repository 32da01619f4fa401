"""Transposed convolutions: exact, and most cycles multiply."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, LayerGraph, Requantization, TransposedConv
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options


def network(shape, kernel, stride, *, channels, size=None, padding=(0, 0)) -> LayerGraph:
    rng = np.random.default_rng(3)
    record = Requantization(
        multiplier=rng.integers(1 << 30, 1 << 31, channels),
        shift=np.full(channels, -9),
        bias=rng.integers(-999, 999, channels).astype(np.int32),
    )
    sizes = [n * s for n, s in zip(shape, stride, strict=False)] if size is None else size
    layer = TransposedConv(
        name="up",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (*kernel, shape[2], channels)).astype(np.int8),
        requantization=record,
        stride=stride,
        padding=padding,
        size=(sizes[0], sizes[1]),
        input_zero_point=-5,
        weight_zero_point=2,
    )
    images = {"x": Activation(shape), "y": Activation((*layer.size, channels))}
    return LayerGraph("net", (layer,), images, ("x",), ("y",))


def exact(graph: LayerGraph, config: Config) -> None:
    x = np.random.default_rng(4).integers(-128, 128, graph.activations["x"].shape).astype(np.int8)
    found = Session(kept_program(graph, config, quick_options())).run({"x": x}).outputs["y"]
    np.testing.assert_array_equal(found, run_layers(graph, {"x": x})["y"])


@pytest.mark.parametrize("config", [Config(), Config(ub_rows=512, acc_rows=64)], ids=["", "small"])
@pytest.mark.parametrize(
    ("kernel", "stride", "size", "padding"),
    [
        ((3, 3), (2, 2), None, (0, 0)),  # four windows
        ((4, 4), (2, 2), None, (1, 1)),  # phases share windows
        ((2, 2), (2, 2), (9, 13), (0, 0)),  # the last rectangles are cut
        ((1, 2), (3, 4), None, (0, 0)),  # phases that nothing reaches
        ((5, 3), (2, 1), (15, 9), (0, 0)),  # another stride for each axis
        ((3, 3), (1, 1), (2, 3), (3, 4)),  # pixels that reach nothing
    ],
)
def test_phases_make_what_the_definition_says(config, kernel, stride, size, padding):
    exact(network((5, 7, 20), kernel, stride, channels=23, size=size, padding=padding), config)


@pytest.mark.parametrize(
    ("extent", "inputs", "channels", "kernel"),
    [(16, 64, 64, 3), (32, 64, 64, 3), (16, 128, 128, 3), (16, 64, 64, 4), (32, 128, 64, 2)],
)
def test_most_cycles_multiply(extent, inputs, channels, kernel):
    shape, padding = (extent, extent, inputs), max(kernel - 2, 0) // 2
    graph = network(shape, (kernel, kernel), (2, 2), channels=channels, padding=(padding, padding))
    macs = extent**2 * kernel**2 * inputs * channels
    cycles = predict_cycles(kept_program(graph, Config()).commands, Config())
    assert macs / 256 >= 0.85 * cycles
