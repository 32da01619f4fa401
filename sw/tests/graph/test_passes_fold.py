import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tpulite.graph.graph import Node, Quantization, Tensor
from tpulite.graph.passes import simplify
from tpulite.graph.passes.fold_batch_norm import fold_batch_norm
from tpulite.graph.passes.fold_constants import fold_constants
from tpulite_testing.graphs.float_graphs import GraphBuilder
from tpulite_testing.oracles.interpreter import run

RNG = np.random.default_rng(5)
CONV = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "activation": "none"}


def value(op, inputs, expected, *, meaning=None, fmt="tflite", **attributes):
    """Fold one node of constants and compare its result, bit for bit."""
    b = GraphBuilder()
    names = []
    for i, item in enumerate(inputs):
        data, q = item if isinstance(item, tuple) else (item, None)
        names.append(b.constant(f"c{i}", np.asarray(data), q))
    b.node(op, names, "y", expected.shape, meaning, dtype=expected.dtype.name, **attributes)
    graph = fold_constants(b.build("y", file_format=fmt))
    assert not graph.nodes, "it was not folded"
    found = graph.tensors["y"].data
    assert found is not None and found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


I32, F32 = np.int32, np.float32
MASKS = dict.fromkeys(
    ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset"), 0
)


def strided(x, begin, end, strides, expected, **masks):
    value("strided_slice", [x, I32(begin), I32(end), I32(strides)], expected, **(MASKS | masks))


def test_strided_slices():
    x = np.arange(24, dtype=I32).reshape(2, 3, 4)
    strided(x, [0, 1, 0], [2, 3, 4], [1, 1, 2], x[0:2, 1:3, 0:4:2])
    strided(x, [1, 1, 1], [0, 0, 0], [1, 1, 1], x[:, 1:, 1:], begin_mask=1, end_mask=7)
    strided(x, [1, -1, 3], [2, 0, 0], [1, 1, -1], x[1, -1, 3:0:-1], shrink_axis_mask=3)


def test_shapes_of_tensors_that_are_not_constant():
    b = GraphBuilder()
    x = b.input("x", (1, 7, 5))
    b.node("shape", [x], "y", (3,), dtype="int32")
    graph = fold_constants(b.build("y"))
    assert not graph.nodes
    np.testing.assert_array_equal(graph.tensors["y"].data, I32([1, 7, 5]))


def test_a_reshape_to_a_computed_shape_leaves_one_node():
    b = GraphBuilder()
    x = b.input("x", (2, 12))
    b.node("shape", [x], "s", (2,), dtype="int32")
    ends = [b.constant(name, I32([n])) for name, n in (("b", 0), ("e", 1), ("t", 1))]
    b.node("strided_slice", ["s", *ends], "n", (), dtype="int32", **MASKS | {"shrink_axis_mask": 1})
    b.node("pack", ["n", b.constant("c", I32(12))], "new", (2,), dtype="int32", axis=0)
    b.node("cast", ["new"], "wide", (2,), dtype="int64")
    b.node("reshape", [x], "y", (2, 3, 4), shape=(2, 3, 4))
    graph = simplify(b.build("y", "wide"))
    assert [node.op for node in graph.nodes] == ["reshape"]
    np.testing.assert_array_equal(graph.tensors["wide"].data, np.int64([2, 12]))


def test_moves():
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    q = (0.5, 3)
    value("reshape", [(x, q)], x.reshape(3, 2), meaning=q, shape=(3, 2))
    value("transpose", [(x, q)], x.T, meaning=q, perm=(1, 0))
    value("concat", [(x, q), (x, q)], np.vstack([x, x]), meaning=q, axis=0, activation="none")
    value("pack", [x, x], np.stack([x, x], 1), axis=1)
    value("slice", [x, I32([0, 1]), I32([1, -1])], x[:1, 1:])
    value("gather", [x, I32([[2, 0]])], x[:, [[2, 0]]], axis=-1, batch_dims=0)
    value("gather_nd", [x, I32([[[1, 2]], [[0, 0]]])], x[[1, 0], [2, 0]].reshape(2, 1))
    value("cast", [x], x.astype(F32))


def test_split_has_several_results():
    b = GraphBuilder()
    x = np.arange(6, dtype=I32).reshape(2, 3)
    names = [b.constant("axis", I32(0)), b.constant("x", x)]
    for name in "yz":
        b.tensor(name, (1, 3), dtype="int32")
    b.nodes.append(Node("split", "split", tuple(names), ("y", "z")))
    graph = fold_constants(b.build("y", "z"))
    np.testing.assert_array_equal(graph.tensors["y"].data, x[:1])
    np.testing.assert_array_equal(graph.tensors["z"].data, x[1:])


def test_arithmetic_of_plain_numbers():
    a, b = F32([1.5, -2, 7]), F32([[2], [3]])
    value("add", [a, b], a + b, activation="none")
    value("sub", [a, b], np.clip(a - b, 0, 6), activation="relu6")
    value("mul", [I32([3, -4]), I32([5, 1 << 30])], I32([15, 0]), activation="none")
    value("maximum", [a, F32([0])], F32([1.5, 0, 7]))
    value("neg", [a], -a)
    value("relu_n1_1", [a], F32([1, -1, 1]))


def test_quantization_rounds_as_the_format_says():
    x = F32([0.25, 0.75, -0.25, -0.75, 1000, -1000])
    value("quantize", [x], np.int8([1, 2, -1, -2, 127, -128]), meaning=(0.5, 0))
    value("quantize", [x], np.int8([0, 2, 0, -2, 127, -128]), meaning=(0.5, 0), fmt="onnx")


def test_dequantization():
    x = np.int8([[-128, 127, 5]])
    value("dequantize", [(x, (0.1, 3))], (x.astype(int) - 3).astype(F32) * F32(0.1))
    value("dequantize", [np.float16([1.5, 2])], F32([1.5, 2]))
    b = GraphBuilder()
    scales = Quantization(F32([1, 2, 4]), np.array([1, -1, 7]), 1)
    b.tensors["c"] = Tensor("c", (1, 3), "int8", scales, x)
    b.node("dequantize", ["c"], "y", (1, 3))
    data = fold_constants(b.build("y")).tensors["y"].data
    np.testing.assert_array_equal(data, F32([[-129, 256, -8]]))


def test_quantized_arithmetic_is_left_to_whose_bits_are_wanted():
    b = GraphBuilder()
    c = b.constant("c", np.int8([1, 2]), (0.5, 0))
    b.node("add", [c, c], "y", (2,), (0.5, 0), activation="none")
    b.node("requantize", [c], "z", (2,), (0.25, 0))
    assert len(fold_constants(b.build("y", "z")).nodes) == 2


def test_constants_that_unfold_to_much_more_than_the_file_are_refused_together():
    b = GraphBuilder()
    name = b.constant("c", np.zeros(1, np.int8))
    for count in range(1, 35):
        shape = (1 << count,)
        name = b.node("concat", [name, name], f"y{count}", shape, dtype="int8", axis=0)
    graph = b.build(name)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"node 'concat_y24' \(concat\): constants computed by"):
        fold_constants(graph)
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()


def test_host_operators_of_onnx_are_not_known():
    b = GraphBuilder()
    c = b.constant("c", I32([1, 2]))
    b.node("slice", [c, c, c], "y", (2,), dtype="int32")
    assert len(fold_constants(b.build("y", file_format="onnx")).nodes) == 1


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "message"),
    [
        ("add", (3,), {"activation": "none"}, "its output must be [2], not [3]"),
        ("reshape", (3,), {"shape": (3,)}, "cannot reshape array of size 2 into shape (3,)"),
        (
            "gather",
            (1 << 20,),
            {"axis": 0, "batch_dims": 0},
            "its output must be [2], not [1048576]",
        ),
        ("cast", (1,), {}, "its output must be float32 [2], not float32 [1]"),
    ],
)
def test_contradictions_name_the_node(op, shape, attributes, message):
    b = GraphBuilder()
    c = b.constant("c", F32([0, 1]))
    d = b.constant("d", I32([0, 1]))
    inputs = {"add": [c, c], "gather": [c, d]}.get(op, [c])
    b.node(op, inputs, "y", shape, **attributes)
    with pytest.raises(ValueError, match=re.escape(f"node '{op}_y' ({op}): {message}")):
        fold_constants(b.build("y"))


def network(op, *, with_bias=True, weight_dtype=F32):
    """Return a float layer of 3 channels with a batch normalization behind it."""
    b = GraphBuilder()
    x = b.input("x", (2, 12) if op == "dense" else (2, 4, 5, 3))
    shape = {"conv": (3, 2, 2, 3), "depthwise": (2, 2, 3), "dense": (3, 12)}[op]
    inputs = [x, b.constant("w", RNG.normal(size=shape).astype(weight_dtype))]
    if with_bias:
        inputs.append(b.constant("b", RNG.normal(size=3).astype(F32)))
    out = (2, 3) if op == "dense" else (2, 3, 4, 3)
    attributes = {"dense": {"activation": "none"}, "depthwise": CONV | {"multiplier": 1}}
    b.node(op, inputs, "y", out, **attributes.get(op, CONV))
    parameters = [
        b.constant(name, data.astype(F32))
        for name, data in (
            ("gamma", RNG.normal(size=3)),
            ("beta", RNG.normal(size=3)),
            ("mean", RNG.normal(size=3)),
            ("variance", RNG.uniform(0.01, 2, 3)),
        )
    ]
    b.node("batch_norm", ["y", *parameters], "z", out, epsilon=0.01)
    return b


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("op", ["conv", "depthwise", "dense"])
def test_batch_norm_goes_into_weights_and_bias(op, with_bias):
    before = network(op, with_bias=with_bias).build("z")
    after = simplify(before)
    assert [(n.op, n.outputs) for n in after.nodes] == [(op, ("z",))]
    assert set(after.tensors) == {"x", "z", f"{op}_y.weight", f"{op}_y.bias"}
    feeds = {"x": RNG.normal(size=before.tensors["x"].shape).astype(F32)}
    np.testing.assert_allclose(
        run(after, feeds)["z"], run(before, feeds)["z"], rtol=1e-4, atol=1e-5
    )


def test_batch_norm_and_then_an_activation_both_go():
    b = network("conv")
    b.node("relu", ["z"], "last", (2, 3, 4, 3))
    (node,) = simplify(b.build("last")).nodes
    assert (node.op, node["activation"]) == ("conv", "relu")


def test_batch_norm_stays_where_somebody_sees_its_input():
    assert len(fold_batch_norm(network("conv").build("y", "z")).nodes) == 2


def test_batch_norm_stays_behind_quantized_weights():
    assert len(fold_batch_norm(network("conv", weight_dtype=np.int8).build("z")).nodes) == 2


def test_batch_norm_stays_behind_an_activation():
    b = network("conv")
    b.nodes[0] = replace(b.nodes[0], attributes=CONV | {"activation": "relu"})
    assert len(fold_batch_norm(b.build("z")).nodes) == 2


def test_new_weights_do_not_take_names_of_others():
    b = network("conv")
    b.node(
        "add", ["z", b.constant("conv_y.weight", F32([1]))], "last", (2, 3, 4, 3), activation="none"
    )
    conv, _ = fold_batch_norm(b.build("last")).nodes
    assert conv.inputs == ("x", "conv_y.weight.1", "conv_y.bias")
