"""The largest channel by transposes and a pool: same results as by halves, fewer cycles."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.channel_maxima import turn_maxima
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Conv, Elementwise, LayerGraph, Pool, Requantization
from tpulite.runtime.session import Session
from tpulite_testing.drawn.layer_networks import LayerNetwork
from tpulite_testing.quick_options import quick_options

QUICK, PLAIN = quick_options(), quick_options(without=("turn-maxima",))


def adds(zero: int) -> Requantization:
    return Requantization(multiplier=np.array([1 << 30]), shift=np.array([1]), zero_point=zero)


def halve(net: LayerNetwork, x: str, *, least: bool) -> str:
    """Add layers whose channels are each one of two of an activation, as importers write them."""
    count, zero = net.count(x), 127 if least else -128
    half = -(-count // 2)
    low, high = np.eye(count, half, dtype=np.int8), np.eye(count, half, half - count, dtype=np.int8)
    other = net.add(Conv, x, weight=high[None, None], requantization=adds(0))
    more = net.add(Conv, x, weight=(low - high)[None, None], requantization=adds(zero))
    fields = {"op": "add", "multipliers": (1, 1), "scaling": Scaling.EXACT}
    fields |= {"zero_points": (zero, 0), "requantization": adds(0)}
    return net.add(Elementwise, more, other, **fields)


def extreme(channels: int, size: int = 6, *, least: bool = False, behind: bool = False):
    net = LayerNetwork(1, 5 if behind else channels, size=size)
    y = net.products("x", channels) if behind else "x"
    while net.count(y) > 1:
        y = halve(net, y, least=least)
    return net.graph(net.products(y, 4) if behind else y)


def is_turned(graph: LayerGraph) -> bool:
    return any(isinstance(layer, Pool) for layer in turn_maxima(graph, Config()).layers)


@pytest.mark.parametrize("behind", [False, True], ids=["alone", "between convolutions"])
@pytest.mark.parametrize("least", [False, True], ids=["largest", "smallest"])
@pytest.mark.parametrize("channels", [18, 24, 33, 64])
def test_programs_find_the_channel(channels, least, behind):
    graph = extreme(channels, least=least, behind=behind)
    assert is_turned(graph)
    program = compile_layers(graph, Config(), QUICK)
    assert validate_translation(graph, program, QUICK) == []
    x = np.random.default_rng(2).integers(-128, 128, graph.activations["x"].shape, np.int8)
    images, (output,) = run_layers(graph, {"x": x}), graph.outputs
    if not behind:
        wanted = (np.min if least else np.max)(x, axis=2, keepdims=True)
        np.testing.assert_array_equal(images[output], wanted)
    found = Session(program).run({"x": x}).outputs[output]
    np.testing.assert_array_equal(found.reshape(images[output].shape), images[output])


def test_a_half_that_is_a_result_stays():
    net = LayerNetwork(1, 4, size=6)
    half = halve(net, "x", least=False)
    graph = net.graph(half, halve(net, half, least=False))
    names = {layer.output for layer in turn_maxima(graph, Config()).layers}
    assert half in names


def test_sums_that_leave_out_a_channel_are_no_maxima_of_all():
    net = LayerNetwork(1, 24, size=6)
    first = net.move("x", range(23), product=True)
    graph = net.graph(halve(net, net.move(first, (0, 1), product=True), least=False))
    layers = turn_maxima(graph, Config())
    x = np.random.default_rng(3).integers(-128, 128, (6, 6, 24), np.int8)
    found, wanted = (run_layers(each, {"x": x})[graph.outputs[0]] for each in (layers, graph))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("weight", [2, -1])
def test_other_weights_are_no_maxima(weight):
    graph = extreme(16)
    first = graph.layers[0]
    other = first.weight.copy()
    other[0, 0, 8, 0] = weight
    changed = LayerNetwork(1, 16, size=6)
    changed.images, changed.layers = dict(graph.activations), list(graph.layers)
    changed.layers[0] = type(first)(**{**first.__dict__, "weight": other})
    graph = changed.graph(*graph.outputs)
    x = np.random.default_rng(3).integers(-128, 128, (6, 6, 16), np.int8)
    layers = turn_maxima(graph, Config())
    found, wanted = (run_layers(each, {"x": x})[graph.outputs[0]] for each in (layers, graph))
    np.testing.assert_array_equal(found, wanted)


def test_a_pool_takes_half_of_the_cycles():
    graph, config = extreme(24, size=14), Config()
    programs = (compile_layers(graph, config, options) for options in (QUICK, PLAIN))
    new, old = (predict_cycles(program.commands, config) for program in programs)
    assert 2 * new < old
