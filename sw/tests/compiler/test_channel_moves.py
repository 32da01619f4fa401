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
from tpulite.graph.layers import (
    Activation,
    Affine,
    Concat,
    Conv,
    Depthwise,
    Layer,
    LayerGraph,
    Lut,
    Pick,
    Pool,
)
from tpulite.graph.requantization import IDENTITY
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.oracles.plain_layers import random_requantization

CONFIG = Config(array_size=4)
SIZE = 5


class Network:
    """A network that grows."""

    def __init__(self, seed: int, channels: int) -> None:
        self.choices, self.rng = Seeded(seed), np.random.default_rng((seed, 3))
        self.layers: list[Layer] = []
        self.images = {"x": Activation((SIZE, SIZE, channels))}

    def add(self, kind: type[Layer], *sources: str, **fields) -> str:
        name = f"{kind.__name__}{len(self.layers)}"
        layer = kind(name=name, inputs=sources, output=name, **fields)
        self.images[name] = layer._infer(*(self.images[x] for x in sources))
        self.layers.append(layer)
        return name

    def count(self, x: str) -> int:
        return self.images[x].shape[2]

    def record(self, channels: int):
        return random_requantization(self.rng, channels, 3_000)

    def products(self, x: str, outputs: int, kernel: int = 3) -> str:
        """Add a convolution; a depthwise one if there are no outputs."""
        count, padding = self.count(x), (kernel // 2,) * 4
        shape = (kernel, kernel, count, outputs) if outputs else (kernel, kernel, count)
        fields = {
            "weight": self.rng.integers(-127, 128, shape, np.int8),
            "requantization": self.record(outputs or count),
            "input_zero_point": int(self.rng.integers(-9, 9)),
            "weight_zero_point": int(self.rng.integers(-3, 3)),
            "padding": padding,
        }
        return self.add(Conv if outputs else Depthwise, x, **fields)

    def by_channel(self, x: str) -> str:
        kind = self.choices.integer(0, 3)
        if kind == 0:
            return self.products(x, 0)
        if kind == 1:
            gain = self.rng.integers(-99, 99, self.count(x)).astype(np.int16)
            return self.add(Affine, x, gain=gain, requantization=self.record(self.count(x)))
        if kind == 2:
            return self.add(Lut, x, table=self.rng.integers(-128, 128, 256).astype(np.int8))
        return self.add(Pool, x, op="max", window=(2, 2), padding=(1, 0, 0, 1))

    def move(self, x: str, order, *, product: bool = False) -> str:
        """Move channels, perhaps by a product as importers write it."""
        if not product:
            height, width, _ = self.images[x].shape
            axes = {"rows": tuple(range(height)), "columns": tuple(range(width))}
            return self.add(Pick, x, **axes, channels=tuple(order))
        weight = np.zeros((1, 1, self.count(x), len(order)), np.int8)
        weight[0, 0, order, np.arange(len(order))] = 1
        return self.add(Conv, x, weight=weight, requantization=IDENTITY)

    def graph(self, *outputs: str) -> LayerGraph:
        return LayerGraph("net", tuple(self.layers), self.images, ("x",), outputs)


def folded(graph: LayerGraph) -> LayerGraph:
    """Fold, and compare the results."""
    after = fold_channel_moves(graph, CONFIG)
    x = np.random.default_rng(1).integers(-128, 128, graph.activations["x"].shape, np.int8)
    wanted, found = run_layers(graph, {"x": x}), run_layers(after, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])
    return after


def drawn(seed: int) -> LayerGraph:
    net = Network(seed, 6)
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
    net = Network(between, 6)
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
    net = Network(0, 6)
    x = net.products("x", 12)
    y = net.move(x, net.rng.permutation(12))
    graph = net.graph(net.add(Concat, y, x), net.products(y, 4))
    assert len(folded(graph).layers) == len(graph.layers)


def test_a_selection_that_would_read_more_than_it_spares_stays():
    net = Network(0, 6)
    x = net.products("x", 48)
    y = net.move(x, range(0, 48, 12))
    graph = net.graph(net.products(y, 16), x)
    assert len(folded(graph).layers) == len(graph.layers)


def test_zeros_of_a_selection_are_no_multiplications():
    net = Network(0, 6)
    x = net.products("x", 8)
    y = net.move(x, range(0, 8, 2))
    graph = net.graph(net.products(y, 4, 1), x)
    network = rewrite(State.of(graph, CONFIG, Options(dense_mode=False)))
    assert network.changed[0] == "fold-channel-moves"
    assert network.macs == graph.macs()
