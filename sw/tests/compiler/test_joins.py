"""Joined channels that fill blocks: same results, and no product that only joins."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.passes import rewrite
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.joins import align_joins
from tpulite.compiler.state import State
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Concat, LayerGraph
from tpulite_testing.drawn.layer_networks import LayerNetwork

CONFIG = Config(array_size=4)
WITHOUT = Options(effort=0, without=("align-joins",))


def aligned(graph: LayerGraph, config: Config = CONFIG) -> LayerGraph:
    """Align, and compare the results."""
    after = align_joins(graph, config)
    x = np.random.default_rng(1).integers(-128, 128, graph.activations["x"].shape, np.int8)
    wanted, found = run_layers(graph, {"x": x}), run_layers(after, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])
    return after


def joined_counts(graph: LayerGraph) -> list[list[int]]:
    """Return the channels of what each concatenation reads."""
    return [
        [graph.activations[name].shape[2] for name in layer.inputs]
        for layer in graph.layers
        if isinstance(layer, Concat)
    ]


def drawn(seed: int) -> LayerGraph:
    """Draw joins of what convolutions make, with layers by channel before and behind them."""
    net = LayerNetwork(seed, 6)
    c, live = net.choices, [net.products("x", net.choices.integer(3, 14)) for _ in range(2)]
    for _ in range(c.integer(2, 6)):
        x = live.pop(c.integer(0, len(live) - 1))
        kind = c.integer(0, 3)
        if kind == 0 or not live:
            made = [net.products(x, c.integer(3, 14), c.pick((1, 3)))]
        elif kind == 1:
            made = [net.by_channel(x)]
        else:
            same = [y for y in live if net.images[y].shape[:2] == net.images[x].shape[:2]]
            made = [net.add(Concat, x, *([c.pick(same)] if same else [x]))]
        live += [*made, *([x] if c.chance(20) else [])]
    return net.graph(*dict.fromkeys(net.products(x, 5, 1) for x in dict.fromkeys(live)))


@pytest.mark.parametrize("seed", range(60))
def test_drawn_joins_compute_the_same(seed):
    aligned(drawn(seed))


def test_many_drawn_joins_are_aligned_and_some_are_not():
    found = [aligned(drawn(seed)) for seed in range(60)]
    every = [counts for graph in found for counts in joined_counts(graph)]
    some = [counts for counts in every if not any(n % CONFIG.array_size for n in counts[:-1])]
    assert len(every) / 4 < len(some) < len(every)


@pytest.mark.parametrize("seed", range(8))
def test_programs_are_translations_of_drawn_networks(seed):
    graph, options = drawn(seed), Options(effort=0)
    assert validate_translation(graph, compile_layers(graph, CONFIG, options), options) == []


@pytest.mark.parametrize(
    ("counts", "wanted"), [((7, 6), (8, 6)), ((6, 7, 7), (8, 8, 7)), ((8, 5), (8, 5))]
)
def test_blocks_are_filled_but_for_the_last_one(counts, wanted):
    net = LayerNetwork(0, 8, size=16)
    y = net.add(Concat, *(net.products("x", count) for count in counts))
    graph = net.graph(net.products(y, 8, 1))
    assert joined_counts(aligned(graph)) == [list(wanted)]


def test_layers_by_channel_on_the_way_have_the_same_channels():
    net = LayerNetwork(0, 8, size=16)
    x = net.products("x", 7)  # as a ghost module: what is read again is joined, too
    y = net.add(Concat, x, net.products(x, 0))
    graph = net.graph(net.products(net.products(y, 0), 8))
    assert joined_counts(aligned(graph)) == [[8, 8]]


def test_results_of_a_network_keep_their_channels():
    net = LayerNetwork(0, 8, size=16)
    x, y = net.products("x", 6), net.products("x", 6)
    for outputs in ([net.add(Concat, x, y)], [x, net.products(net.add(Concat, x, y), 8)]):
        graph = net.graph(*outputs)
        assert aligned(graph).layers == graph.layers


def test_an_aligned_join_takes_fewer_cycles_and_no_more_multiplications_are_counted():
    net = LayerNetwork(3, 16, size=24)
    y = net.add(Concat, *(net.products("x", 24, 1) for _ in range(2)))
    graph, config = net.graph(net.products(y, 16, 1)), Config()
    programs = [compile_layers(graph, config, each) for each in (Options(effort=0), WITHOUT)]
    new, old = (predict_cycles(each.commands, config) for each in programs)
    assert new < 0.8 * old
    state = rewrite(State.of(graph, config, Options()))
    assert "align-joins" in state.changed
    assert state.macs == graph.macs()
