"""Bound networks take about as many cycles as the programs compiled for their shapes."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Conv, LayerGraph
from tpulite.models.architectures import mobilenet_v2
from tpulite_testing.drawn.range_networks import Builder, resized

MOST = 1.05
SHAPES = ShapeRange((1, 16), (16, 224), (10, 224))


def resnet8() -> LayerGraph:
    net = Builder(np.random.default_rng(1), (32, 32, 3))
    x = net.conv("x", 16, 3)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.conv(net.conv(x, channels, 3, stride), channels, 3)
        x = net.join(net.conv(x, channels, 1, stride) if stride == 2 else x, y)
    return net.graph(net.conv(net.mean(x), 10, 1))


def keywords() -> LayerGraph:
    net = Builder(np.random.default_rng(2), (49, 10, 1))
    weight = net.rng.integers(-128, 128, (10, 4, 1, 64)).astype(np.int8)
    fields = {"requantization": net.scaled(64, 40), "stride": (2, 2), "padding": (4, 1, 5, 1)}
    x = net.add(Conv, "x", weight=weight, **fields)
    for _ in range(4):
        x = net.conv(net.depthwise(x, 3), 64, 1)
    return net.graph(net.conv(net.mean(x), 12, 1))


CASES = {
    "resnet8": (resnet8, [(1, 32, 32), (8, 32, 32), (1, 64, 48), (1, 17, 31), (4, 16, 16)]),
    "keywords": (keywords, [(1, 49, 10), (8, 49, 10), (16, 49, 10), (1, 98, 20)]),
    "mobilenet_v2": (mobilenet_v2, [(1, 224, 224), (1, 192, 160)]),
}


@pytest.mark.parametrize("name", CASES)
def test_bound_programs_take_hardly_more_cycles(name):
    make, shapes = CASES[name]
    graph, config = make(), Config()
    program = compile_range(graph, SHAPES, config)
    for batch, height, width in shapes:
        bound = program.bind(height, width, batch=batch)
        assert check(bound) == []
        alone = compile_layers(resized(graph, height, width), config, Options(batch=batch))
        cycles = [predict_cycles(each.commands, config) for each in (bound, alone)]
        print(f"{name} {batch}x{height}x{width}: {cycles[0]}, compiled for it {cycles[1]}")
        assert cycles[0] <= MOST * cycles[1]
