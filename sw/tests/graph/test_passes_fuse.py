import math

import numpy as np
import pytest

from tpulite.graph.passes.fuse_activations import fuse_activations
from tpulite.graph.passes.pads import fuse_pads
from tpulite_testing.graphs.float_graphs import GraphBuilder

Q = (0.5, 3)
WINDOW = {"stride": (1, 1), "padding": (0, 0, 0, 0), "activation": "none"}


def sums(b, activation="none"):
    """Add x + x, named y."""
    x = b.input("x", (1, 4), Q)
    return b.node("add", [x, x], "y", (1, 4), Q, activation=activation)


@pytest.mark.parametrize("op", ["relu", "relu6", "relu_n1_1"])
def test_an_activation_moves_into_the_node_before(op):
    b = GraphBuilder()
    b.node(op, [sums(b)], "z", (1, 4), Q)
    graph = fuse_activations(b.build("z"))
    (node,) = graph.nodes
    assert (node.name, node.op, node["activation"], node.outputs) == ("add_y", "add", op, ("z",))
    assert set(graph.tensors) == {"x", "z"}


@pytest.mark.parametrize(
    ("low", "high", "activation"),
    [(0, math.inf, "relu"), (0.0, 6.0, "relu6"), (-1, 1, "relu_n1_1")],
)
def test_a_clip_to_bounds_of_an_activation_is_one(low, high, activation):
    b = GraphBuilder()
    b.node("clip", [sums(b)], "z", (1, 4), Q, low=low, high=high)
    assert [node["activation"] for node in fuse_activations(b.build("z")).nodes] == [activation]


def test_other_clips_stay():
    b = GraphBuilder()
    b.node("clip", [sums(b)], "z", (1, 4), Q, low=0, high=5)
    assert len(fuse_activations(b.build("z")).nodes) == 2


@pytest.mark.parametrize("meaning", [(0.5, 4), (0.25, 3)])
def test_an_activation_that_rescales_stays(meaning):
    b = GraphBuilder()
    b.node("relu", [sums(b)], "z", (1, 4), meaning)
    assert len(fuse_activations(b.build("z")).nodes) == 2


def test_an_activation_stays_if_its_input_is_used_elsewhere():
    b = GraphBuilder()
    y = sums(b)
    z = b.node("relu", [y], "z", (1, 4), Q)
    b.node("add", [y, z], "last", (1, 4), Q, activation="none")
    assert len(fuse_activations(b.build("last")).nodes) == 3


def test_an_activation_stays_if_its_input_is_an_output():
    b = GraphBuilder()
    b.node("relu", [sums(b)], "z", (1, 4), Q)
    assert len(fuse_activations(b.build("y", "z")).nodes) == 2


def test_a_second_activation_stays():
    b = GraphBuilder()
    z = b.node("relu", [sums(b)], "z", (1, 4), Q)
    b.node("relu6", [z], "last", (1, 4), Q)
    ops = [(n.op, n.attributes.get("activation")) for n in fuse_activations(b.build("last")).nodes]
    assert ops == [("add", "relu"), ("relu6", None)]


def test_sums_are_not_clamped():
    b = GraphBuilder()
    x = b.input("x", (1, 4), Q)
    w = b.constant("w", np.zeros((3, 4), np.int8), (0.1, 0))
    b.node("dense", [x, w], "y", (1, 3), dtype="int32", activation="none", raw=True)
    b.node("relu", ["y"], "z", (1, 3), dtype="int32")
    assert len(fuse_activations(b.build("z")).nodes) == 2


def padded(b, value, meaning=Q):
    x = b.input("x", (1, 4, 5, 2), Q)
    return b.node("pad", [x], "p", (1, 7, 8, 2), meaning, padding=(1, 2, 2, 1), value=value)


def conv(b, x, shape=(1, 5, 6, 2), **changes):
    w = b.constant("w", np.zeros((2, 3, 3, 2), np.int8), (0.1, 0))
    return b.node("conv", [x, w], "y", shape, Q, **(WINDOW | {"dilation": (1, 1)} | changes))


def pool(b, x, op="max_pool", shape=(1, 5, 6, 2), window=(3, 3), **changes):
    return b.node(op, [x], "y", shape, Q, window=window, **(WINDOW | changes))


def test_a_convolution_pads_for_itself():
    b = GraphBuilder()
    conv(b, padded(b, 3), (1, 6, 9, 2), padding=(1, 0, 0, 3))
    (node,) = fuse_pads(b.build("y")).nodes
    assert node.inputs[0] == "x" and node["padding"] == (2, 2, 2, 4)


def test_a_convolution_pads_only_with_zeros():
    b = GraphBuilder()
    conv(b, padded(b, 0))
    assert len(fuse_pads(b.build("y")).nodes) == 2


def test_a_pad_that_is_used_elsewhere_stays_for_those():
    b = GraphBuilder()
    p = padded(b, 3)
    conv(b, p)
    graph = fuse_pads(b.build("y", "p"))
    assert [node.op for node in graph.nodes] == ["pad", "conv"]
    assert graph.nodes[1].inputs[0] == "x"


def test_a_pad_that_changes_the_meaning_stays():
    b = GraphBuilder()
    conv(b, padded(b, 3, (0.5, 4)))
    assert len(fuse_pads(b.build("y")).nodes) == 2


@pytest.mark.parametrize(("value", "nodes"), [(-128, 1), (-127, 2), (3, 2)])
def test_a_maximum_pads_only_with_the_least_value(value, nodes):
    b = GraphBuilder()
    pool(b, padded(b, value))
    assert len(fuse_pads(b.build("y")).nodes) == nodes


def test_a_maximum_of_uint8_pads_with_zero():
    b = GraphBuilder()
    x = b.input("x", (1, 4, 4, 2), Q, dtype="uint8")
    b.node("pad", [x], "p", (1, 6, 6, 2), Q, dtype="uint8", padding=(1, 1, 1, 1), value=0)
    b.node("max_pool", ["p"], "y", (1, 4, 4, 2), Q, dtype="uint8", window=(3, 3), **WINDOW)
    assert [node["padding"] for node in fuse_pads(b.build("y")).nodes] == [(1, 1, 1, 1)]


def test_every_window_of_a_maximum_must_see_an_element():
    b = GraphBuilder()
    pool(b, padded(b, -128), window=(2, 3), shape=(1, 6, 6, 2))  # the last row sees only the pad
    assert len(fuse_pads(b.build("y")).nodes) == 2


def test_an_average_counts_what_a_pad_adds():
    b = GraphBuilder()
    pool(b, padded(b, 3), "average_pool", count_include_pad=False)
    assert len(fuse_pads(b.build("y")).nodes) == 2
