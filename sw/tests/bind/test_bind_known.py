"""Equal layers and programs that are kept: nothing of one reaches another."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
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


@pytest.mark.parametrize(
    ("kernel", "extents", "lines"),
    [(5, (3, 14, 15), 1), (5, (1, 9, 7), 1), (7, (2, 14, 33), 1), (5, (2, 20, 5), 0)],
)
def test_large_kernels_go_through_delay_lines_unless_columns_are_few(kernel, extents, lines):
    rng, (batch, height, width) = np.random.default_rng(8), extents
    net = Builder(rng, (20, 20, 40))
    graph = net.graph(net.depthwise("x", kernel))
    shapes = ShapeRange((1, 4), (5, 20), (5, 40))
    bound = compile_range(graph, shapes, Config()).bind(height, width, batch=batch)
    assert check(bound) == []
    inputs = {"x": rng.integers(-128, 128, (batch, height, width, 40)).astype(np.int8)}
    due = wanted(resized(graph, height, width), inputs)
    for name, value in results(bound, inputs).items():
        np.testing.assert_array_equal(value, due[name])
    found = [x for x in bound.commands if x.opcode == Opcode.CONV and x["depthwise"]]
    assert any((x["kernel_rows"], x["kernel_columns"]) == (3, 5) for x in found) == lines


@pytest.mark.parametrize("seed", range(6))
def test_programs_do_not_depend_on_the_shapes_bound_before(seed):
    graph = draw_network(seed)
    used = compile_range(graph, SHAPES, Config(ub_rows=4096))
    for batch, height, width in [(1, 9, 26), (2, 9, 26), (4, 13, 12), (1, 9, 26)]:
        fresh = compile_range(graph, SHAPES, Config(ub_rows=4096))
        pair = [each.bind(height, width, batch=batch) for each in (used, fresh)]
        assert pair[0].encode() == pair[1].encode()
        assert pair[0].constants == pair[1].constants
