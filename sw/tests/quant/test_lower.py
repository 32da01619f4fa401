"""Lowering: what becomes of nodes, beyond the numbers that the sweeps compare."""

import numpy as np
import pytest

from tpulite.arch.numerics import Rounding, quantize_multiplier, requantize
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Conv, Elementwise, Lut, Pad, Pool, Reshape
from tpulite.quant.exactness import Exactness, default_exactness
from tpulite_testing.graphs.lowered import lower_graph
from tpulite_testing.graphs.small_graphs import activation, constant, graph_of, node

WINDOW = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "activation": "none"}
REF = Exactness.LITERT_REF


def classifier(shape=(1, 4, 3, 5), flatten=True):
    """Return a network that flattens an image, if asked, and a dense layer of it."""
    k = int(np.prod(shape))
    weight = np.random.default_rng(1).integers(-127, 128, (7, k)).astype(np.int8)
    tensors = [
        activation("x", shape, 0.05, -4),
        activation("flat", (1, k), 0.05, -4),
        constant("w", weight, 0.01),
        activation("y", (1, 7), 9.0, 3),
    ]
    nodes = [
        node("reshape", "x", "flat", shape=(1, k)),
        node("dense", "flat w" if flatten else "x w", "y", activation="none"),
    ]
    return graph_of(nodes if flatten else nodes[1:], tensors, "x", "y"), weight


def test_the_default_is_the_specification_of_the_format():
    assert default_exactness("tflite") is Exactness.LITERT_REF
    assert default_exactness("onnx") is Exactness.ORT
    with pytest.raises(ValueError, match="not 'pt'"):
        default_exactness("pt")


@pytest.mark.parametrize("flatten", [False, True])
def test_a_dense_layer_is_a_kernel_that_covers_the_image(flatten):
    graph, weight = classifier(flatten=flatten)
    layers = lower_graph(graph, REF)
    (layer,) = layers.layers
    assert isinstance(layer, Conv)
    assert layer.inputs == ("x",)
    assert layer.weight.shape == (4, 3, 5, 7)
    assert np.array_equal(layer.weight.reshape(60, 7), weight.T)


def test_an_image_larger_than_a_kernel_becomes_one_pixel():
    layers = lower_graph(classifier((1, 65, 2, 32))[0], REF)
    reshape, layer = layers.layers
    assert isinstance(reshape, Reshape)
    assert isinstance(layer, Conv)
    assert layer.weight.shape == (1, 1, 4160, 7)


def test_a_reshape_that_parts_channels_is_refused_at_the_ends():
    with pytest.raises(ValueError, match="it reshapes 3 channels to 390"):
        lower_graph(classifier((1, 65, 2, 3))[0], REF)
    graph, _ = classifier()
    seen = graph_of(graph.nodes, list(graph.tensors.values()), "x", "flat y")
    with pytest.raises(ValueError, match="it reshapes 5 channels to 60"):
        lower_graph(seen, REF)


def test_rows_of_a_matrix_are_pixels():
    weight = constant("w", np.eye(4, dtype=np.int8), 1.0)
    tensors = [activation("x", (6, 4), 1.0), weight, activation("y", (6, 4), 1.0)]
    layers = lower_graph(
        graph_of([node("dense", "x w", "y", activation="none")], tensors, "x", "y"), REF
    )
    x = np.arange(24, dtype=np.int8).reshape(6, 1, 4)
    assert np.array_equal(run_layers(layers, {"x": x})["y"], x)


def test_a_multiplier_of_channels_makes_an_ordinary_convolution():
    weight = np.arange(1, 7, dtype=np.uint8).reshape(1, 1, 6)
    tensors = [
        activation("x", (1, 2, 2, 3), 1.0, 128, "uint8"),
        constant("w", weight, 1.0, 2),
        activation("y", (1, 2, 2, 6), 1.0, 128, "uint8"),
    ]
    graph = graph_of([node("depthwise", "x w", "y", multiplier=2, **WINDOW)], tensors, "x", "y")
    layers = lower_graph(graph, REF)
    (layer,) = layers.layers
    assert isinstance(layer, Conv)
    x = np.arange(12, dtype=np.int8).reshape(2, 2, 3)
    result = run_layers(layers, {"x": x})["y"]
    assert np.array_equal(result, np.repeat(x, 2, axis=2) * np.arange(-1, 5))
    assert layers.unsigned == {"x", "y"}


def test_padding_that_counts_becomes_part_of_the_image():
    tensors = [activation("x", (1, 3, 3, 2), 0.1, 5), activation("y", (1, 3, 3, 2), 0.1, 5)]
    pool = node(
        "average_pool",
        "x",
        "y",
        window=(3, 3),
        stride=(1, 1),
        padding=(1, 1, 1, 1),
        count_include_pad=True,
        activation="none",
    )
    pad, layer = lower_graph(graph_of([pool], tensors, "x", "y"), REF).layers
    assert isinstance(pad, Pad)
    assert pad.value == 5
    assert isinstance(layer, Pool)
    assert layer.padding == (0, 0, 0, 0)


def test_the_operand_that_is_the_same_for_all_pixels_comes_second():
    tensors = [
        constant("c", np.array([[[[3, -3]]]], np.int8), 0.5),
        activation("x", (1, 4, 4, 2), 0.1, 5),
        activation("y", (1, 4, 4, 2), 0.3),
    ]
    graph = graph_of([node("add", "c x", "y", activation="none")], tensors, "x", "y")
    layers = lower_graph(graph, REF)
    (layer,) = layers.layers
    assert isinstance(layer, Elementwise)
    assert layer.inputs == ("x", "c")
    assert layer.zero_points == (5, 0)
    graph = graph_of([node("sub", "c x", "y", activation="none")], tensors, "x", "y")
    layers = lower_graph(graph, REF)
    (layer,) = layers.layers
    assert layers.activations[layer.inputs[0]].shape == (4, 4, 2)


def test_inputs_of_other_scales_are_requantized_before_they_are_joined():
    tensors = [
        activation("a", (1, 2, 2, 3), 0.1, 3, "uint8"),
        activation("b", (1, 2, 2, 3), 0.2, 7, "uint8"),
        activation("y", (1, 2, 2, 6), 0.1, 3, "uint8"),
    ]
    graph = graph_of([node("concat", "a b", "y", axis=3, activation="none")], tensors, "a b", "y")
    table, join = lower_graph(graph, REF).layers
    assert isinstance(table, Lut)
    assert join.inputs == ("a", table.output)


def test_sums_may_be_the_output():
    tensors = [
        activation("x", (1, 3), 1.0, 5),
        constant("w", np.array([[1, 2, 3], [4, 5, 6]], np.int8), 1.0),
        constant("y", np.zeros((1, 2), np.int32)),
    ]
    tensors[2] = type(tensors[2])("y", (1, 2), "int32")
    graph = graph_of(
        [node("dense", "x w", "y", activation="none", raw=True)], tensors, "x", "y", "onnx"
    )
    layers = lower_graph(graph, Exactness.ORT)
    result = run_layers(layers, {"x": np.array([[[6, 7, 8]]], np.int8)})["y"]
    assert result.ravel().tolist() == [14, 32]


@pytest.mark.parametrize(
    ("exactness", "rounding"),
    [(Exactness.TFLM, Rounding.TFLITE), (Exactness.BM1684X, Rounding.SINGLE)],
)
@pytest.mark.parametrize("op", ["conv", "depthwise", "dense"])
def test_rules_without_a_library_are_their_definition(exactness, rounding, op):
    rng = np.random.default_rng([3, len(op)])
    sx, sw, sy = np.float32(0.021), np.float32(0.013), np.float32(0.4)
    x = rng.integers(-128, 128, (5, 4, 6)).astype(np.int8)
    shape = {"conv": (6, 1, 1, 6), "depthwise": (1, 1, 6), "dense": (6, 120)}[op]
    weight = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.integers(-9000, 9000, 6).astype(np.int32)
    tensors = [
        activation("x", (1, 5, 4, 6), sx, 9),
        constant("w", weight, sw),
        constant("b", bias),
        activation("y", (1, 6) if op == "dense" else (1, 5, 4, 6), sy, -11),
    ]
    attributes = {"activation": "relu"} if op == "dense" else WINDOW | {"activation": "relu"}
    if op == "depthwise":
        attributes["multiplier"] = 1
    layers = lower_graph(
        graph_of([node(op, "x w b", "y", **attributes)], tensors, "x", "y"), exactness
    )
    result = run_layers(layers, {"x": x})["y"]
    centered, w = x.astype(np.int64) - 9, weight.astype(np.int64)
    if op == "conv":
        sums = centered @ w[:, 0, 0].T + bias
    elif op == "depthwise":
        sums = centered * w[0, 0] + bias
    else:
        sums = (centered.reshape(1, 1, 120) @ w.T) + bias
    product = (
        float(sx * sw) if (op, exactness) == ("dense", Exactness.TFLM) else float(sx) * float(sw)
    )
    multiplier, shift = quantize_multiplier(product / float(sy))
    for total, value in zip(sums.ravel(), result.ravel(), strict=True):
        assert value == requantize(
            int(total),
            multiplier=multiplier,
            shift=shift,
            rounding=rounding,
            zero_point=-11,
            low=-11,
        )


def test_all_nodes_that_are_refused_are_named():
    tensors = [activation(name, (1, 8), 0.1, 0) for name in ("x", "a", "b", "y")]
    nodes = [node("softmax", "x", "a"), node("relu", "a", "b"), node("mystery", "b", "y")]
    with pytest.raises(ValueError, match=r"node 'a' \(SOFTMAX\).*; node 'y' \(MYSTERY\)"):
        lower_graph(graph_of(nodes, tensors, "x", "y"), REF)
