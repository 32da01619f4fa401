"""What cannot be: one sentence with the value and the limits."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.graph.layers import Activation, Concat, DepthToSpace, LayerGraph, Lut, Reshape
from tpulite_testing.graphs.range_layers import affine, conv, pool, single

LIMITS = ShapeRange((1, 4), (3, 40), (3, 50), (16, 16))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"height": 41, "width": 9}, "height must be in 3..40, for which .* not 41"),
        ({"height": 2, "width": 9}, "height must be in 3..40, for which .* not 2"),
        ({"height": 0, "width": 9}, "height must be in 3..40, for which .* not 0"),
        ({"height": 9, "width": 51}, "width must be in 3..50, for which .* not 51"),
        ({"height": 9, "width": 9, "batch": 5}, "batch must be in 1..4, for which .* not 5"),
        ({"height": 9, "width": 9, "batch": 0}, "batch must be in 1..4, for which .* not 0"),
        ({"height": 9, "width": 9, "channels": 0}, "channels must be in 16..16, .* not 0"),
        ({"height": 9, "width": 9, "channels": 17}, "channels must be in 16..16, .* not 17"),
        ({"height": 9.5, "width": 9}, "height must be in 3..40, for which .* not 9.5"),
    ],
)
def test_shapes_outside_the_range(values, message):
    dynamic = compile_range(affine(16), LIMITS, Config())
    with pytest.raises(ValueError, match=f"^Layer 'bn', input 'x': {message}$"):
        dynamic.bind(**values)


@pytest.mark.parametrize("pair", [(-1, 3), (5, 4), (-1, -1)])
def test_ranges_that_are_empty(pair):
    message = f"^Range of width must be two numbers in order from 0 on, not \\({pair[0]}, {pair[1]}"
    with pytest.raises(ValueError, match=message):
        ShapeRange((1, 1), (1, 1), pair, (1, 1))


@pytest.mark.parametrize("pair", [(1,), (1, 2, 3), (1.0, 3), ("1", "3"), 3])
def test_ranges_that_are_no_pairs_of_whole_numbers(pair):
    with pytest.raises(ValueError, match=r"^Range of width must be two whole numbers, not "):
        ShapeRange((1, 1), (1, 1), pair, (1, 1))


def ranged(channels: int, *, height=(3, 40), width=(3, 50), least: int | None = None):
    return ShapeRange((1, 1), height, width, (least or channels, channels))


def test_a_buffer_that_is_too_small_says_what_is_needed_and_what_there_is():
    # Rows of five bytes begin at beats only every fourth: four rows must be there at once.
    config = Config(array_size=4, ub_rows=64, acc_rows=16, ub_banks=4)
    message = (
        r"^Layer 'conv' with input Shape\(batch=1, height=\d+, width=9, channels=16\) needs "
        r"\d+ bytes of the unified buffer, which has 256$"
    )
    with pytest.raises(ValueError, match=message) as caught:
        compile_range(conv((3, 3), 16, 16), ranged(16), config)
    assert int(str(caught.value).split(" needs ")[1].split()[0]) > 256


def test_the_same_range_on_a_larger_machine_is_possible():
    compile_range(conv((3, 3), 16, 16), ranged(16), Config(array_size=4, ub_rows=4096))


@pytest.mark.parametrize(
    ("graph", "shapes", "message"),
    [
        (affine(16), ranged(17), "Layer 'bn' can have 0..16 channels, not 17"),
        (conv((3, 3), 16, 8), ranged(17), "Layer 'conv' can have 16 channels, not 17"),
        (
            conv((3, 3), 16, 8),
            ranged(16, least=3),
            "Layer 'conv' can have 16 channels, not 3..16",
        ),
        (
            conv((5, 5), 16, 8, padding=(0, 0, 0, 0)),
            ranged(16, height=(4, 9), width=(6, 9)),
            "Layer 'conv': height 4 is too small for a window of 5",
        ),
        (
            pool((3, 3), padding=(0, 0, 0, 0)),
            ranged(64, width=(1, 9)),
            "Layer 'pool': width 1 is too small for a window of 3",
        ),
        (
            affine(1024),
            ranged(1024, height=(1, 4096), width=(1, 1024)),
            "Layer 'bn': inputs of 4294967296 bytes do not fit a DRAM window, .* 4294967296",
        ),
        (
            conv((3, 3), 16, 8, dilation=(16, 1), padding=(16, 1, 16, 1)),
            ranged(16),
            "Layer 'conv': dilation must be at most 15, not 16",
        ),
        (
            conv((65, 1), 16, 8),
            ranged(16),
            "Layer 'conv': padding must be at most 31, not 32",
        ),
        (
            conv((3, 3), 16, 8, requantization=None, input_zero_point=3),
            ranged(16),
            "Layer 'conv': raw sums of any shape need input_zero_point 0, not 3",
        ),
        (
            pool((300, 3), padding=(0, 0, 0, 0)),
            ranged(64, height=(300, 301)),
            r"Layer 'pool': a window must cover 255 .* or less, not \(300, 3\)",
        ),
        (
            pool((3, 3), stride=(2, 2), padding=(0, 0, 3, 0)),
            ranged(64),
            r"Layer 'pool': a window \(3, 3\) must not lie in padding \(0, 0, 3, 0\)",
        ),
    ],
)
def test_layers_and_ranges_that_do_not_suit_the_machine(graph, shapes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        compile_range(graph, shapes, Config())


def test_layers_that_depend_on_the_extents():
    images = {
        "x": Activation((4, 4, 16)),
        "y": Activation((1, 1, 256)),
        "z": Activation((1, 1, 256)),
    }
    table = np.arange(256).astype(np.uint8).view(np.int8)
    layers = (
        Reshape(name="flatten", inputs=("x",), output="y"),
        Lut(name="table", inputs=("y",), output="z", table=table),
    )
    message = r"^Layer 'flatten' depends on the extents: it makes \(1, 1, 256\) of \(4, 4, 16\)$"
    with pytest.raises(ValueError, match=message):
        compile_range(LayerGraph("flat", layers, images, ("x",), ("z",)), LIMITS, Config())


def test_layers_that_have_no_ranges_of_shapes():
    layer = DepthToSpace(name="up", inputs=("x",), output="y", block=(2, 2), channels=4)
    image = Activation((4, 4, 16))
    message = r"^Layer 'up' cannot have a range of shapes: it is DepthToSpace; .* --outputs$"
    with pytest.raises(ValueError, match=message):
        compile_range(single(layer, image, layer._infer(image)), LIMITS, Config())


def test_rows_are_not_joined():
    layer = Concat(name="below", inputs=("x", "x"), output="y", axis=0)
    image = Activation((4, 4, 16))
    message = (
        r"^Layer 'below' cannot have a range of shapes: it must join int8 channels, not axis 0 of "
    )
    with pytest.raises(ValueError, match=message):
        compile_range(single(layer, image, layer._infer(image, image)), LIMITS, Config())
