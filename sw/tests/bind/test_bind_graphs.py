"""Networks of several outputs, outputs that layers read again, and dilated depthwise layers."""

import itertools

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis, Opcode
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.golden.check import check
from tpulite.graph.layers import Concat, LayerGraph, Pad
from tpulite_testing.drawn.range_networks import Builder, config_name, resized, results, wanted
from tpulite_testing.regress import thinned

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


@pytest.mark.parametrize(
    ("rows", "kernel", "stride"), [(1024, 3, 1), (64, 3, 1), (256, 3, 2), (256, 6, 2)]
)
@pytest.mark.parametrize("across", [False, True])
def test_depthwise_layers_between_few_and_many_outputs(rows, kernel, stride, across):
    """With N = 16, outputs 5 and 6 of stride 1, and 3 of stride 2, have no tile of their own.

    Every second tap of a 6x6 kernel with a stride of 2 is a 3x3 kernel with a stride of 1.
    """
    config = Config(ub_rows=1024, acc_rows=rows)
    net, rng = Builder(np.random.default_rng(6), (16, 16, 20)), np.random.default_rng(7)
    graph = net.graph(net.conv(net.depthwise("x", kernel, stride), 16, 1))
    program = compile_range(graph, ShapeRange((1, 2), (3, 70), (3, 70)), config)
    widths = set()
    for extent in (*range(3, 15), 32, 33, 38, 66):
        height, width = (40, extent) if across else (extent, 40)
        bound = program.bind(height, width, batch=2)
        assert check(bound) == []
        inputs = {"x": rng.integers(-128, 128, (2, height, width, 20)).astype(np.int8)}
        (due,) = wanted(resized(graph, height, width), inputs).values()
        (found,) = results(bound, inputs).values()
        np.testing.assert_array_equal(found, due)
        streams = [c for c in bound.commands if c.opcode == Opcode.CONV and c["depthwise"]]
        widths |= {c["columns" if c["inner"] == Axis.X else "rows"] for c in streams}
    few, many = (2, 4) if (kernel, stride) == (3, 2) else (4, 7)
    assert min(widths) <= few < many <= max(widths)
    assert not widths & set(range(few + 1, many))


DILATED = (
    {"dilation": (2, 2), "padding": (2, 2, 2, 2)},
    {"dilation": (1, 3), "padding": (1, 2, 0, 5)},
    {"dilation": (4, 1), "padding": (7, 0, 3, 1), "stride": 2},
)


def once(count: int) -> list[object]:
    """Return pairs of so many cases and machines: in ``make test`` each machine has a case."""
    pairs = itertools.product(range(count), range(len(CONFIGS)))
    return thinned(pairs, (0, 0), (1, 1), (2, 2), reason="each machine has one of them")


@pytest.mark.parametrize(("form", "machine"), once(len(DILATED)))
def test_dilated_depthwise_layers(form, machine):
    config, fields = CONFIGS[machine], DILATED[form]
    net = Builder(np.random.default_rng(4), (16, 16, 20))
    x = net.depthwise(net.conv("x", 40, 1), 3, **fields)
    check_shapes(net.graph(net.conv(x, 16, 1)), config, 4)


def dense_block(seed: int) -> LayerGraph:
    """Draw frames, and channels that are joined, joined again, read twice, and shown."""
    rng = np.random.default_rng(seed)
    net = Builder(rng, (16, 16, int(rng.choice([3, 16, 20]))))
    joined = net.conv("x", int(rng.choice([8, 16, 32, 40])), 3)
    shown = []
    for _ in range(int(rng.integers(1, 4))):
        new = net.conv(joined, int(rng.choice([8, 16, 32])), int(rng.choice([1, 3])))
        others = [net.lut(joined), net.pool(joined, "max", 3, 1, 1), "x", new, joined]
        more = [others[i] for i in rng.integers(0, len(others), int(rng.integers(0, 3)))]
        order = rng.permutation([joined, new, *more]).tolist()
        joined = net.add(Concat, *order)
        shown += [joined] if rng.random() < 0.3 else []
    top, left, bottom, right = rng.integers(0, 5, 4).tolist()
    frame = {"padding": (top, left, bottom, right), "value": int(rng.integers(-128, 128))}
    framed = net.add(Pad, joined, **frame)
    last = net.depthwise(framed, 3, 2) if rng.random() < 0.5 else framed
    return net.graph(*dict.fromkeys((*shown, last)))


@pytest.mark.parametrize(("seed", "machine"), once(8))
def test_channels_are_joined_and_frames_added(seed, machine):
    check_shapes(dense_block(seed), CONFIGS[machine], seed)


def test_blocks_that_are_joined_are_computed_where_they_lie():
    net = Builder(np.random.default_rng(1), (16, 16, 16))
    a, b = net.conv("x", 32, 3), net.conv("x", 16, 1)
    graph = net.graph(net.conv(net.add(Concat, a, b), 16, 1))
    bound = compile_range(graph, SHAPES, Config()).bind(16, 16)
    assert [layer.name for layer in bound.layers] == [layer.name for layer in graph.layers[:2]] + [
        graph.layers[-1].name
    ]


def test_branches_must_have_the_same_extents_at_every_shape():
    net = Builder(np.random.default_rng(1), (16, 16, 16))
    graph = net.graph(net.add(Concat, net.pool("x", "max", 2, 2), net.conv("x", 16, 3, 2)))
    program = compile_range(graph, SHAPES, Config())
    assert check(program.bind(16, 20)) == []
    message = r"^Layer 'layer2' joins 7 x 9 and 8 x 9 positions$"
    with pytest.raises(ValueError, match=message):
        program.bind(15, 18)
