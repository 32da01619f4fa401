"""Bound networks: legal, and exact to the bit."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.golden.check import check
from tpulite_testing.drawn.range_networks import config_name, draw_network, resized, results, wanted
from tpulite_testing.regress import thinned

CONFIGS = (
    Config(),
    Config(array_size=8, requant_lanes=2, vector_lanes=4, ub_rows=4096),
    Config(array_size=4, ub_rows=4096, acc_rows=64),
    Config(array_size=32, ub_rows=4096),
    Config(ub_rows=1024, acc_rows=64),
    Config(array_size=8, ub_rows=2048, acc_rows=128, queue_depth=2),
)
SHAPES = ShapeRange((1, 4), (9, 26), (9, 26))


@pytest.mark.parametrize("seed", thinned(range(6), *range(2), reason="others like them"))
@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_drawn_networks_at_drawn_shapes(config, seed):
    rng = np.random.default_rng(seed)
    graph = draw_network(100 * CONFIGS.index(config) + seed)
    program = compile_range(graph, SHAPES, config)
    for batch in (1, int(rng.integers(2, 5))):
        height, width = rng.integers(9, 27, 2).tolist()
        bound = program.bind(height, width, batch=batch)
        assert check(bound) == []
        inputs = {
            name: rng.integers(-128, 128, (batch, *image.shape)).astype(np.int8)
            for name, image in resized(graph, height, width).activations.items()
            if name in graph.inputs
        }
        due = wanted(resized(graph, height, width), inputs)
        for name, value in results(bound, inputs).items():
            np.testing.assert_array_equal(value, due[name])
