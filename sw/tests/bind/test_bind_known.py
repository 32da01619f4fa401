"""Equal layers and programs that are kept: nothing of one reaches another."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.golden.check import check
from tpulite_testing.drawn.range_networks import Builder, draw_network, resized, results, wanted

SHAPES = ShapeRange((1, 4), (9, 26), (9, 26))


def blocks(rng):
    """Make a network of blocks that differ in weights and zero points alone."""
    net = Builder(rng, (16, 16, 48))
    x = "x"
    for _ in range(4):
        x = net.join(x, net.conv(net.depthwise(net.conv(x, 64, 1), 3), 48, 3))
    return net.graph(x)


@pytest.mark.parametrize("extents", [(1, 16, 16), (3, 11, 26)])
def test_equal_layers_keep_their_own_weights_and_zero_points(extents):
    rng = np.random.default_rng(7)
    graph, (batch, height, width) = blocks(rng), extents
    bound = compile_range(graph, SHAPES, Config()).bind(height, width, batch=batch)
    assert check(bound) == []
    inputs = {"x": rng.integers(-128, 128, (batch, height, width, 48)).astype(np.int8)}
    due = wanted(resized(graph, height, width), inputs)
    for name, value in results(bound, inputs).items():
        np.testing.assert_array_equal(value, due[name])


@pytest.mark.parametrize("seed", range(6))
def test_programs_do_not_depend_on_the_shapes_bound_before(seed):
    graph = draw_network(seed)
    used = compile_range(graph, SHAPES, Config(ub_rows=4096))
    for batch, height, width in [(1, 9, 26), (2, 9, 26), (4, 13, 12), (1, 9, 26)]:
        fresh = compile_range(graph, SHAPES, Config(ub_rows=4096))
        pair = [each.bind(height, width, batch=batch) for each in (used, fresh)]
        assert pair[0].encode() == pair[1].encode()
        assert pair[0].constants == pair[1].constants
