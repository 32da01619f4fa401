"""A layer that is the whole network runs as tiles where strips take more cycles."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Depthwise, Layer, LayerGraph, Pool
from tpulite_testing.oracles.plain_layers import (
    plain_conv,
    plain_pool,
    random_requantization,
    run_layer,
)

CONFIGS = {"16": Config(), "4": Config(array_size=4, ub_rows=4096, acc_rows=64)}


def depthwise(rng, stride: int, channels: int) -> Depthwise:
    return Depthwise(
        name="depthwise",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (3, 3, channels)).astype(np.int8),
        requantization=random_requantization(rng, channels, 30_000),
        input_zero_point=int(rng.integers(-128, 128)),
        weight_zero_point=int(rng.integers(-128, 128)),
        stride=(stride, stride),
        padding=(1, 1, 1, 1),
    )


def pooling(window: int) -> Pool:
    size = (window, window)
    return Pool(name="pool", inputs=("x",), output="y", op="max", window=size, stride=size)


def cycles(layer: Layer, size: tuple[int, int], out: tuple[int, int]) -> int:
    shapes = {"x": Activation((*size, 64)), "y": Activation((*out, 64))}
    graph = LayerGraph("alone", (layer,), shapes, ("x",), ("y",))
    return predict_cycles(compile_layers(graph, Config(), Options()).commands, Config())


@pytest.mark.parametrize(
    ("layer", "size", "out", "most"),
    [
        (depthwise(np.random.default_rng(1), 2, 64), (64, 48), (32, 24), 15_100),
        (depthwise(np.random.default_rng(1), 1, 64), (17, 31), (17, 31), 3_800),
        (pooling(2), (14, 14), (7, 7), 3_900),
    ],
    ids=["depthwise stride 2", "depthwise stride 1", "pool"],
)
def test_layers_alone_are_as_fast_as_their_tiles(layer, size, out, most):
    assert cycles(layer, size, out) <= most


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_tiles_of_depthwise_layers_are_exact(config, seed):
    rng = np.random.default_rng(seed)
    stride, channels = 1 + seed % 2, int(rng.choice([5, 16, 33]))
    size = tuple(int(v) for v in rng.integers(9, 33, 2))
    out = tuple((extent - 1) // stride + 1 for extent in size)
    layer = depthwise(rng, stride, channels)
    x = rng.integers(-128, 128, (*size, channels)).astype(np.int8)
    got = run_layer(layer, {"x": x.shape, "y": (*out, channels)}, {"x": x}, config)
    np.testing.assert_array_equal(got, plain_conv(x, layer, out, depthwise=True))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_tiles_of_pooling_are_exact(config, seed):
    rng = np.random.default_rng(seed)
    window, channels = 2 + seed % 2, int(rng.choice([5, 16, 33]))
    size = tuple(int(v) for v in rng.integers(9, 33, 2))
    out = tuple((extent - window) // window + 1 for extent in size)
    x = rng.integers(-128, 128, (*size, channels)).astype(np.int8)
    shapes = {"x": x.shape, "y": (*out, channels)}
    got = run_layer(pooling(window), shapes, {"x": x}, config)
    np.testing.assert_array_equal(got, plain_pool(x, pooling(window), out))
