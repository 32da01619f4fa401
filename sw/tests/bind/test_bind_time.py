"""Binding a shape takes less than a millisecond on an idle machine."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.graph.layers import Elementwise, Image, LayerGraph, Requantization
from tpulite_testing.graphs.range_layers import affine, conv, pool
from tpulite_testing.timing import yardsticks

LIMIT = 1500
"""Yardsticks."""


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
    image = Image((8, 8, 64))
    images = dict.fromkeys(("x", "z", "y"), image)
    return LayerGraph("dynamic", (layer,), images, ("x", "z"), ("y",))


GRAPHS = {
    "batch norm": affine(64),
    "add": add(),
    "max pool": pool((3, 3), "max"),
    "average pool": pool((3, 3), "average"),
    "conv 3 x 3": conv((3, 3), 64, 64),
    "conv 1 x 1": conv((1, 1), 64, 64),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("extents", [(7, 7, 8), (32, 32, 1), (56, 56, 1), (112, 80, 1)])
def test_binding_costs_little(name, extents):
    height, width, batch = extents
    channels = GRAPHS[name].images["x"].shape[2]
    shapes = ShapeRange((1, 8), (3, 112), (3, 112), (channels, channels))
    dynamic = compile_range(GRAPHS[name], shapes, Config())
    cost = yardsticks(lambda: dynamic.bind(height, width, batch=batch))
    print(f"{cost:.0f} yardsticks")
    assert cost < LIMIT
