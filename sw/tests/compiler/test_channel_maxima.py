"""The largest channel by transposes and a pool: same results as by halves, fewer cycles."""

from dataclasses import replace

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
    count = net.count(x)
    half = -(-count // 2)
    low, high = (np.eye(count, half, shift, dtype=np.int8) for shift in (0, half - count))
    return halve_of(net, x, low, high, least=least)


def halve_of(net: LayerNetwork, x: str, low, high, *, least: bool) -> str:
    """Add layers whose channels are each one of two that columns of ones pick."""
    zero = 127 if least else -128
    other = net.add(Conv, x, weight=high[None, None], requantization=adds(0))
    more = net.add(Conv, x, weight=(low - high)[None, None], requantization=adds(zero))
    fields = {"op": "add", "multipliers": (1, 1), "scaling": Scaling.EXACT}
    fields |= {"zero_points": (zero, 0), "requantization": adds(0)}
    return net.add(Elementwise, more, other, **fields)


def all_halves(net: LayerNetwork, y: str, *, least: bool = False) -> str:
    """Add halves until one channel is left."""
    while net.count(y) > 1:
        y = halve(net, y, least=least)
    return y


def extreme(channels: int, size: int = 6, *, least: bool = False, behind: bool = False):
    net = LayerNetwork(1, 5 if behind else channels, size=size)
    y = all_halves(net, net.products("x", channels) if behind else "x", least=least)
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


def computes_the_same(graph: LayerGraph) -> None:
    """Assert that a network has the results that it has without the rewrite."""
    layers = turn_maxima(graph, Config())
    shape = graph.activations["x"].shape
    x = np.random.default_rng(3).integers(-128, 128, shape, np.int8)
    found, wanted = (run_layers(each, {"x": x}) for each in (layers, graph))
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def changed(graph: LayerGraph, position: int, **fields) -> LayerGraph:
    """Return a network whose layer at a position has other fields."""
    layers = list(graph.layers)
    layers[position] = replace(layers[position], **fields)
    return replace(graph, layers=tuple(layers))


def test_maxima_that_leave_out_channels_are_no_maxima_of_all():
    net = LayerNetwork(1, 40, size=6)
    low, high = (np.eye(40, 20, shift, dtype=np.int8) for shift in (0, -4))
    graph = net.graph(all_halves(net, halve_of(net, "x", low, high, least=False)))
    assert is_turned(graph)  # the rest is
    computes_the_same(graph)


def test_smallest_of_largest_channels_are_neither():
    net = LayerNetwork(1, 64, size=6)
    y = halve(net, halve(net, "x", least=True), least=True)
    graph = net.graph(all_halves(net, y))
    computes_the_same(graph)


def test_a_half_that_others_read_stays():
    net = LayerNetwork(1, 64, size=6)
    half = halve(net, "x", least=False)
    graph = net.graph(net.products(half, 3), all_halves(net, half))
    computes_the_same(graph)


@pytest.mark.parametrize("weight", [2, 0, -1])
@pytest.mark.parametrize("also", [False, True], ids=["in one product", "in both"])
@pytest.mark.parametrize("position", [0, 1])
def test_other_weights_are_no_maxima(position, also, weight):
    graph = extreme(32)
    assert is_turned(graph)
    more = np.zeros_like(graph.layers[0].weight)
    more[0, 0, 9, 0] = weight - graph.layers[position].weight[0, 0, 9, 0]
    other = changed(graph, position, weight=graph.layers[position].weight + more)
    if also:  # so that the sum of both is as before
        twin = other.layers[1 - position]
        other = changed(other, 1 - position, weight=twin.weight - more)
    computes_the_same(other)


@pytest.mark.parametrize("fields", [{"zero_point": -100}, {"high": 60}, {"low": -70}], ids=str)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_other_requantizations_are_no_maxima(position, fields):
    graph = extreme(32)
    record = replace(graph.layers[position].requantization, **fields)
    computes_the_same(changed(graph, position, requantization=record))


def test_what_fits_no_buffer_in_one_row_is_halved():
    graph, config = extreme(24, size=17), Config(array_size=8, ub_rows=512)
    assert is_turned(graph)
    assert turn_maxima(graph, config) is graph
    compile_layers(graph, config, QUICK)


def test_a_pool_takes_half_of_the_cycles():
    graph, config = extreme(24, size=14), Config()
    programs = (compile_layers(graph, config, options) for options in (QUICK, PLAIN))
    new, old = (predict_cycles(program.commands, config) for program in programs)
    assert 2 * new < old
