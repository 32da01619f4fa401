"""Binding takes less than a millisecond for a layer, and a few for a network."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.compiler.bind import Shape, ShapeRange, compile_range
from tpulite.compiler.bind.site import bind_network
from tpulite.graph.layers import Activation, Elementwise, LayerGraph, Requantization
from tpulite.models.architectures import mobilenet_v2
from tpulite_testing.drawn.range_networks import Builder
from tpulite_testing.graphs.range_layers import affine, conv, pool
from tpulite_testing.graphs.range_networks import keywords, resnet8
from tpulite_testing.timing import yardsticks

LIMIT = 2400
"""Yardsticks for one layer."""

NETWORKS = {
    "resnet8": (resnet8, (32, 32), 6_000),
    "keywords": (keywords, (49, 10), 4_500),
    "mobilenet_v2": (mobilenet_v2, (224, 224), 27_000),
}
"""With the limits for a shape that is new to the program: half as much again as on an idle machine,
because beside other work caches are cold."""


def add() -> LayerGraph:
    requantization = Requantization(multiplier=np.array([1 << 30]), shift=np.array([-18]))
    layer = Elementwise(
        name="add",
        inputs=("x", "z"),
        output="y",
        op="add",
        requantization=requantization,
        zero_points=(0, 0),
        multipliers=(1 << 30, 1 << 30),
        shifts=(0, 0),
        scaling=Scaling.TFLITE,
    )
    image = Activation((8, 8, 64))
    images = dict.fromkeys(("x", "z", "y"), image)
    return LayerGraph("dynamic", (layer,), images, ("x", "z"), ("y",))


def depthwise(channels: int) -> LayerGraph:
    net = Builder(np.random.default_rng(1), (8, 8, channels))
    return net.graph(net.depthwise("x", 3))


GRAPHS = {
    "batch norm": affine(64),
    "add": add(),
    "max pool": pool((3, 3), "max"),
    "average pool": pool((3, 3), "average"),
    "conv 3 x 3": conv((3, 3), 64, 64),
    "conv 1 x 1": conv((1, 1), 64, 64),
    "depthwise 3 x 3": depthwise(64),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("extents", [(7, 7, 8), (32, 32, 1), (56, 56, 1), (112, 80, 1)])
def test_binding_costs_little(name, extents):
    height, width, batch = extents
    channels = GRAPHS[name].activations["x"].shape[2]
    shapes = ShapeRange((1, 8), (3, 112), (3, 112), (channels, channels))
    dynamic = compile_range(GRAPHS[name], shapes, Config())
    shape = Shape(batch, height, width, channels)
    cost = yardsticks(lambda: bind_network(dynamic.network, shape))
    print(f"{cost:.0f} yardsticks")
    assert cost < LIMIT


@pytest.mark.parametrize("name", NETWORKS)
def test_binding_networks_costs_little(name):
    make, extents, limit = NETWORKS[name]
    program = compile_range(make(), ShapeRange((1, 4), (16, 224), (10, 224)), Config())

    shape = Shape(
        1, extents[0], extents[1], program.layers.activations[program.layers.inputs[0]].shape[2]
    )
    cost = yardsticks(lambda: bind_network(program.network, shape))
    print(f"{cost:.0f} yardsticks")
    assert cost < limit
    assert program.bind(*extents) is program.bind(*extents)
