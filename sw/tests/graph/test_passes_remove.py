import numpy as np
import pytest

from tpulite.graph.passes import simplify
from tpulite.graph.passes.remove_identities import remove_identities
from tpulite.graph.passes.rewrite import remove_dead_nodes, unique_name
from tpulite_testing.graphs.float_graphs import GraphBuilder

Q = (0.5, 3)
SHAPE = (1, 2, 3, 4)


def relus(b, *names):
    """Add a relu for each name, each of the graph's input."""
    x = b.input("x", SHAPE, Q)
    for name in names:
        b.node("relu", [x], name, SHAPE, Q)


def test_what_no_output_needs_goes_with_its_tensors():
    b = GraphBuilder()
    relus(b, "a", "b", "c")
    b.node("add", ["a", "b"], "y", SHAPE, Q, activation="none")
    b.node("tanh", ["c"], "d", SHAPE, Q)
    graph = remove_dead_nodes(b.build("y"))
    assert [node.outputs for node in graph.nodes] == [("a",), ("b",), ("y",)]
    assert set(graph.tensors) == {"x", "a", "b", "y"}


def test_inputs_stay():
    b = GraphBuilder()
    relus(b, "a")
    b.input("unused", (1,), Q)
    graph = remove_dead_nodes(b.build("a"))
    assert graph.inputs == ("x", "unused") and "unused" in graph.tensors


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("reshape", {"shape": SHAPE}),
        ("concat", {"axis": 1, "activation": "none"}),
        ("pad", {"padding": (0, 0, 0, 0), "value": 0}),
        ("transpose", {"perm": (0, 1, 2, 3)}),
        ("requantize", {}),
        ("identity", {}),
        ("dropout", {}),
    ],
)
@pytest.mark.parametrize("is_output", [False, True])
def test_copies_go(op, attributes, is_output):
    b = GraphBuilder()
    relus(b, "a")
    b.node(op, ["a"], "c", SHAPE, Q, **attributes)
    b.node("tanh", ["c"], "y", SHAPE, Q)
    outputs = ("c", "y") if is_output else ("y",)
    graph = remove_identities(b.build(*outputs))
    kept = "c" if is_output else "a"
    assert [(n.op, n.inputs, n.outputs) for n in graph.nodes] == [
        ("relu", ("x",), (kept,)),
        ("tanh", (kept,), ("y",)),
    ]
    assert graph.outputs == outputs


@pytest.mark.parametrize(
    ("op", "meaning", "attributes"),
    [
        ("reshape", Q, {"shape": (1, 3, 2, 4)}),
        ("concat", Q, {"axis": 1, "activation": "relu"}),
        ("requantize", (0.25, 3), {}),
        ("identity", (0.5, 4), {}),
        ("relu", Q, {}),
        ("transpose", Q, {"perm": (0, 2, 1, 3)}),
    ],
)
def test_what_changes_something_stays(op, meaning, attributes):
    b = GraphBuilder()
    relus(b, "a")
    b.node(op, ["a"], "y", attributes.get("shape", SHAPE), meaning, **attributes)
    assert len(remove_identities(b.build("y")).nodes) == 2


def test_a_copy_between_input_and_output_stays():
    b = GraphBuilder()
    b.input("x", SHAPE, Q)
    b.node("identity", ["x"], "y", SHAPE, Q)
    assert len(remove_identities(b.build("y")).nodes) == 1


def test_chains_of_copies_go():
    b = GraphBuilder()
    relus(b, "a")
    for name, after in zip("abcd", "bcde", strict=True):
        b.node("identity", [name], after, SHAPE, Q)
    b.node("add", ["a", "e"], "y", SHAPE, Q, activation="none")
    graph = remove_identities(b.build("d", "y"))
    assert [(n.op, n.inputs, n.outputs) for n in graph.nodes] == [
        ("relu", ("x",), ("d",)),
        ("add", ("d", "d"), ("y",)),
    ]


def test_two_outputs_that_are_equal_stay_two():
    b = GraphBuilder()
    relus(b, "a")
    b.node("identity", ["a"], "y", SHAPE, Q)
    b.node("identity", ["a"], "z", SHAPE, Q)
    graph = remove_identities(b.build("y", "z"))
    assert [(n.inputs, n.outputs) for n in graph.nodes] == [(("x",), ("y",)), (("y",), ("z",))]


def test_a_copy_of_a_copy_is_an_output_as_well():
    b = GraphBuilder()
    relus(b, "a")
    for name, after in (("a", "b"), ("a", "y"), ("b", "z")):
        b.node("identity", [name], after, SHAPE, Q)
    graph = remove_identities(b.build("y", "z"))
    assert [(n.inputs, n.outputs) for n in graph.nodes] == [(("x",), ("y",)), (("y",), ("z",))]


def test_a_quantization_undoes_a_dequantization():
    b = GraphBuilder()
    relus(b, "a")
    b.node("dequantize", ["a"], "real", SHAPE)
    b.node("quantize", ["real"], "same", SHAPE, Q)
    b.node("quantize", ["real"], "other", SHAPE, (0.25, 3))
    b.node("add", ["same", "other"], "y", SHAPE, Q, activation="none")
    graph = simplify(b.build("y"))
    assert [node.op for node in graph.nodes] == ["relu", "dequantize", "quantize", "add"]
    assert graph.nodes[-1].inputs == ("a", "other")


def test_a_reshape_of_a_reshape_is_one():
    b = GraphBuilder()
    relus(b, "a")
    b.node("reshape", ["a"], "b", (1, 24), Q, shape=(1, 24))
    b.node("reshape", ["b"], "y", (1, 4, 3, 2), Q, shape=(1, 4, 3, 2))
    graph = simplify(b.build("y"))
    assert [(n.op, n.inputs) for n in graph.nodes] == [("relu", ("x",)), ("reshape", ("a",))]


def test_there_and_back_is_a_copy():
    b = GraphBuilder()
    relus(b, "a")
    b.node("reshape", ["a"], "b", (1, 24), Q, shape=(1, 24))
    b.node("reshape", ["b"], "y", SHAPE, Q, shape=SHAPE)
    graph = simplify(b.build("y"))
    assert [(n.op, n.outputs) for n in graph.nodes] == [("relu", ("y",))]


def test_a_part_that_two_read_keeps_its_name_beside_a_chain_that_becomes_one_part():
    b = GraphBuilder()
    b.input("x", (1, 1, 8, 16), Q)
    b.node("relu", ["x"], "a", (1, 1, 8, 16), Q)
    b.node("reshape", ["a"], "b", (1, 8, 1, 16), Q, shape=(1, 8, 1, 16))
    ends = {"begin": (0, 0, 0, 8), "size": (1, 8, 1, 8)}
    for name, value in ends.items():
        b.constant(name, np.array(value))
    b.node("slice", ["b", "begin", "size"], "part", (1, 8, 1, 8), Q)
    b.node("relu", ["part"], "y", (1, 8, 1, 8), Q)
    b.node("reshape", ["part"], "c", (1, 1, 8, 8), Q, shape=(1, 1, 8, 8))
    b.node("relu", ["c"], "z", (1, 1, 8, 8), Q)
    graph = simplify(b.build("y", "z"))
    picks = {node.outputs[0]: node for node in graph.nodes if node.op in ("pick", "slice")}
    assert {*picks} == {"part", "c"}
    assert picks["c"].inputs == ("a",)
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)


def test_unique_names_are_new():
    assert unique_name("w", ()) == "w"
    assert unique_name("w", {"w", "w.1", "v"}) == "w.2"
