"""A layer that is the whole network runs as tiles where strips take more cycles."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler import pipeline, tile_choice
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.lower.tiles import TiledLayer
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.stages import place
from tpulite.compiler.state import Plans, State
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, Depthwise, Layer, LayerGraph, Pool
from tpulite.runtime.session import Session
from tpulite_testing.oracles.plain_layers import (
    plain_conv,
    plain_pool,
    random_requantization,
)

CONFIGS = {"16": Config(), "4": Config(array_size=4, ub_rows=4096, acc_rows=64)}


def depthwise(rng, stride: int, channels: int, kernel: int = 3) -> Depthwise:
    return Depthwise(
        name="depthwise",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (kernel, kernel, channels)).astype(np.int8),
        requantization=random_requantization(rng, channels, 30_000),
        input_zero_point=int(rng.integers(-128, 128)),
        weight_zero_point=int(rng.integers(-128, 128)),
        stride=(stride, stride),
        padding=(kernel // 2,) * 4,
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
        (depthwise(np.random.default_rng(1), 1, 64), (32, 24), (32, 24), 4_800),
        (depthwise(np.random.default_rng(1), 2, 64, 5), (28, 28), (14, 14), 5_400),
        (depthwise(np.random.default_rng(1), 1, 64, 5), (7, 7), (7, 7), 1_400),
        (pooling(2), (14, 14), (7, 7), 3_900),
    ],
    ids=["depthwise stride 2", "depthwise stride 1", "rows", "5x5 stride 2", "7x7", "pool"],
)
def test_layers_alone_are_as_fast_as_their_tiles(layer, size, out, most):
    assert cycles(layer, size, out) <= most


def convolution(rng, kernel: int, channels: int) -> Conv:
    return Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (kernel, kernel, channels, 21)).astype(np.int8),
        requantization=random_requantization(rng, 21, 60_000),
        input_zero_point=int(rng.integers(-128, 128)),
        padding=(kernel // 2,) * 4,
    )


def drawn(rng, family: str, n: int) -> tuple[Layer, int, int, Callable[..., np.ndarray]]:
    """Return a layer, its channels before and behind, and its oracle, for an array of ``n``."""
    channels = int(rng.choice([n // 3, n, 2 * n + 1]))
    if family.startswith("depthwise"):
        stride, kernel = map(int, family.split()[1:])
        layer = depthwise(rng, stride, channels, kernel)
        return layer, channels, channels, partial(plain_conv, depthwise=True)
    if family.startswith("conv"):
        return convolution(rng, int(family[-1]), channels), channels, 21, plain_conv
    op, window = family.split()
    return replace(pooling(int(window)), op=op), channels, channels, plain_pool


@pytest.mark.parametrize(("name", "batch"), [("16", 1), ("4", 2)])
@pytest.mark.parametrize(
    "family",
    [
        *("depthwise 1 3", "depthwise 2 3", "depthwise 1 5", "depthwise 2 5"),
        *("max 2", "average 3", "conv 1", "conv 3"),
    ],
)
def test_every_strategy_of_tiles_is_exact(name, batch, family, monkeypatch):
    """Each is forced, whatever it costs; the oracle is a loop over the definition."""
    rng, config = np.random.default_rng(len(family) + batch), CONFIGS[name]
    layer, before, behind, oracle = drawn(rng, family, config.array_size)
    size = tuple(int(v) for v in rng.integers(9, 17, 2))
    out = layer._infer(Activation((*size, before))).shape[:2]
    shapes = {"x": Activation((*size, before)), "y": Activation((*out, behind))}
    graph = LayerGraph("alone", (layer,), shapes, ("x",), ("y",), unsigned=frozenset("x"))
    x = rng.integers(0, 256, (batch, *size, before)).astype(np.uint8)
    due = [oracle((each ^ 128).view(np.int8), layer, out) for each in x]
    monkeypatch.setattr(tile_choice, "_OVER", np.inf)
    monkeypatch.setattr(tile_choice, "_LESS", np.inf)
    options = Options(batch=batch, effort=4000, simplify=False)
    plans, forced, ways = TiledLayer.plans, set(), set()
    for number in range(9):

        def only(self, *args, number=number, **options):
            chosen = plans(self, *args, **options)[number : number + 1]
            ways.update(each.way for each in chosen)
            return chosen

        monkeypatch.setattr(TiledLayer, "plans", only)
        stages: dict[str, object] = {}
        program = compile_layers(graph, config, options, dump=stages.__setitem__)
        tiling = stages["tile"]
        assert isinstance(tiling, Tiling)
        buffers = {region.buffer.name for op in tiling.ops for region in op.rows.values()}
        if "tiles of y" not in buffers:
            break
        forced.add(number)
        results = Session(program, "golden").run({"x": x if batch > 1 else x[0]})
        assert results.fault is None
        np.testing.assert_array_equal(results.outputs["y"].reshape(batch, *out, behind), due)
    assert forced, "the layer has no strategy"
    assert ways == ({0, 1} if family == "average 3" else {0})


@pytest.mark.parametrize("op", ["depthwise", "average", "max"])
@pytest.mark.parametrize(("rows", "size"), [(4096, (9, 10)), (512, (18, 16))])
def test_tiles_among_other_layers_are_exact(rows, size, op, monkeypatch):
    """With few rows, activations between the layers go through DRAM; else a pool loads nothing."""
    rng, config = np.random.default_rng(rows), Config(ub_rows=rows)
    first = replace(convolution(rng, 1, 16), name="first", output="a")
    middle: Layer = depthwise(rng, 1, 21)
    oracle: Callable[..., np.ndarray] = partial(plain_conv, depthwise=True)
    if op != "depthwise":
        middle, oracle = replace(pooling(3), op=op, stride=(1, 1), padding=(1,) * 4), plain_pool
    middle = replace(middle, name="middle", inputs=("a",), output="b")
    last = replace(convolution(rng, 3, 21), name="last", inputs=("b",))
    shapes = {"x": Activation((*size, 16))} | dict.fromkeys("aby", Activation((*size, 21)))
    graph = LayerGraph("three", (first, middle, last), shapes, ("x",), ("y",))
    monkeypatch.setattr(tile_choice, "_OVER", np.inf)
    monkeypatch.setattr(tile_choice, "_LESS", np.inf)
    passes = tuple(
        replace(each, run=_apart) if each.name == "choose-groups" else each
        for each in pipeline.PASSES
    )
    monkeypatch.setattr(pipeline, "PASSES", passes)
    stages: dict[str, object] = {}
    options = Options(effort=20_000, simplify=False)
    program = compile_layers(graph, config, options, dump=stages.__setitem__)
    tiling = stages["tile"]
    assert isinstance(tiling, Tiling)
    buffers = {region.buffer.name for op in tiling.ops for region in op.rows.values()}
    assert {f"tiles of {name}" for name in "aby"} <= buffers
    x = rng.integers(-128, 128, (*size, 16)).astype(np.int8)
    a = plain_conv(x, first, size)
    b = oracle(a, middle, size)
    results = Session(program, "golden").run({"x": x})
    assert results.fault is None
    np.testing.assert_array_equal(results.outputs["y"], plain_conv(b, last, size))


def _apart(state: State) -> State:
    """Return the network with a group for each layer."""
    layers = range(len(state.layers.layers))
    groups = tuple(Group(range(i, i + 1)) for i in layers)
    return place(state.choose(groups=groups, plans=Plans()))
