"""Channels become pixels behind layers of single pixels: same results, fewer cycles."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.late_pixels import move_pixels_last
from tpulite.compiler.translation import validate_translation
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import DepthToSpace, LayerGraph, Lut
from tpulite.runtime.session import Session
from tpulite_testing.drawn.layer_networks import LayerNetwork
from tpulite_testing.quick_options import quick_options

CONFIG, QUICK = Config(), quick_options()
PLAIN = quick_options(without=("move-pixels-last",))
TABLE = np.arange(127, -129, -1).astype(np.int8)


def shuffled(outputs: int = 16, kernel: int = 1, pixels=(), crop=(0, 0), size: int = 8):
    """Return a network with a convolution, and a table, behind a move of channels to pixels."""
    net = LayerNetwork(4, 8, size=size)
    fields = {"block": (2, 2), "channels": 3, "pixels": pixels, "crop": crop}
    y = net.add(DepthToSpace, net.products("x", 12, 1), **fields)
    y = net.products(y, outputs, kernel)
    return net.graph(net.add(Lut, y, table=TABLE))


def place(graph: LayerGraph) -> int:
    """Return how many layers are before the move."""
    return [isinstance(layer, DepthToSpace) for layer in graph.layers].index(True)


@pytest.mark.parametrize("outputs", [5, 16])
@pytest.mark.parametrize("crop", [(0, 0), (1, 1)])
@pytest.mark.parametrize("pixels", [(), (2, 0, 3, 1)], ids=["in order", "in another order"])
def test_results_are_the_same(pixels, crop, outputs):
    graph = shuffled(outputs, pixels=pixels, crop=crop)
    after = move_pixels_last(graph, CONFIG)
    if not pixels:  # then the host moves them
        assert place(after) > place(graph)
    x = np.random.default_rng(1).integers(-128, 128, graph.activations["x"].shape, np.int8)
    wanted = run_layers(graph, {"x": x})[graph.outputs[0]]
    np.testing.assert_array_equal(run_layers(after, {"x": x})[graph.outputs[0]], wanted)
    program = compile_layers(graph, CONFIG, QUICK)
    assert validate_translation(graph, program, QUICK) == []
    (found,) = Session(program).run({"x": x}).outputs.values()
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_layers_of_windows_stay_behind():
    graph = shuffled(kernel=3)
    assert move_pixels_last(graph, CONFIG) is graph


def test_channels_that_become_no_pixels_stay_before():
    net = LayerNetwork(4, 8, size=8)
    y = net.add(DepthToSpace, net.products("x", 16, 1), block=(2, 2), channels=3)
    graph = net.graph(net.products(y, 16, 1))
    assert move_pixels_last(graph, CONFIG) is graph


def test_moves_that_save_no_cycles_stay():
    net = LayerNetwork(4, 8, size=8)
    y = net.add(DepthToSpace, net.products("x", 64, 1), block=(2, 2), channels=16)
    graph = net.graph(net.products(net.products(y, 16, 1), 4, 3))
    assert move_pixels_last(graph, CONFIG) is graph


def test_results_of_both_stay():
    graph = shuffled()
    read = LayerGraph("net", graph.layers, graph.activations, ("x",),
                      (graph.layers[1].output, *graph.outputs))  # fmt: skip
    assert move_pixels_last(read, CONFIG) is read


def test_a_move_at_the_end_takes_half_of_the_cycles():
    graph = shuffled(size=24)
    programs = (compile_layers(graph, CONFIG, options) for options in (QUICK, PLAIN))
    new, old = (predict_cycles(program.commands, CONFIG) for program in programs)
    assert new < 0.51 * old
