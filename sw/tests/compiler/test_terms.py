"""Sums of a table and of products by channel that are zero elsewhere: maxima, to the bit."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.terms import compare_terms
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Conv, Depthwise, Elementwise, LayerGraph, Lut, Requantization
from tpulite.graph.requantization import IDENTITY
from tpulite.runtime.session import Session
from tpulite_testing.drawn.layer_networks import LayerNetwork

STEEP, FLAT = (1 << 30, 2), (1 << 30, 0)
"""Multipliers and shifts of 2 and of 1/2."""


def record(scale: tuple[int, int], zero: int = 0, **bounds) -> Requantization:
    multiplier, shift = (np.array([value]) for value in scale)
    return Requantization(multiplier=multiplier, shift=shift, zero_point=zero, **bounds)


def parametric(net: LayerNetwork, x: str, slopes, zeros=(5, -7), scale=FLAT) -> str:
    """Add what PRELU becomes: slopes in 1/64, and a scale of what is not negative."""
    slopes, (x_zero, zero) = np.array(slopes, np.int8), zeros
    steps = np.arange(-128, 128) - x_zero
    rising = np.floor(np.maximum(steps, 0) * {STEEP: 2.0, FLAT: 0.5}[scale] + 0.5) + zero
    low, high = np.where(slopes < 0, zero, -128), np.where(slopes < 0, 127, zero)
    fields = {"requantization": record((1 << 30, -5), zero, low=low, high=high)}
    products = net.add(Depthwise, x, weight=slopes[None, None], input_zero_point=x_zero, **fields)
    positive = net.add(Lut, x, table=np.minimum(rising, 127).astype(np.int8))
    return net.add(
        Elementwise,
        products,
        positive,
        op="add",
        multipliers=(1, 1),
        scaling=Scaling.EXACT,
        zero_points=(zero, zero),
        requantization=record((1 << 30, 1), zero),
    )


def every_byte(graph: LayerGraph) -> np.ndarray:
    shape = graph.activations["x"].shape
    pixels = np.arange(shape[0] * shape[1], dtype=np.uint8).astype(np.int8)
    return np.repeat(pixels, shape[2]).reshape(shape)


def compared(graph: LayerGraph, config: Config) -> LayerGraph:
    """Compare terms, and the results for every byte."""
    after, x = compare_terms(graph, config), {"x": every_byte(graph)}
    for name in graph.outputs:
        np.testing.assert_array_equal(run_layers(after, x)[name], run_layers(graph, x)[name])
    return after


def kinds(graph: LayerGraph) -> list[str]:
    names = (getattr(layer, "op", type(layer).__name__) for layer in graph.layers)
    return sorted(names)


SLOPES = {"small": [9, 0, 31, 16], "of both signs": [-40, 9, -128, 31], "steep": [127, 9, -3, 64]}


@pytest.mark.parametrize("scale", [STEEP, FLAT], ids=["steep", "flat"])
@pytest.mark.parametrize("slopes", list(SLOPES))
def test_a_parametric_function_alone_is_a_maximum(slopes, scale):
    net = LayerNetwork(0, 4, size=16)
    graph = net.graph(parametric(net, "x", SLOPES[slopes], scale=scale))
    below = scale == STEEP or slopes != "steep"  # then a line is below the products, too
    wanted = ["Depthwise", "Depthwise" if below else "Lut", "max"]
    assert kinds(compared(graph, Config(array_size=4))) == wanted


def test_the_array_computes_no_line_where_it_has_more_to_do():
    net = LayerNetwork(0, 8, size=16)
    x = net.products("x", 4)
    graph = net.graph(net.products(parametric(net, x, SLOPES["small"]), 8))
    assert "Lut" in kinds(compared(graph, Config(array_size=4)))


def test_integers_of_one_scale_are_compared_as_they_are():
    net = LayerNetwork(0, 4, size=16)
    table = np.maximum(np.arange(-128, 128), 3).astype(np.int8)
    fields = {"requantization": record((1 << 30, -1), 3, high=3), "input_zero_point": 3}
    products = net.add(Depthwise, "x", weight=np.ones((1, 1, 4), np.int8), **fields)
    fields = {"op": "add", "multipliers": (1, 1), "scaling": Scaling.EXACT}
    fields |= {"zero_points": (3, 3), "requantization": record((1 << 30, 1), 3)}
    graph = net.graph(net.add(Elementwise, net.add(Lut, "x", table=table), products, **fields))
    after = compared(graph, Config())
    assert kinds(after) == ["Depthwise", "max"]
    assert "x" in after.layers[-1].inputs


def test_sums_of_other_terms_stay():
    net = LayerNetwork(0, 4, size=16)
    y = parametric(net, "x", SLOPES["small"])
    doubled = net.add(Lut, "x", table=np.arange(-128, 128).astype(np.int8))
    products = net.products("x", 0, 1)
    total = net.add(Elementwise, doubled, products, op="add", requantization=IDENTITY,
                    zero_points=(0, 0), multipliers=(1, 1), scaling=Scaling.EXACT)  # fmt: skip
    read_twice = net.graph(y, total, net.layers[1].output)
    assert compare_terms(read_twice, Config()) is read_twice


@pytest.mark.parametrize("slopes", list(SLOPES))
@pytest.mark.parametrize(
    "config",
    [Config(), Config(array_size=4, ub_rows=512), Config(array_size=8, requant_lanes=2)],
    ids=["16", "4 with 512 rows", "8 with 2 lanes"],
)
def test_programs_compute_maxima_and_are_translations(config, slopes):
    net = LayerNetwork(1, 6, size=16)
    y = parametric(net, net.products("x", 20), SLOPES[slopes] * 5)
    graph = net.graph(net.products(y, 12, 1), y)
    options = Options(effort=0)
    program = compile_layers(graph, config, options)
    assert validate_translation(graph, program, options) == []
    x = net.rng.integers(-128, 128, graph.activations["x"].shape, np.int8)
    results, wanted = Session(program).run({"x": x}).outputs, run_layers(graph, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(results[name].reshape(wanted[name].shape), wanted[name])


def test_a_maximum_beside_a_convolution_takes_fewer_cycles():
    net = LayerNetwork(1, 32, size=32)
    y = parametric(net, net.products("x", 64, 1), SLOPES["small"] * 16)
    graph, config = net.graph(net.products(y, 32, 1)), Config()
    assert isinstance(graph.layers[0], Conv)
    options = Options(effort=0), Options(effort=0, without=("compare-terms",))
    new, old = (predict_cycles(compile_layers(graph, config, o).commands, config) for o in options)
    assert new < 0.97 * old
