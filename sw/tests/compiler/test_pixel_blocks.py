"""Rectangles of pixels in the vectors of layers of single elements: same results, fewer cycles."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.late_pixels import fill_vectors
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import (
    Activation,
    Affine,
    DepthToSpace,
    Elementwise,
    LayerGraph,
    Lut,
    Pool,
    Requantization,
)
from tpulite.graph.requantization import IDENTITY
from tpulite.runtime.session import Session
from tpulite_testing.drawn.layer_networks import LayerNetwork
from tpulite_testing.quick_options import quick_options

CONFIG, QUICK = Config(), quick_options()
PLAIN = quick_options(without=("fill-vectors",))
TABLE = np.arange(127, -129, -1).astype(np.int8)
SUM = {
    "op": "add",
    "multipliers": (1, 1),
    "scaling": Scaling.EXACT,
    "zero_points": (3, -4),
    "requantization": IDENTITY,
}


def elements(channels: int, size: int = 9, seed: int = 0) -> LayerGraph:
    """Return a network of all layers of single elements, with two inputs and two results."""
    net = LayerNetwork(seed, channels, size=size)
    net.images["z"] = net.images["x"]
    net.images["c"] = Activation((1, 1, channels))
    net.images["d"] = net.images["x"]
    scaled = net.products("x", 0, 1)
    total = net.add(Elementwise, scaled, "z", **SUM)
    moved = net.add(Elementwise, net.add(Lut, total, table=TABLE), "c", **SUM)
    last = net.add(Elementwise, moved, "d", **SUM)
    draw = lambda name: net.rng.integers(-128, 128, net.images[name].shape, np.int8)  # noqa: E731
    constants = {name: draw(name) for name in ("c", "d")}
    layers, ends = tuple(net.layers), (("x", "z"), (total, last))
    return LayerGraph("net", layers, net.images, *ends, constants, frozenset({"z", last}))


def is_filled(graph: LayerGraph, config: Config = CONFIG) -> bool:
    return bool(fill_vectors(graph, config).packed)


@pytest.mark.parametrize("config", [CONFIG, Config(array_size=4, ub_rows=1024)], ids=["16", "4"])
@pytest.mark.parametrize("channels", [1, 3, 10, 25])
def test_results_are_those_of_pixels(channels, config):
    graph = elements(channels)
    assert is_filled(graph, config) == (channels != 3 or config is CONFIG)
    program = compile_layers(graph, config, QUICK)
    assert validate_translation(graph, program, QUICK) == []
    rng = np.random.default_rng(channels)
    x = {name: rng.integers(-128, 128, graph.activations[name].shape, np.int8) for name in "xz"}
    given = {"x": x["x"], "z": (x["z"].astype(int) + 128).astype(np.uint8)}
    found, wanted = Session(program).run(given).outputs, run_layers(graph, x)
    for name in graph.outputs:
        expected = wanted[name].astype(int) + 128 * (name in graph.unsigned)
        np.testing.assert_array_equal(found[name].reshape(expected.shape), expected)


@pytest.mark.parametrize("channels", [16, 32])
def test_full_vectors_stay(channels):
    graph = elements(channels)
    assert fill_vectors(graph, CONFIG) is graph


def test_layers_of_windows_and_what_they_share_stay():
    net = LayerNetwork(0, 3, size=9)
    y = net.add(Lut, "x", table=TABLE)
    graph = net.graph(y, net.add(Pool, y, op="max", window=(2, 2)))
    assert fill_vectors(graph, CONFIG) is graph


def test_windows_of_layers_that_keep_shapes_stay():
    net = LayerNetwork(0, 3, size=9)
    graph = net.graph(net.products("x", 0, 3))
    assert fill_vectors(graph, CONFIG) is graph


def test_what_the_host_has_in_another_form_stays():
    net = LayerNetwork(0, 12, size=9)
    y = net.add(DepthToSpace, net.add(Lut, "x", table=TABLE), block=(2, 2), channels=3)
    graph = net.graph(y)
    program = compile_layers(graph, CONFIG, QUICK)
    x = {"x": net.rng.integers(-128, 128, (9, 9, 12), np.int8)}
    found, wanted = Session(program).run(x).outputs, run_layers(graph, x)
    np.testing.assert_array_equal(found[y].reshape(wanted[y].shape), wanted[y])


def test_layers_that_share_nothing_with_others_are_filled():
    net = LayerNetwork(0, 3, size=9)
    net.images["z"] = net.images["x"]
    table, pool = net.add(Lut, "x", table=TABLE), net.add(Pool, "z", op="max", window=(2, 2))
    layers = tuple(net.layers)
    graph = LayerGraph("net", layers, net.images, ("x", "z"), (table, pool))
    assert fill_vectors(graph, CONFIG).packed.keys() == {"x", table}


@pytest.mark.parametrize("pooled", [False, True], ids=["filled", "not filled"])
@pytest.mark.parametrize("by_channel", [False, True])
def test_constants_may_be_shared_with_layers_that_share_nothing_else(by_channel, pooled):
    net = LayerNetwork(0, 3, size=9)
    net.images["z"] = net.images["x"]
    net.images["c"] = Activation((1, 1, 3) if by_channel else (9, 9, 3))
    first, second = (net.add(Elementwise, x, "c", **SUM) for x in "xz")
    last = net.add(Pool, second, op="max", window=(2, 2)) if pooled else second
    known = {"c": net.rng.integers(-128, 128, net.images["c"].shape, np.int8)}
    graph = LayerGraph("net", tuple(net.layers), net.images, ("x", "z"), (first, last), known)
    filled = {"x", first} if pooled else {"x", "z", first, last}
    assert fill_vectors(graph, CONFIG).packed.keys() == filled
    x = {name: net.rng.integers(-128, 128, (9, 9, 3), np.int8) for name in "xz"}
    found = Session(compile_layers(graph, CONFIG, QUICK)).run(x).outputs
    wanted = run_layers(graph, x)
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name].reshape(wanted[name].shape), wanted[name])


@pytest.mark.parametrize("shape", [(9, 20), (12, 17), (12, 28), (7, 100)], ids=str)
@pytest.mark.parametrize("kind", ["product", "convolution"])
def test_records_of_more_channels_cost_no_cycles(shape, kind):
    size, channels = shape
    net = LayerNetwork(0, channels, size=size)
    each = np.arange(channels)
    record = Requantization(multiplier=(1 << 30) + each, shift=np.full(channels, -4))
    if kind == "product":
        gain = (64 + each).astype(np.int16)
        graph = net.graph(net.add(Affine, "x", gain=gain, requantization=record))
    else:
        graph = net.graph(net.products("x", 0, 1, requantization=record))
    without = ("choose-bound",), ("choose-bound", "fill-vectors")
    options = (quick_options(without=names) for names in without)
    programs = (compile_layers(graph, CONFIG, each) for each in options)
    new, old = (predict_cycles(program.commands, CONFIG) for program in programs)
    assert new <= old


def test_few_channels_take_a_third_of_the_cycles():
    graph = elements(3, size=32)
    programs = (compile_layers(graph, CONFIG, options) for options in (QUICK, PLAIN))
    new, old = (predict_cycles(program.commands, CONFIG) for program in programs)
    assert 3 * new < old
