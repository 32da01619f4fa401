"""Convolutions that read several channel blocks at a time, in buffers too small for all."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.compiler.operators.words import Maker, Needs
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Concat
from tpulite.models.architectures import mobilenet_v2
from tpulite_testing.drawn.range_networks import Builder, config_name, resized, results, wanted

CONFIGS = (
    Config(ub_rows=1024),
    Config(array_size=8, ub_rows=512, acc_rows=256),
    Config(array_size=4, ub_rows=512, acc_rows=128),
)
SHAPES = ShapeRange((1, 3), (3, 14), (3, 14))


def deep(seed: int, blocks: int, size: int):
    """Return convolutions over many channel blocks, of one layer and of three that are joined."""
    net = Builder(np.random.default_rng(seed), (8, 8, 2 * size))
    first = net.conv("x", blocks * size, 1)
    second = net.conv(first, 5 * size, 3)
    parts = [net.conv(second, n * size, 1) for n in (3, blocks // 2, 4)]
    joined = net.add(Concat, *parts, axis=2)
    return net.graph(net.conv(joined, 3 * size + 1, 1), net.conv(joined, 2 * size, 3, 2))


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
@pytest.mark.parametrize("seed", range(2))
def test_chunks_of_channels_have_the_bits_of_the_layers(config, seed):
    rng = np.random.default_rng(seed)
    graph = deep(seed, 18 + 5 * seed, config.array_size)
    program = compile_range(graph, SHAPES, config)
    chosen = []
    for batch, height, width in ((1, 5, 4), (1, 14, 13), (2, 7, 7), (3, 3, 9)):
        plan = program.plan(height, width, batch=batch)
        sizes = [
            each.strategy.sizes for each in plan.layers if each.strategy.name.startswith("chunks")
        ]
        chosen += [(each["chunk"], each["beside"]) for each in sizes]
        bound = program.bind(height, width, batch=batch)
        assert check(bound) == []
        here = resized(graph, height, width)
        inputs = {"x": rng.integers(-128, 128, (batch, height, width, 2 * config.array_size))}
        inputs = {name: value.astype(np.int8) for name, value in inputs.items()}
        due = wanted(here, inputs)
        for name, value in results(bound, inputs).items():
            np.testing.assert_array_equal(value, due[name])
    assert max(min(each) for each in chosen) > 1, "no shape reads several blocks for several"


def test_blocks_of_three_makers_wait_for_all_of_them():
    stop = np.array([10, 20, 30])
    needs = Needs(stop, blocks=np.array([9, 5, 3]), first=np.array([2, 5, 0]))
    for maker, mine, blocks in (
        (Maker(1, 4, 4), [True, True, False], [3, 1]),
        (Maker(2, 8, 4), [True, False, False], [1]),
    ):
        part, waits = maker.part(needs)
        assert np.asarray(waits).tolist() == mine
        assert part.blocks is not None
        assert part.blocks[waits].tolist() == blocks
        assert part.stop.tolist() == stop.tolist()


def test_a_small_buffer_costs_a_deep_network_little():
    graph, config = mobilenet_v2(), Config(ub_rows=4096)
    program = compile_range(graph, ShapeRange((1, 1), (16, 224), (16, 224)), config)
    assert predict_cycles(program.bind(224, 224).commands, config) < 1_700_000
