"""Pixels that nobody reads are not computed, and the results stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.rewrite.unread_pixels import remove_unread_pixels
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Conv, Depthwise
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options

SAME = {"padding": (1, 1, 1, 1)}


def bottleneck(size=16, channels=32, *, outputs=("shortcut", "next")):
    """Return the end of a residual block, and the two layers with a stride that follow it."""
    builder = GraphBuilder((size, size, channels))
    builder.conv("x", 16, 1, name="narrow")
    builder.conv("narrow", 16, name="middle", **SAME)
    builder.conv("middle", channels, 1, name="wide")
    builder.add("x", "wide", name="sum")
    builder.lut("sum", name="relu")
    builder.conv("relu", 2 * channels, 1, name="shortcut", stride=(2, 2))
    builder.conv("relu", 16, 1, name="next", stride=(2, 2))
    return builder.graph(*outputs)


def varied(layers):
    """Return the network with random weights."""
    rng = np.random.default_rng(0)

    def vary(layer):
        if not isinstance(layer, Conv | Depthwise):
            return layer
        return replace(layer, weight=rng.integers(-128, 128, layer.weight.shape, np.int8))

    return replace(layers, layers=tuple(map(vary, layers.layers)))


def assert_exact(layers, config):
    x = np.random.default_rng(1).integers(-128, 128, layers.activations["x"].shape, np.int8)
    results = Session(kept_program(layers, config, quick_options()), "golden").run({"x": x})
    expected = run_layers(layers, {"x": x})
    for name in layers.outputs:
        np.testing.assert_array_equal(results.outputs[name], expected[name])


def test_strides_go_to_the_first_layer_that_may_take_them():
    layers = remove_unread_pixels(bottleneck())
    strides = {x.name: x.stride for x in layers.layers if hasattr(x, "stride")}
    assert strides["narrow"] == (1, 1)
    assert strides["middle"] == (2, 2)
    assert strides["wide"] == strides["shortcut"] == strides["next"] == (1, 1)
    assert strides["sum: pixels of x"] == (2, 2)
    assert layers.activations["relu"].shape == (8, 8, 32)
    assert_exact(varied(bottleneck()), Config())


def test_three_quarters_of_the_work_is_saved():
    found, before = (
        predict_cycles(kept_program(layers, Config()).commands, Config())
        for layers in (bottleneck(28), bottleneck(28, outputs=("shortcut", "next", "relu")))
    )
    assert found < 0.7 * before


@pytest.mark.parametrize("reader", ["output", "kernel", "pooling", "padding"])
def test_whoever_reads_all_pixels_gets_them(reader):
    builder = GraphBuilder((9, 9, 8))
    builder.conv("x", 8, name="a", **SAME)
    builder.conv("a", 8, 1, name="b", stride=(2, 2))
    if reader == "kernel":
        builder.conv("a", 8, 3, name="c", stride=(2, 2))
    if reader == "pooling":
        builder.pool("a", (2, 2), name="c", stride=(2, 2))
    if reader == "padding":
        builder.conv("a", 8, 1, name="c", stride=(2, 2), padding=(1, 1, 0, 0))
    outputs = ("b", "a") if reader == "output" else ("b", "c")
    layers = builder.graph(*outputs)
    assert remove_unread_pixels(layers).activations == layers.activations


@st.composite
def networks(draw):
    builder = GraphBuilder((draw(st.integers(4, 12)), draw(st.integers(4, 12)), 6))
    name = "x"
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["conv", "depthwise", "pool", "add", "lut", "concat"]))
        stride = draw(st.sampled_from([(1, 1), (2, 1), (2, 2)]))
        if kind == "conv":
            name = builder.conv(name, 6, draw(st.sampled_from([1, 3])), stride=stride, **SAME)
        elif kind == "depthwise":
            name = builder.depthwise(name, stride=stride, **SAME)
        elif kind == "pool":
            name = builder.pool(name, (3, 2), stride=stride, padding=(1, 1, 1, 1))
        elif kind == "add":
            name = builder.add(name, builder.conv(name, 6, **SAME))
        elif kind == "concat":
            both = builder.concat(name, builder.lut(name), axis=2)
            name = builder.conv(both, 6, 1)
        else:
            name = builder.lut(name)
    steps = draw(st.sampled_from([(2, 2), (3, 2), (4, 4), (1, 2)]))
    ends = [builder.conv(name, 8, 1, stride=steps)]
    if draw(st.booleans()):
        ends.append(builder.pool(name, (1, 1), stride=(2 * steps[0], steps[1])))
    return varied(builder.graph(*ends))


@settings(max_examples=30)  # each is compiled
@given(layers=networks(), config=st.sampled_from([Config(array_size=4), Config()]))
def test_networks_without_unread_pixels_compute_the_same(layers, config):
    assert_exact(layers, config)
