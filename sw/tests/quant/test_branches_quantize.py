"""Branches that only a run decides, in networks that ``quantize`` writes."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import TensorProto, helper, numpy_helper

from tpulite.frontend.onnx.library import open_session
from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.graph import sort_nodes

SHAPE = (1, 4, 4, 4)
RNG = np.random.default_rng(5)


def branch(operator: str) -> onnx.GraphProto:
    node = helper.make_node(operator, ["y"], ["made"])
    result = helper.make_tensor_value_info("made", TensorProto.FLOAT, SHAPE)
    return helper.make_graph([node], operator, [], [result])


def decided_by_a_run() -> onnx.ModelProto:
    """Return a network whose branches read a product that a factor follows."""
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["y"], name="conv"),
        helper.make_node("Mul", ["y", "two"], ["twice"], name="factor"),
        helper.make_node("ReduceMax", ["x"], ["top"], name="top", keepdims=0),
        helper.make_node("Greater", ["top", "one"], ["large"], name="large"),
        helper.make_node(
            "If",
            ["large"],
            ["z"],
            name="if",
            then_branch=branch("Relu"),
            else_branch=branch("Neg"),
        ),
        helper.make_node("Add", ["z", "twice"], ["sum"], name="add"),
    ]
    constants = {
        "weight": RNG.normal(size=(4, 4, 1, 1)).astype(np.float32),
        "two": np.float32(2),
        "one": np.float32(1),
    }
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "sum"))
    tensors = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "decided", [x], [y], tensors)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_what_branches_read_stays_and_stands_before_them():
    model = decided_by_a_run()
    samples = [RNG.uniform(-2, high, SHAPE).astype(np.float32) for high in (0.5, 2) for _ in "abcd"]
    written = quantize_onnx(model.SerializeToString(), samples)
    onnx.checker.check_model(onnx.load_model_from_string(written))
    runs = [open_session(x, "DISABLE_ALL") for x in (model.SerializeToString(), written)]
    for x in samples:
        wanted, found = (run.run(None, {"x": x})[0].ravel() for run in runs)
        assert wanted @ found / np.linalg.norm(wanted) / np.linalg.norm(found) > 0.99


def test_nodes_are_sorted_behind_what_their_bodies_read():
    graph = decided_by_a_run().graph
    names = [node.name for node in graph.node]
    sort_nodes(graph)
    assert [node.name for node in graph.node] == names
    graph.node.insert(0, graph.node.pop(names.index("if")))
    sort_nodes(graph)
    assert [node.name for node in graph.node] == ["conv", "factor", "top", "large", "if", "add"]


def test_names_inside_bodies_hold_nothing_up():
    """A branch names its result as the whole does, or as something behind it."""
    for name in ("z", "sum"):
        graph = decided_by_a_run().graph
        for each in graph.node[4].attribute:
            each.g.node[0].output[0] = each.g.output[0].name = name
        names = [node.name for node in graph.node]
        sort_nodes(graph)
        assert [node.name for node in graph.node] == names
