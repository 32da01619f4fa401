"""Averages over clipped windows as products of pixels: the library's integers, fewer cycles."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.averages import multiply_averages
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Conv, LayerGraph, Pool
from tpulite.runtime.session import Session
from tpulite_testing.drawn.layer_networks import LayerNetwork
from tpulite_testing.oracles.plain_layers import plain_pool
from tpulite_testing.quick_options import quick_options

QUICK = quick_options()
FORMS = {
    "same": {"window": (9, 9), "padding": (4, 4, 4, 4)},
    "one side": {"window": (9, 8), "padding": (6, 0, 0, 7), "low": -50, "high": 60},
    "strides": {"window": (9, 9), "stride": (2, 1), "padding": (4, 4, 4, 4), "offset": 128},
}


def averaged(form: dict, channels: int = 40, size: int = 10) -> LayerGraph:
    net = LayerNetwork(3, channels, size=size)
    return net.graph(net.add(Pool, "x", op="average", **form))


@pytest.mark.parametrize("form", list(FORMS))
def test_every_window_has_a_divisor_of_its_own(form):
    graph, config = averaged(FORMS[form]), Config()
    after = multiply_averages(graph, config)
    assert sum(isinstance(layer, Conv) for layer in after.layers) == 1
    shape = graph.activations["x"].shape
    drawn = np.random.default_rng(5).integers(-128, 128, shape).astype(np.int8)
    for x in (drawn, np.full(shape, 127, np.int8), np.full(shape, -128, np.int8)):
        wanted, found = (run_layers(each, {"x": x})[graph.outputs[0]] for each in (graph, after))
        np.testing.assert_array_equal(found, wanted)
        if not FORMS[form].get("offset"):
            np.testing.assert_array_equal(found, plain_pool(x, graph.layers[0], wanted.shape[:2]))


@pytest.mark.parametrize(
    "form",
    [
        {"window": (3, 3), "padding": (1, 1, 1, 1)},  # clipped windows are few
        {"window": (9, 9)},  # all windows have one size
    ],
)
def test_other_averages_stay(form):
    graph = averaged(form)
    assert multiply_averages(graph, Config()) is graph


def test_maxima_stay():
    net = LayerNetwork(3, 40, size=10)
    graph = net.graph(net.add(Pool, "x", op="max", window=(9, 9), padding=(4, 4, 4, 4)))
    assert multiply_averages(graph, Config()) is graph


def test_what_fits_no_buffer_in_one_row_stays():
    graph, config = averaged(FORMS["same"], channels=48), Config(array_size=4, ub_rows=1024)
    assert multiply_averages(graph, config) is graph
    compile_layers(graph, config, QUICK)


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize(
    "config", [Config(), Config(array_size=8, requant_lanes=2, ub_rows=2048)], ids=["16", "8"]
)
def test_programs_are_translations_and_compute_the_averages(config, form):
    graph = averaged(FORMS[form], channels=24)
    program = compile_layers(graph, config, QUICK)
    assert validate_translation(graph, program, QUICK) == []
    x = np.random.default_rng(6).integers(-128, 128, graph.activations["x"].shape).astype(np.int8)
    (found,) = Session(program).run({"x": x}).outputs.values()
    wanted = run_layers(graph, {"x": x})[graph.outputs[0]]
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_a_product_takes_half_of_the_cycles():
    graph, config = averaged(FORMS["same"], channels=64), Config()
    options = Options(effort=0), Options(effort=0, without=("multiply-averages",))
    new, old = (predict_cycles(compile_layers(graph, config, o).commands, config) for o in options)
    assert 2 * new < old
