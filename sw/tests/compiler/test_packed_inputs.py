"""Inputs that the host packs as patches: exact, and as fast as the array can be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.geometry.extents import activation_rows, input_rows
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.quick_options import quick_options

CONFIGS = [Config(array_size=4), Config(array_size=8), Config(), Config(array_size=32)]


def network(shape, outputs, kernel, *, stride, padding=(0, 0, 0, 0), unsigned=False, raw=False):
    """Return a convolution of the input with random weights."""
    rng = np.random.default_rng(outputs)
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (*kernel, shape[2], outputs), np.int8),
        requantization=None if raw else random_requantization(rng, outputs, 50_000),
        input_zero_point=int(rng.integers(-128, 128)),
        weight_zero_point=int(rng.integers(-3, 4)),
        stride=stride,
        padding=padding,
    )
    height, width = (
        (shape[i] + padding[i] + padding[i + 2] - kernel[i]) // stride[i] + 1 for i in (0, 1)
    )
    images = {
        "x": Activation(shape),
        "y": Activation((height, width, outputs), "int32" if raw else "int8"),
    }
    seen = frozenset({"x"} if unsigned else ())
    return LayerGraph("network", (layer,), images, ("x",), ("y",), unsigned=seen)


@st.composite
def networks(draw):
    kernel = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    stride = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    padding = tuple(draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4))
    shape = (
        draw(st.integers(kernel[0], 24)),
        draw(st.integers(kernel[1], 24)),
        draw(st.integers(1, 6)),
    )
    return network(
        shape,
        draw(st.integers(1, 40)),
        kernel,
        stride=stride,
        padding=padding,
        unsigned=draw(st.booleans()),
        raw=draw(st.booleans()),
    )


@settings(max_examples=30)  # each is compiled
@given(layers=networks(), config=st.sampled_from(CONFIGS), dense=st.booleans())
def test_packed_inputs_give_the_same_bits(layers, config, dense):
    program = kept_program(layers, config, quick_options(dense_mode=dense))
    x = np.random.default_rng(1).integers(-128, 128, layers.activations["x"].shape, np.int8)
    given_x = x.view(np.uint8) ^ 128 if layers.unsigned else x
    results = Session(program, "golden").run({"x": given_x})
    assert results.fault is None
    np.testing.assert_array_equal(results.outputs["y"], run_layers(layers, {"x": x})["y"])


@given(layers=networks(), config=st.sampled_from(CONFIGS))
def test_packed_inputs_are_never_larger_than_vectors_of_channels(layers, config):
    packed = pack_patches(layers, config)
    assert activation_rows(packed.activations["x"], config) <= activation_rows(
        layers.activations["x"], config
    )
    assert packed.activations["y"] == layers.activations["y"]


@pytest.mark.parametrize(
    ("size", "kernel", "outputs"), [(224, 16, 192), (224, 14, 192), (224, 4, 96)]
)
def test_patches_take_the_cycles_of_their_products(size, kernel, outputs):
    layers = network((size, size, 3), outputs, (kernel, kernel), stride=(kernel, kernel))
    tiles = -(-kernel * kernel * 3 // 16) * outputs // 16
    products = tiles * (size // kernel) ** 2
    assert predict_cycles(kept_program(layers, Config()).commands, Config()) < 1.15 * products


def test_two_rows_of_the_image_share_a_packed_row():
    layers = network((224, 224, 3), 64, (7, 7), stride=(2, 2), padding=(3, 3, 3, 3))
    packed = pack_patches(layers, Config())
    patches = packed.packed["x"].patches
    assert patches is not None and patches.size == (2, 1)
    assert packed.layers[0].weight.shape == (4, 7, 6, 64)
    assert input_rows(packed, packed.layers[0], Config())


def test_inputs_that_others_read_are_left_as_they_are():
    layers = network((16, 16, 3), 8, (4, 4), stride=(4, 4))
    assert pack_patches(layers, Config()).packed.keys() == {"x"}
    (layer,) = layers.layers
    again = replace(layer, name="again", output="z")
    images = {**layers.activations, "z": layers.activations["y"]}
    both = replace(layers, layers=(layer, again), activations=images, outputs=("y", "z"))
    assert pack_patches(both, Config()) is both
