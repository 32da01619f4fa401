"""Activations with more rows or columns than a field of a command can say."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.plan.layer_cost import compute_cycles
from tpulite.golden.layers import run_layers
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import alternate

SAME = {"padding": (1, 1, 1, 1)}


def varied(builder):
    """Return the network with random weights."""
    rng = np.random.default_rng(0)
    for layer in builder.layers:
        if hasattr(layer, "weight"):
            layer.weight[:] = rng.integers(-128, 128, layer.weight.shape, np.int8)
    return builder.graph()


LAYERS = {
    "convolution": lambda net: net.conv("x", 8, **SAME),
    "stride": lambda net: net.conv("x", 8, 5, stride=(3, 3), padding=(2, 2, 2, 2)),
    "large stride": lambda net: net.conv("x", 8, stride=(17, 17), **SAME),
    "dilation": lambda net: net.conv("x", 8, dilation=(9, 9), padding=(9, 9, 9, 9)),
    "one tap": lambda net: net.conv("x", 8, 1, stride=(2, 2)),
    "depthwise": lambda net: net.depthwise("x", **SAME),
    "depthwise with stride": lambda net: net.depthwise("x", stride=(3, 3), **SAME),
    "depthwise with dilation": lambda net: net.depthwise("x", dilation=(3, 3), padding=(3,) * 4),
    "pooling": lambda net: net.pool("x", (3, 3), stride=(2, 2), **SAME),
    "sum": lambda net: net.add("x", net.lut("x")),
    "channels": lambda net: net.concat("x", net.lut("x"), axis=2),
    "rows": lambda net: net.concat("x", net.lut("x"), axis=0),
    "columns": lambda net: net.concat("x", net.lut("x"), axis=1),
    "frame": lambda net: net.conv(net.pad("x", (2, 2, 2, 2)), 8),
    "network": lambda net: net.conv(net.depthwise(net.conv("x", 8, **SAME), **SAME), 8, 1),
}


IMAGES = (
    ((1, 5000, 8), Config(array_size=8)),
    ((5000, 1, 8), Config(array_size=32)),
    ((3, 4000, 3), Config(ub_rows=2048)),
    ((4000, 3, 3), Config(array_size=4)),
)


@pytest.mark.parametrize(("image", "name"), alternate(range(len(IMAGES)), LAYERS))
def test_long_images_are_cut(image, name):
    shape, config = IMAGES[image]
    builder = GraphBuilder(shape)
    LAYERS[name](builder)
    layers = varied(builder)
    x = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    expected = run_layers(layers, {"x": x})
    results = Session(kept_program(layers, config, quick_options()), "golden").run({"x": x})
    for output in layers.outputs:
        np.testing.assert_array_equal(results.outputs[output], expected[output])


def test_filters_of_large_images_have_a_cost():
    builder = GraphBuilder((6000, 6000, 16))
    builder.depthwise("x", stride=(3, 3), **SAME)
    images = tuple(builder.activations.values())
    cycles = compute_cycles(builder.layers[0], images, (2000, 2000), Config()).mxu
    assert 3 * 2000 * 2000 < cycles < 12 * 2000 * 2000


def test_more_channel_blocks_than_a_command_can_say_are_loaded_by_several():
    builder = GraphBuilder((1, 1, 19_200))
    builder.conv("x", 8, 1)
    graph, config = varied(builder), Config(array_size=4)
    program = kept_program(graph, config, Options(effort=0))  # others cut it
    x = np.random.default_rng(1).integers(-128, 128, (1, 1, 19_200)).astype(np.int8)
    (due,) = (run_layers(graph, {"x": x})[name] for name in graph.outputs)
    (output,) = Session(program, "golden").run({"x": x}).outputs.values()
    np.testing.assert_array_equal(output.reshape(due.shape), due)
