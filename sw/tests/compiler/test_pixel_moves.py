"""Pixels that become channels before a convolution: same results, and no moves."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite import pixel_moves
from tpulite.compiler.rewrite.pixel_moves import fold_pixel_moves
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Concat, Conv, LayerGraph, Pick
from tpulite_testing.drawn.layer_networks import LayerNetwork

CONFIG = Config(array_size=4)
WITHOUT = ((), ("fold-pixel-moves",))


def folded(graph: LayerGraph, config: Config = CONFIG) -> LayerGraph:
    """Fold, and compare the results."""
    after = fold_pixel_moves(graph, config)
    x = np.random.default_rng(1).integers(-128, 128, graph.activations["x"].shape, np.int8)
    wanted, found = run_layers(graph, {"x": x}), run_layers(after, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])
    return after


def sliced(net: LayerNetwork, x: str, start: tuple[int, int], step: tuple[int, int], count) -> str:
    """Add a strided slice of so many rows and columns."""
    rows, columns = (
        tuple(a + s * np.arange(n)) for a, s, n in zip(start, step, count, strict=True)
    )
    return net.add(Pick, x, rows=rows, columns=columns, channels=tuple(range(net.count(x))))


def to_depth(net: LayerNetwork, x: str, block: int) -> str:
    """Add space to depth as importers write it."""
    count = [size // block for size in net.images[x].shape[:2]]
    starts = [(y, x) for y in range(block) for x in range(block)]
    return net.add(Concat, *(sliced(net, x, start, (block, block), count) for start in starts))


def convolved(net: LayerNetwork, x: str) -> str:
    """Add a convolution of any geometry."""
    c = net.choices
    kernel, dilation = c.integer(1, 3), (c.integer(1, 2), c.integer(1, 2))
    reach, size = [(kernel - 1) * d for d in dilation], net.images[x].shape
    before = [c.integer(0, r) for r in reach]
    after = [
        c.integer(max(0, r + 1 - n - b), r + 1)
        for r, n, b in zip(reach, size, before, strict=False)
    ]
    padding = (*before, *after)
    stride = c.integer(1, 2), c.integer(1, 2)
    return net.products(x, 5, kernel, stride=stride, dilation=dilation, padding=padding)


def drawn(seed: int) -> LayerGraph:
    """Draw slices at any distances, joined, which convolutions read, and perhaps others."""
    net = LayerNetwork(seed, 3, 11 + seed % 3)
    c = net.choices
    x = net.products("x", 4) if c.chance(50) else "x"
    size, step = net.images[x].shape[0], (c.integer(1, 3), c.integer(1, 3))
    count = [size // s - c.chance(10) for s in step]
    parts = []
    for _ in range(c.integer(1, 4)):
        start = [c.integer(0, size - 1 - s * (n - 1)) for s, n in zip(step, count, strict=True)]
        if c.chance(70):
            start = [min(a, s - 1) for a, s in zip(start, step, strict=True)]
        parts.append(sliced(net, x, (start[0], start[1]), step, count))
    y = net.add(Concat, *parts) if len(parts) > 1 else parts[0]
    results = [convolved(net, y) for _ in range(c.integer(1, 2))]
    return net.graph(*results, *([parts[0]] if c.chance(20) else []))


@pytest.fixture
def always(monkeypatch):
    """Fold whatever it costs."""
    monkeypatch.setattr(pixel_moves, "_pays", lambda *_: True)


@pytest.mark.usefixtures("always")
def test_drawn_networks_compute_the_same_and_many_change():
    graphs = [drawn(seed) for seed in range(120)]
    changed = sum(folded(graph) is not graph for graph in graphs)
    assert 15 < changed < 60


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("without", WITHOUT)
def test_programs_are_translations_of_drawn_networks(seed, without):
    graph, options = drawn(seed), Options(effort=0, without=without)
    assert validate_translation(graph, compile_layers(graph, CONFIG, options), options) == []


@pytest.mark.parametrize("block", [2, 3])
def test_space_to_depth_of_an_input_is_free(block):
    net = LayerNetwork(block, 3, 12)
    graph = net.graph(net.products(to_depth(net, "x", block), 8))
    (layer,) = folded(graph, Config()).layers
    assert isinstance(layer, Conv)
    assert layer.stride == (block, block)
    assert layer.weight.shape[:2] == (3 * block, 3 * block)


@pytest.mark.usefixtures("always")
def test_padding_that_would_be_pixels_stays():
    net = LayerNetwork(1, 3, 13)  # the last row and column are in no slice
    graph = net.graph(net.products(to_depth(net, "x", 2), 8))
    assert folded(graph) is graph


@pytest.mark.usefixtures("always")
def test_elements_that_are_read_twice_stay():
    net = LayerNetwork(1, 3, 12)
    y = sliced(net, "x", (0, 0), (2, 2), (6, 6))
    graph = net.graph(net.products(net.add(Concat, y, y), 8, 1))
    assert folded(graph) is graph


def test_taps_that_would_cost_more_than_moves_stay():
    net = LayerNetwork(1, 16, 13)
    y = sliced(net, net.products("x", 16), (2, 2), (3, 3), (3, 3))
    graph = net.graph(net.products(y, 16))
    assert folded(graph) is graph
