"""Multiplications of operators that graphs know and of those that only libraries do."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.graph import Node
from tpulite.graph.macs import counted, macs_of, macs_of_operator
from tpulite.graph.passes.simplify import simplify
from tpulite_testing.files.onnx_builder import OnnxBuilder

F32 = np.float32


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "attributes", "macs"),
    [
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], (1, 4, 8, 8), {}, 4 * 64 * 27),
        ("ConvInteger", [(1, 6, 8, 8), (4, 3, 3, 3)], (1, 4, 8, 8), {}, 4 * 64 * 27),
        ("QLinearConv", [(1, 3, 8, 8), (), (), (4, 3, 1, 1)], (1, 4, 8, 8), {}, 4 * 64 * 3),
        ("QLinearConv", [(1, 2, 6, 8, 8), (4, 2, 3, 3, 3), (4,)], (1, 4, 6, 8, 8), {}, 1536 * 54),
        ("DEPTHWISE_CONV_2D", [(1, 8, 8, 4), (1, 3, 3, 4)], (1, 8, 8, 4), {}, 256 * 9),
        ("Gemm", [(5, 12), (12, 3)], (5, 3), {}, 180),
        ("Gemm", [(12, 5), (3, 12)], (5, 3), {"transA": 1, "transB": 1}, 180),
        ("MatMulInteger", [(2, 7, 12), (12, 3)], (2, 7, 3), {}, 2 * 7 * 36),
        ("MatMulNBits", [(1, 7, 64), (3, 2, 16)], (1, 7, 3), {"K": 64, "N": 3}, 7 * 64 * 3),
        # Two directions of four gates with 24 units, 20 steps of 8 features.
        ("LSTM", [(20, 1, 8), (2, 96, 8), (2, 96, 24)], (20, 2, 1, 24), {}, 20 * 2 * 96 * 32),
        ("GRU", [(20, 3, 8), (1, 72, 8), (1, 72, 24)], (20, 1, 3, 24), {}, 60 * 72 * 32),
        ("Einsum", [(2, 5, 8), (2, 7, 8)], (2, 5, 7), {"equation": "bik, bjk->bij"}, 2 * 280),
        ("Einsum", [(2, 5)], (5, 2), {"equation": "ij->ji"}, 0),
        ("Attention", [(1, 10, 16), (16, 48)], (1, 10, 16), {}, 10 * 16 * 48 + 2 * 10 * 10 * 16),
        ("Attention", [(1, 2, 10, 8)] * 3, (1, 2, 10, 8), {}, 2 * 10 * 10 * 16),
        ("Attention", [(1, 1, 16)] * 3 + [()] + [(1, 2, 9, 8)] * 2, (1, 1, 16), {}, 2 * 10 * 16),
        ("MultiHeadAttention", [(1, 4, 16), *[(1, 9, 16)] * 2], (1, 4, 16), {}, 2 * 4 * 9 * 16),
        ("GroupQueryAttention", [(1, 5, 32), (), ()], (1, 5, 16), {}, 2 * 5 * 5 * 16),
        ("Softmax", [(1, 10)], (1, 10), {}, 0),
        ("Conv", [(1, 3, 8, 8), ()], (1, 4, 8, 8), {}, 0),
    ],
)
def test_operators_are_counted_by_their_shapes(operator, inputs, output, attributes, macs):
    assert macs_of_operator(operator, inputs, output, attributes) == macs


def test_a_factor_of_a_product_does_not_hide_it():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 12)), 0.1, 0)
    y = b.node("Gemm", x, b.weight(np.ones((12, 3), np.int8), 0.1, axis=1), alpha=2.0)
    graph = load_onnx(b.build(b.quantize(y, 0.1, 0)), "net")
    assert sum(macs_of(node, graph) for node in graph.nodes) == 36


def _loop(count, condition):
    """Return a loop whose body multiplies 4 values by a matrix of 4x4."""
    weight = numpy_helper.from_array(np.eye(4, dtype=F32), "w")
    ends = [("i", TensorProto.INT64, ()), ("go", TensorProto.BOOL, ()), ("a", 1, (1, 4))]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("MatMul", "aw", ["b"])],
        "body",
        [helper.make_tensor_value_info(*end) for end in ends],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, ()), _value("b")],
        [weight],
    )
    b = OnnxBuilder()
    x = b.input("x", (1, 4))
    return load_onnx(b.build(b.node("Loop", count, condition, x, body=body)), "net")


def _value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4))


@pytest.mark.parametrize(
    ("condition", "macs", "all_of_it"), [("", 5 * 16, True), (np.array(True), 16, False)]
)
def test_bodies_of_loops_count_as_often_as_the_file_says(condition, macs, all_of_it):
    graph = _loop(np.array(5), condition)
    (loop,) = (node for node in graph.nodes if node.source == "Loop")
    assert (macs_of(loop, graph), counted(loop)) == (macs, all_of_it)


def test_the_longest_branch_counts():
    def branch(name, size):
        weight = numpy_helper.from_array(np.ones((4, size), F32), f"w{name}")
        last = numpy_helper.from_array(np.ones((size, 4), F32), f"v{name}")
        nodes = [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"m{name}"]),
            helper.make_node("MatMul", [f"m{name}", f"v{name}"], [f"y{name}"]),
        ]
        return helper.make_graph(nodes, name, [], [_value(f"y{name}")], [weight, last])

    b = OnnxBuilder()
    x = b.input("x", (1, 4))
    positive = b.node("Greater", b.node("ReduceSum", x, keepdims=0), F32(0))
    choice = b.node("If", positive, then_branch=branch("a", 3), else_branch=branch("b", 8))
    graph = load_onnx(b.build(choice), "net")
    assert sum(macs_of(node, graph) for node in graph.nodes) == 2 * 4 * 8


def test_custom_operators_are_unknown():
    node = Node("n", "custom", ("x",), ("y",), {}, "CUSTOM Strange")
    assert not counted(node)


def test_rows_of_a_product_are_counted_once():
    b = OnnxBuilder()
    one, zero = F32(0.1), np.uint8(3)
    weight = np.ones((8, 5), np.uint8)
    y = b.node(
        "QLinearMatMul", b.input("x", (2, 6, 8), "uint8"), one, zero, weight, one, zero, one, zero
    )
    graph = load_onnx(b.build(y, dtype="uint8"), "net")
    assert sum(macs_of(node, graph) for node in graph.nodes) == 2 * 6 * 8 * 5


def test_an_lstm_of_onnx_stays_whole():
    b, rng = OnnxBuilder(), np.random.default_rng(1)
    weights = [rng.standard_normal(shape).astype(F32) for shape in ((1, 64, 8), (1, 64, 16))]
    y = b.node("LSTM", b.input("x", (6, 1, 8)), *weights, hidden_size=16)
    graph = load_onnx(b.build(y), "net")
    assert [node.op for node in simplify(graph).nodes] == ["lstm"]
