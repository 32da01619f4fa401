"""Networks without dead channels compute what they did, whatever died."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.simplify.network import Simplified, simplify_layers
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import (
    Activation,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pool,
    Requantization,
)
from tpulite.runtime.session import Session
from tpulite_testing.drawn.choices import Choices, Drawn, Seeded
from tpulite_testing.drawn.layer_graphs import random_layer_graph
from tpulite_testing.kept import kept_program

CONFIG, OPTIONS = Config(array_size=4), Options()
IDENTITY = np.arange(-128, 128).astype(np.int8)


def with_dead_channels(layers: LayerGraph, choices: Choices) -> LayerGraph:
    """Let channels be constant, and others have no reader; some tables change nothing."""
    rng = np.random.default_rng(choices.integer(0, 1 << 31))

    def kill(layer: Layer) -> Layer:
        if isinstance(layer, Lut):
            table = choices.pick((layer.table, IDENTITY, np.full(256, choices.integer(-128, 127))))
            return replace(layer, table=table.astype(np.int8))
        if not isinstance(layer, Conv | Depthwise) or choices.chance(25):
            return layer
        weight, record = layer.weight.copy(), layer.requantization
        share = choices.pick((0.3, 0.8))
        weight[..., rng.random(weight.shape[-1]) < share] = layer.weight_zero_point
        if isinstance(layer, Conv):
            weight[:, :, rng.random(weight.shape[2]) < share / 2] = layer.weight_zero_point
        if record is not None and len(record.bias) > 1 and choices.chance(40):
            far = rng.random(len(record.bias)) < share / 2
            bias = np.where(far, rng.choice([-(1 << 31), (1 << 31) - 1, -(1 << 24)]), record.bias)
            record = replace(record, bias=bias.astype(np.int32))
        return replace(layer, weight=weight, requantization=record)

    return replace(layers, layers=tuple(map(kill, layers.layers)))


def check(layers: LayerGraph, seed: int = 0) -> Simplified:
    """Compare all that both networks know of their images."""
    simplified = simplify_layers(layers, CONFIG, OPTIONS)
    rng = np.random.default_rng(seed)
    for extreme in (False, True):
        inputs = {
            name: rng.choice([-128, 127], shape).astype(np.int8)
            if extreme
            else rng.integers(-128, 128, shape).astype(np.int8)
            for name, shape in ((name, layers.activations[name].shape) for name in layers.inputs)
        }
        before = run_layers(layers, inputs)
        after = simplified.restore(run_layers(simplified.layers, inputs))
        assert before.keys() == after.keys()
        for name, image in after.items():
            known = simplified.known(name)
            known = slice(None) if known is None else known
            np.testing.assert_array_equal(image[..., known], before[name][..., known], name)
        for name in layers.outputs:
            assert simplified.known(name) is None
    return simplified


@settings(max_examples=100)
@given(st.data())
def test_results_and_surviving_channels_are_the_same(data):
    choices = Drawn(data.draw)
    check(with_dead_channels(random_layer_graph(choices), choices))


def test_most_drawn_networks_lose_channels_and_some_lose_copies():
    drawn = [Seeded(seed) for seed in range(40)]
    made = [check(with_dead_channels(random_layer_graph(x, most=8), x)) for x in drawn]
    assert sum(bool(x.removed_channels) for x in made) > 10
    assert any(x.originals for x in made)


@pytest.mark.parametrize("seed", range(6))
def test_programs_without_dead_channels_compute_the_same(seed):
    choices = Seeded(seed)
    layers = with_dead_channels(random_layer_graph(choices, most=8), choices)
    program = kept_program(layers, CONFIG, OPTIONS)
    rng = np.random.default_rng(seed)
    inputs = {
        x: rng.integers(-128, 128, layers.activations[x].shape, np.int8) for x in layers.inputs
    }

    def seen(name: str, image: np.ndarray) -> np.ndarray:
        return image.view(np.uint8) ^ 0x80 if name in layers.unsigned else image

    results = Session(program).run({name: seen(name, x) for name, x in inputs.items()})
    expected = run_layers(layers, inputs)
    for name, image in results.outputs.items():
        np.testing.assert_array_equal(image, seen(name, expected[name]), name)


# Small networks: x [4, 4, 4] -> a convolution of 8 channels -> ... -> y


def record(bias=0, *, rounding=Rounding.TFLITE, low=-128, high=127, channels=8) -> Requantization:
    return Requantization(
        multiplier=np.full(channels, 1 << 30),
        shift=np.full(channels, -6),
        bias=np.full(channels, bias, np.int32),
        rounding=rounding,
        low=low,
        high=high,
    )


def conv(name, source, weight, requantization, **fields) -> Conv:
    return Conv(
        name=name,
        inputs=(source,),
        output=name,
        weight=weight,
        requantization=requantization,
        **fields,
    )


def half_dead(weight_zero_point=0, shape=(1, 1, 4, 8)) -> np.ndarray:
    """Return weights whose last four channels weigh nothing."""
    weight = np.random.default_rng(1).integers(-100, 100, shape).astype(np.int8)
    weight[..., 4:] = weight_zero_point
    return weight


def network(*layers: Layer, outputs=("y",), constants=None) -> LayerGraph:
    images, constants = {"x": Activation((4, 4, 4))}, constants or {}
    images |= {name: Activation(value.shape) for name, value in constants.items()}
    for layer in layers:
        images[layer.output] = layer._infer(*(images[name] for name in layer.inputs))
    return LayerGraph("small", layers, images, ("x",), outputs, constants)


def read_by(**fields) -> Conv:
    weight = np.random.default_rng(2).integers(-100, 100, (3, 3, 8, 5)).astype(np.int8)
    return conv("y", "a", weight, record(channels=5), **fields)


def left(layers: LayerGraph, name: str = "a") -> int:
    return check(layers).layers.activations[name].shape[2]


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("zero_point", [0, -7, 127])
def test_a_constant_goes_into_the_bias_of_its_reader(rounding, zero_point):
    first = conv(
        "a",
        "x",
        half_dead(zero_point),
        record(999, rounding=rounding),
        weight_zero_point=zero_point,
    )
    assert left(network(first, read_by(input_zero_point=3))) == 4


def test_a_constant_at_a_border_stays_unless_it_is_the_zero_point():
    first, padded = conv("a", "x", half_dead(), record(999)), {"padding": (1, 1, 1, 1)}
    constant = run_layers(network(first, outputs=("a",)), {"x": np.zeros((4, 4, 4), np.int8)})["a"]
    assert left(network(first, read_by(**padded))) == 8
    assert left(network(first, read_by(**padded, input_zero_point=int(constant[0, 0, 7])))) == 4


def test_what_always_clamps_is_constant():
    weights = np.random.default_rng(3).integers(-100, 100, (1, 1, 4, 8)).astype(np.int8)
    bias = np.array([0] * 5 + [-(1 << 24)] * 3, np.int32)
    first = conv("a", "x", weights, replace(record(), bias=bias))
    assert left(network(first, read_by())) == 5


def test_sums_that_wrap_are_not_taken_for_constants():
    weights = np.full((1, 1, 4, 8), 127, np.int8)
    first = conv("a", "x", weights, record((1 << 31) - 100))
    assert left(network(first, read_by())) == 8


def test_channels_without_readers_go_through_everything_that_keeps_channels():
    first = conv("a", "x", np.full((1, 1, 4, 8), 3, np.int8), record())
    weight = np.random.default_rng(2).integers(-100, 100, (3, 3, 8, 5)).astype(np.int8)
    weight[:, :, 2:5] = 0
    filters = Depthwise(
        name="b",
        inputs=("a",),
        output="b",
        weight=np.ones((3, 3, 8), np.int8),
        requantization=record(),
        padding=(1, 1, 1, 1),
    )
    pool = Pool(name="c", inputs=("b",), output="c", op="average", window=(2, 2))
    table = Lut(name="d", inputs=("c",), output="d", table=-1 - IDENTITY)
    total = Elementwise(
        name="e",
        inputs=("d", "k"),
        output="e",
        op="mul",
        requantization=record(channels=1),
        zero_points=(0, 0),
    )
    last = conv("y", "e", weight, record(channels=5))
    constants = {"k": np.arange(8, dtype=np.int8).reshape(1, 1, 8)}
    layers = network(first, filters, pool, table, total, last, constants=constants)
    simplified = check(layers).layers
    assert {simplified.activations[name].shape[2] for name in "abcdek"} == {5}
    # One more reader, and all of them are needed.
    more = replace(layers, outputs=("y", "c"))
    assert {check(more).layers.activations[name].shape[2] for name in "abcde"} == {8}


def test_parts_of_a_concatenation_still_begin_at_blocks():
    first = conv("a", "x", np.full((1, 1, 4, 8), 3, np.int8), record())
    second = conv("b", "x", np.full((1, 1, 4, 8), 2, np.int8), record())
    join = Concat(name="c", inputs=("a", "b"), output="c")
    weight = np.ones((1, 1, 16, 5), np.int8)
    weight[:, :, [0, 1, 2, 3, 4, 9, 10]] = 0
    layers = network(first, second, join, conv("y", "c", weight, record(channels=5)))
    shapes = check(layers).layers.activations
    assert [shapes[name].shape[2] for name in "abc"] == [4, 6, 10]


def test_a_network_of_constants_keeps_a_channel():
    first = conv("a", "x", np.zeros((1, 1, 4, 8), np.int8), record(50))
    assert left(network(first, read_by())) == 1


def test_identities_are_not_computed_but_for_outputs():
    table = Lut(name="a", inputs=("x",), output="a", table=IDENTITY)
    weight = np.ones((1, 1, 4, 8), np.int8)
    layers = network(table, conv("y", "a", weight, record()))
    assert [layer.name for layer in check(layers).layers.layers] == ["y"]
    assert len(check(replace(layers, outputs=("y", "a"))).layers.layers) == 2


def test_it_can_be_turned_off():
    layers = network(conv("a", "x", half_dead(), record()), read_by())
    assert simplify_layers(layers, CONFIG, Options(simplify=False)).layers is layers
