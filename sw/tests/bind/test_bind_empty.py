"""Extents of 0: there is nothing to compute, and a program for it."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.bind import Shape, ShapeRange, compile_range
from tpulite.compiler.bind.empty import total_strategies
from tpulite.compiler.plan.slabs import choose_all
from tpulite.golden.check import check
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.drawn.range_networks import Builder
from tpulite_testing.graphs.range_layers import affine, conv, pool

LIMITS = ShapeRange((0, 3), (0, 40), (0, 40))


def network():
    net = Builder(np.random.default_rng(1), (24, 24, 3))
    return net.graph(net.conv(net.conv("x", 16, 3, 2), 20, 3))


@pytest.mark.parametrize(
    ("graph", "features", "stride"),
    [
        (affine(40), 40, 1),
        (pool((3, 3)), 64, 1),
        (conv((3, 3), 3, 8), 8, 1),
        (conv((3, 3), 3, 8, stride=(2, 2)), 8, 2),
        (network(), 20, 2),
    ],
)
def test_an_empty_shape_gives_an_empty_result_of_its_shape(graph, features, stride, tmp_path):
    program = compile_range(graph, LIMITS, Config())
    for batch, height, width in ((0, 8, 6), (1, 0, 6), (2, 8, 0), (0, 0, 0)):
        program.bind(height, width, batch=batch).save(tmp_path / "empty.tpu")
        bound = Program.load(tmp_path / "empty.tpu")
        assert [command.opcode for command in bound.commands] == [Opcode.END]
        assert check(bound) == []
        x = np.empty((batch, height, width, graph.activations["x"].shape[2]), np.int8)
        output = Session(bound).run(x).output
        assert output.shape == (batch, height // stride, width // stride, features)


def test_no_channels_are_an_empty_shape():
    program = compile_range(affine(40), ShapeRange((1, 1), (0, 9), (0, 9), (0, 40)), Config())
    assert (
        Session(program.bind(5, 4, channels=0)).run(np.empty((1, 5, 4, 0), np.int8)).output.size
        == 0
    )
    assert Session(program.bind(5, 4, channels=3)).run(np.ones((1, 5, 4, 3), np.int8)).output.size


def test_a_range_may_hold_nothing_but_empty_shapes():
    program = compile_range(
        conv((5, 5), 3, 8, padding=(0,) * 4), ShapeRange((0, 0), *[(0, 0)] * 2), Config()
    )
    assert program.strategy(Shape(0, 0, 0, 3)).name == "empty"


@pytest.mark.parametrize(
    "graph", [affine(40), pool((3, 3)), conv((3, 3), 40, 8), conv((5, 1), 3, 8)]
)
def test_the_selector_is_total_where_extents_are_0(graph):
    program = compile_range(graph, LIMITS, Config())
    channels = graph.activations["x"].shape[2]
    axes = np.meshgrid(range(4), range(12), range(12), [channels], indexing="ij")
    batch, height, width, depth = (axis.ravel().astype(np.int64) for axis in axes)
    strategies = total_strategies(program.operator, batch, height, width, depth)
    chosen = choose_all(strategies, batch.shape)
    assert (chosen >= 0).all()
    empty = batch * height * width == 0
    np.testing.assert_array_equal(chosen == len(strategies) - 1, empty)
    plain = program.operator.strategies([axis[~empty] for axis in (batch, height, width, depth)])
    np.testing.assert_array_equal(chosen[~empty], choose_all(plain, (np.count_nonzero(~empty),)))
    for i in range(0, len(batch), 7):
        shape = Shape(int(batch[i]), int(height[i]), int(width[i]), channels)
        assert program.strategy(shape).name == strategies[chosen[i]].name


def test_windows_of_padding_alone_are_refused():
    message = (
        r"^Layer 'conv': height must be 1 or more, not 0, because its padding alone "
        r"gives 1 position$"
    )
    with pytest.raises(ValueError, match=message):
        compile_range(conv((2, 2), 3, 8), LIMITS, Config())
    program = compile_range(conv((2, 2), 3, 8), ShapeRange((0, 3), (1, 40), (1, 40)), Config())
    assert (
        Session(program.bind(1, 1, batch=0)).run(np.empty((0, 1, 1, 3), np.int8)).output.shape[0]
        == 0
    )
