import re
from dataclasses import replace

import numpy as np
import pytest

from tpulite.graph.graph import Quantization
from tpulite.graph.verify import verify
from tpulite_testing.graphs.float_graphs import GraphBuilder

Q = (0.5, 3)
IMAGE = (1, 4, 5, 3)
CONV = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "activation": "none"}
POOL = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 1), "activation": "none"}


def graph(op, out, *constants, meaning=Q, **attributes):
    b = GraphBuilder()
    inputs = [b.input("x", IMAGE, Q)]
    for i, extents in enumerate(constants):
        inputs.append(b.constant(f"c{i}", np.zeros(extents, np.int8), (0.1, 0)))
    b.node(op, inputs, "y", out, meaning, **attributes)
    return b.build("y")


GOOD = [
    graph("conv", (1, 3, 4, 2), (2, 2, 2, 3), (2,), **CONV),
    graph("conv", (1, 3, 3, 2), (2, 2, 2, 3), **CONV | {"dilation": (1, 2)}),
    graph("depthwise", (1, 3, 4, 6), (2, 2, 6), (6,), multiplier=2, **CONV),
    graph("dense", (1, 7), (7, 60), (7,), activation="none"),
    graph("dense", (4, 7), (7, 15), activation="none"),
    graph("add", (2, 4, 5, 3), (2, 1, 1, 3), activation="none"),
    graph("max_pool", (1, 2, 3, 3), **POOL),
    graph("mean", (1, 3), axes=(1, 2), keep_dims=False),
    graph("mean", (1, 1, 1, 3), axes=(1, 2), keep_dims=True),
    graph("pad", (1, 5, 8, 3), padding=(1, 1, 0, 2), value=3),
    graph("concat", (1, 4, 5, 5), (1, 4, 5, 2), axis=3, activation="none"),
    graph("relu", IMAGE),
    graph("requantize", IMAGE),
    graph("reshape", (3, 20), shape=(3, 20)),
    graph("anything", (9, 9), meaning=None),
]


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good.nodes[0].op)
def test_accepts_what_fits(good):
    verify(good)


BAD = [
    (graph("conv", (1, 3, 4, 2), (2, 2, 2, 4), **CONV), "channels of its weights must be 3, not 4"),
    (
        graph("conv", (1, 3, 4, 3), (2, 2, 2, 3), **CONV),
        "batch and channels of its output must be (1, 2), not (1, 3)",
    ),
    (graph("conv", (1, 3, 4, 2), (2, 2, 2, 3), (3,), **CONV), "its bias must be (2,), not (3,)"),
    (
        graph("conv", (1, 4, 4, 2), (2, 2, 2, 3), **CONV),
        "height and width of its output must be (3, 4), not (4, 4)",
    ),
    (
        graph("conv", (1, 3, 4, 2), (2, 2, 3), **CONV),
        "its weights must have 4 axes, not shape [2, 2, 3]",
    ),
    (graph("conv", (1, 3, 4, 2), **CONV), "it must have at least 2 inputs, not 1"),
    (
        graph("conv", (1, 3, 4, 2), (2, 2, 2, 3), **CONV | {"stride": (0, 1)}),
        "strides, dilations and windows must be positive, not 0, 1 and 2",
    ),
    (
        graph("conv", (1, 3, 4, 2), (2, 2, 2, 3), **CONV | {"padding": (0, -1, 0, 1)}),
        "its padding must not be negative, not (0, -1, 0, 1)",
    ),
    (
        graph("depthwise", (1, 3, 4, 6), (2, 2, 6), multiplier=3, **CONV),
        "channels of its weights must be 9, not 6",
    ),
    (
        graph("depthwise", (1, 3, 4, 3), (2, 2, 3, 1), multiplier=1, **CONV),
        "its weights must have 3 axes, not shape [2, 2, 3, 1]",
    ),
    (
        graph("dense", (1, 7), (7, 59), activation="none"),
        "its input [1, 4, 5, 3] is no multiple of 59 elements",
    ),
    (
        graph("dense", (7, 1), (7, 60), activation="none"),
        "channels of its output must be (7,), not (1,)",
    ),
    (
        graph("dense", (2, 7), (7, 60), activation="none"),
        "elements of its output must be 7, not 14",
    ),
    (
        graph("add", (1, 4, 5, 3), (2, 1, 1, 3), activation="none"),
        "its output must be (2, 4, 5, 3), not",
    ),
    (graph("mul", (1, 4, 5, 3), (4,), activation="none"), "shape mismatch"),
    (
        graph("average_pool", (1, 2, 3, 4), **POOL),
        "batch and channels of its output must be (1, 3), not",
    ),
    (
        graph("max_pool", (1, 2, 2, 3), **POOL),
        "height and width of its output must be (2, 3), not (2, 2)",
    ),
    (
        graph("mean", (1, 3), axes=(1, 2), keep_dims=True),
        "its output must be (1, 1, 1, 3), not (1, 3)",
    ),
    (
        graph("pad", (1, 5, 7, 3), padding=(1, 1, 0, 2), value=3),
        "its output must be (1, 5, 8, 3), not",
    ),
    (
        graph("concat", (1, 4, 5, 6), (1, 4, 5, 2), axis=3, activation="none"),
        "axis 3 of its output must be 5, not 6",
    ),
    (
        graph("concat", (1, 4, 5, 5), (1, 3, 5, 2), axis=3, activation="none"),
        "an input must be (1, 4, 5, 2), not (1, 3, 5, 2)",
    ),
    (graph("concat", (1, 4, 5, 5), axis=4, activation="none"), "axis 4 is not one of its output"),
    (graph("reshape", (3, 20), shape=(1, 60)), "its output must be (1, 60), not (3, 20)"),
    (graph("reshape", (3, 21), shape=(3, 21)), "elements of its output must be 60, not 63"),
    (graph("tanh", (1, 4, 5, 4)), "its output must be (1, 4, 5, 3), not (1, 4, 5, 4)"),
    (graph("batch_norm", IMAGE, (3,), (3,), (3,), (4,)), "variance must be (3,), not (4,)"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[message for _, message in BAD])
def test_names_the_node_and_what_does_not_fit(bad, message):
    op = bad.nodes[0].op
    with pytest.raises(ValueError, match="^" + re.escape(f"node '{op}_y' ({op}): {message}")):
        verify(bad)


def with_quantization(good, name, quantization):
    tensors = dict(good.tensors)
    tensors[name] = replace(tensors[name], quantization=quantization)
    return replace(good, tensors=tensors)


def channels(axis, count):
    return Quantization(np.ones(count, np.float32), np.zeros(count, np.int64), axis)


@pytest.mark.parametrize("name", ["x", "c0", "y"])
def test_integers_that_are_computed_with_need_scales(name):
    with pytest.raises(ValueError, match=f"tensor '{name}' is int8 and has no scale"):
        verify(with_quantization(GOOD[0], name, None))


def test_integers_that_are_only_moved_need_none():
    good = graph("concat", (1, 4, 5, 5), (1, 4, 5, 2), axis=3, activation="none")
    verify(with_quantization(with_quantization(good, "x", None), "y", None))


@pytest.mark.parametrize("name", ["x", "y"])
def test_only_weights_have_scales_of_channels(name):
    with pytest.raises(ValueError, match=f"tensor '{name}' must have one scale, not one a channel"):
        verify(with_quantization(GOOD[0], name, channels(3, 3)))


def test_a_node_has_one_output():
    b = GraphBuilder()
    x = b.input("x", IMAGE, Q)
    b.node("relu", [x], "y", IMAGE, Q)
    b.nodes[0] = replace(b.nodes[0], outputs=("y", b.tensor("z", IMAGE, Q)))
    with pytest.raises(ValueError, match=r"it has 2 outputs, not 1$"):
        verify(b.build("y"))
