"""Neighboring pixels of few channels share a vector, and the results stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.rewrite.neighbors import join_neighbors
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.quick_options import quick_options


def pair(shape, channels, kernels, *, strides, padding=(0, 0, 0, 0), behind=(0, 0)):
    """Return two convolutions with random weights; ``behind``: padding of the second one."""
    rng = np.random.default_rng(channels[0])
    images, layers, depth = {"x": Activation(shape)}, [], shape[2]
    for name, source, outputs, kernel, stride in zip(
        "yz", "xy", channels, kernels, strides, strict=True
    ):
        layer = Conv(
            name=name,
            inputs=(source,),
            output=name,
            weight=rng.integers(-128, 128, (*kernel, depth, outputs), np.int8),
            requantization=random_requantization(rng, outputs, 50_000),
            input_zero_point=int(rng.integers(-128, 128)),
            weight_zero_point=int(rng.integers(-3, 4)),
            stride=stride,
            padding=padding if name == "y" else (0, 0, *behind),
        )
        images[name], depth = layer._infer(images[source]), outputs
        layers.append(layer)
    return LayerGraph("pair", tuple(layers), images, ("x",), ("z",))


def assert_exact(layers, config):
    x = np.random.default_rng(1).integers(-128, 128, layers.activations["x"].shape, np.int8)
    results = Session(kept_program(layers, config, quick_options()), "golden").run({"x": x})
    np.testing.assert_array_equal(results.outputs["z"], run_layers(layers, {"x": x})["z"])


@st.composite
def pairs(draw):
    extents = st.tuples(st.integers(1, 4), st.integers(1, 4))
    kernel, stride = draw(extents), draw(extents)
    shape = draw(st.integers(kernel[0], 20)), draw(st.integers(kernel[1], 20))
    padding = tuple(draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4))
    middle = [(shape[i] + padding[i] + padding[i + 2] - kernel[i]) // stride[i] + 1 for i in (0, 1)]
    if draw(st.booleans()):  # all pixels once, as dense layers do
        second, step = (middle[0], middle[1]), (1, 1)
    else:
        second = draw(st.integers(1, middle[0])), draw(st.integers(1, middle[1]))
        step = draw(extents)
    channels = draw(st.integers(1, 9)), draw(st.integers(1, 20))
    depth = draw(st.integers(1, 5))
    return pair(
        (*shape, depth),
        channels,
        (kernel, second),
        strides=(stride, step),
        padding=padding,
        behind=tuple(draw(st.integers(0, min(2, extent - 1))) for extent in second),
    )


@settings(max_examples=25)  # each is compiled
@given(
    layers=pairs(), config=st.sampled_from([Config(array_size=4), Config(), Config(ub_rows=1024)])
)
def test_joined_neighbors_compute_the_same(layers, config):
    x = np.random.default_rng(2).integers(-128, 128, layers.activations["x"].shape, np.int8)
    joined = run_layers(join_neighbors(layers, config), {"x": x})
    np.testing.assert_array_equal(joined["z"], run_layers(layers, {"x": x})["z"])
    assert_exact(layers, config)


@pytest.mark.parametrize("size", range(5, 12))
def test_padding_behind_the_last_pixel_is_not_one_that_nobody_needs(size):
    """As SAME pads an odd extent for a stride of two."""
    layers = pair(
        (size, size, 3), (3, 5), ((1, 1), (2, 2)), strides=((1, 1), (2, 2)), behind=(size % 2,) * 2
    )
    x = np.random.default_rng(3).integers(-128, 128, (size, size, 3), np.int8)
    joined = join_neighbors(layers, Config())
    assert (joined is layers) == (size % 2 == 1)
    np.testing.assert_array_equal(
        run_layers(joined, {"x": x})["z"], run_layers(layers, {"x": x})["z"]
    )


def test_a_dense_layer_reads_two_pixels_of_eight_channels_at_once():
    layers = pair((49, 40, 1), (8, 4), ((10, 8), (20, 17)), strides=((2, 2), (1, 1)))
    joined = join_neighbors(layers, Config())
    assert joined.activations["y"].shape in ((20, 9, 16), (10, 17, 16))
    assert joined.layers[1].weight.size >= layers.layers[1].weight.size


def test_others_are_left_as_they_are():
    layers = pair((20, 20, 3), (8, 16), ((3, 3), (3, 3)), strides=((1, 1), (1, 1)))
    assert join_neighbors(layers, Config()) is layers  # steps of one pixel
    wide = pair((20, 20, 3), (16, 16), ((3, 3), (2, 2)), strides=((1, 1), (2, 2)))
    assert join_neighbors(wide, Config()) is wide  # no column is idle
    both = replace(layers, outputs=("y", "z"))
    assert join_neighbors(both, Config()) is both
