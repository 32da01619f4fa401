"""Networks of several outputs, outputs that layers read again, and dilated depthwise layers."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.golden.check import check
from tpulite.graph.layers import LayerGraph
from tpulite_testing.drawn.range_networks import Builder, config_name, resized, results, wanted

CONFIGS = (
    Config(),
    Config(array_size=8, requant_lanes=2, vector_lanes=4, ub_rows=2048),
    Config(ub_rows=1024, acc_rows=64),
)
SHAPES = ShapeRange((1, 4), (9, 26), (9, 26))


def check_shapes(graph: LayerGraph, config: Config, seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = compile_range(graph, SHAPES, config)
    for batch, height, width in [(1, 9, 26), (3, 17, 12), (4, 26, 26)]:
        bound = program.bind(height, width, batch=batch)
        assert check(bound) == []
        shape = (batch, height, width, graph.activations["x"].shape[2])
        inputs = {"x": rng.integers(-128, 128, shape).astype(np.int8)}
        due = wanted(resized(graph, height, width), inputs)
        found = results(bound, inputs)
        assert found.keys() == due.keys()
        for name, value in found.items():
            np.testing.assert_array_equal(value, due[name])


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_outputs_may_be_read_again(config):
    net = Builder(np.random.default_rng(3), (16, 16, 20))
    first = net.conv("x", 24, 3)
    second = net.lut(net.depthwise(first, 3))
    third = net.join(first, second)
    down = net.conv(third, 40, 3, 2)
    graph = net.graph(first, third, net.conv(net.mean(down), 10, 1), down)
    check_shapes(graph, config, 3)


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
@pytest.mark.parametrize(
    "fields",
    [
        {"dilation": (2, 2), "padding": (2, 2, 2, 2)},
        {"dilation": (1, 3), "padding": (1, 2, 0, 5)},
        {"dilation": (4, 1), "padding": (7, 0, 3, 1), "stride": 2},
    ],
)
def test_dilated_depthwise_layers(config, fields):
    net = Builder(np.random.default_rng(4), (16, 16, 20))
    x = net.depthwise(net.conv("x", 40, 1), 3, **fields)
    check_shapes(net.graph(net.conv(x, 16, 1)), config, 4)
