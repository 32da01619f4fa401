"""Moves of channels that are orders of weights: same results, and nothing left to do."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.passes import rewrite
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.channel_moves import fold_channel_moves
from tpulite.compiler.state import State
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Concat, LayerGraph, Pick
from tpulite.graph.requantization import IDENTITY
from tpulite_testing.drawn.layer_networks import LayerNetwork

CONFIG = Config(array_size=4)


def folded(graph: LayerGraph) -> LayerGraph:
    """Fold, and compare the results."""
    after = fold_channel_moves(graph, CONFIG)
    x = np.random.default_rng(1).integers(-128, 128, graph.activations["x"].shape, np.int8)
    wanted, found = run_layers(graph, {"x": x}), run_layers(after, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])
    return after


def drawn(seed: int) -> LayerGraph:
    net = LayerNetwork(seed, 6)
    c, live = net.choices, [net.products("x", net.choices.integer(3, 14))]
    for _ in range(c.integer(2, 7)):
        x = live[c.integer(0, len(live) - 1)]
        kind, count = c.integer(0, 4), net.count(x)
        if kind == 0:
            y = net.products(x, c.integer(3, 14), c.pick((1, 3)))
        elif kind == 1:
            y = net.by_channel(x)
        elif kind == 2 and len(live) > 1:
            same = [z for z in live if net.images[z].shape[:2] == net.images[x].shape[:2]]
            y = net.add(Concat, x, c.pick(same))
        elif c.chance(60):
            y = net.move(x, net.rng.permutation(count), product=c.chance(50))
        else:
            y = net.move(x, net.rng.integers(0, count, c.integer(1, 12)), product=c.chance(50))
        live = [*([x] if c.chance(30) else []), *(z for z in live if z != x), y]
    return net.graph(*dict.fromkeys(live))


@pytest.mark.parametrize("seed", range(60))
def test_drawn_networks_compute_the_same(seed):
    folded(drawn(seed))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("without", [(), ("fold-channel-moves",)])
def test_programs_are_translations_of_drawn_networks(seed, without):
    graph, options = drawn(seed), Options(effort=0, without=without)
    assert validate_translation(graph, compile_layers(graph, CONFIG, options), options) == []


def test_many_drawn_moves_go_and_some_stay():
    def moves(graph: LayerGraph) -> int:
        return sum(isinstance(x, Pick) or getattr(x, "requantization", 0) is IDENTITY
                   for x in graph.layers)  # fmt: skip

    graphs = [drawn(seed) for seed in range(60)]
    before, after = (sum(map(moves, each)) for each in (graphs, map(folded, graphs)))
    assert 30 < after < before - 50


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("between", [0, 1, 2])
@pytest.mark.parametrize("late", [False, True], ids=["made", "read"])
def test_a_shuffle_between_convolutions_is_no_layer(product, between, late):
    net = LayerNetwork(between, 6)
    x = net.products("x", 12)
    kept = [x] if late else []  # others need its order
    if not late:
        for _ in range(between):
            x = net.by_channel(x)
    x = net.move(x, net.rng.permutation(12), product=product)
    if late:
        for _ in range(between):
            x = net.by_channel(x)
    graph = net.graph(net.products(x, 8), net.products(x, 4), *kept)
    assert len(folded(graph).layers) == len(graph.layers) - 1


def test_a_move_that_a_reader_needs_stays():
    net = LayerNetwork(0, 6)
    x = net.products("x", 12)
    y = net.move(x, net.rng.permutation(12))
    graph = net.graph(net.add(Concat, y, x), net.products(y, 4))
    assert len(folded(graph).layers) == len(graph.layers)


def test_a_selection_that_would_read_more_than_it_spares_stays():
    net = LayerNetwork(0, 6)
    x = net.products("x", 48)
    y = net.move(x, range(0, 48, 12))
    graph = net.graph(net.products(y, 16), x)
    assert len(folded(graph).layers) == len(graph.layers)


def test_zeros_of_a_selection_are_no_multiplications():
    net = LayerNetwork(0, 6)
    x = net.products("x", 8)
    y = net.move(x, range(0, 8, 2))
    graph = net.graph(net.products(y, 4, 1), x)
    network = rewrite(State.of(graph, CONFIG, Options(dense_mode=False)))
    assert network.changed[0] == "fold-channel-moves"
    assert network.macs == graph.macs()
