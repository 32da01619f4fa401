"""Inputs that become constants, and branches of ONNX files that are decided by them."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.given_shapes import GivenShapes
from tpulite.frontend.onnx.file import load_onnx
from tpulite_testing.files.onnx_builder import run_onnx
from tpulite_testing.oracles.onnx_session import open_onnx

RATES = {16000: 2.0, 8000: 3.0}


def branch(factor: float, nested: bool) -> onnx.GraphProto:
    """Multiply x by a constant; with ``nested``, only if it has 4 columns, which a branch asks."""
    result = helper.make_empty_tensor_value_info("made")
    constants = [numpy_helper.from_array(np.float32(factor), "factor")]
    if not nested:
        node = helper.make_node("Mul", ["x", "factor"], ["made"], name="scale")
        return helper.make_graph([node], "branch", [], [result], constants)
    constants.append(numpy_helper.from_array(np.array(4), "columns"))
    constants.append(numpy_helper.from_array(np.array(1), "place"))
    nodes = [
        helper.make_node("Shape", ["x"], ["extents"]),
        helper.make_node("Gather", ["extents", "place"], ["extent"]),
        helper.make_node("Equal", ["extent", "columns"], ["same"]),
        helper.make_node(
            "If",
            ["same"],
            ["made"],
            then_branch=helper.make_graph(
                [helper.make_node("Mul", ["x", "factor"], ["inner"])],
                "then",
                [],
                [helper.make_empty_tensor_value_info("inner")],
            ),
            else_branch=helper.make_graph(
                [helper.make_node("Neg", ["x"], ["inner"])],
                "else",
                [],
                [helper.make_empty_tensor_value_info("inner")],
            ),
        ),
    ]
    return helper.make_graph(nodes, "branch", [], [result], constants)


def rated(nested: bool = False) -> bytes:
    """Return a file with an input that decides a branch, and with an open extent."""
    then, other = (branch(factor, nested) for factor in RATES.values())
    rate = numpy_helper.from_array(np.array(16000), "high")
    nodes = [
        helper.make_node("Equal", ["sr", "high"], ["is_high"]),
        helper.make_node("If", ["is_high"], ["y"], name="if", then_branch=then, else_branch=other),
    ]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, "n"]),
        helper.make_tensor_value_info("sr", onnx.TensorProto.INT64, []),
    ]
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, "n"])
    graph = helper.make_graph(nodes, "rated", inputs, [y], [rate])
    opsets = [helper.make_opsetid("", 16)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("columns", [4, 5])
@pytest.mark.parametrize("rate", RATES)
def test_a_set_input_decides_branches(rate, columns, nested):
    data = rated(nested)
    given = GivenShapes({"x": (1, columns)}, values={"sr": rate})
    graph = load_onnx(data, "rated", given)
    assert graph.inputs == ("x",) and not any(node.op == "if" for node in graph.nodes)
    assert graph.source is not None
    x = np.arange(columns, dtype=np.float32)[None]
    (found,) = run_onnx(graph.source.data, x)
    session = open_onnx(data, level="DISABLE_ALL")
    (wanted,) = session.run(None, {"x": x, "sr": np.array(rate)})
    assert np.array_equal(found, wanted)


def test_branches_that_nobody_decides_stay():
    graph = load_onnx(rated(), "rated", GivenShapes({"x": (1, 4)}))
    assert graph.inputs == ("x", "sr") and any(node.op == "if" for node in graph.nodes)


def switched(*more: onnx.ValueInfoProto, default: int | None = None) -> bytes:
    """Return a file with two branches of one name, and a switch that may have a default."""
    nodes = [helper.make_node("Cast", ["on"], ["condition"], to=onnx.TensorProto.BOOL)]
    for index, factors in enumerate(((2.0, 5.0), (3.0, 7.0))):
        then, other = (branch(factor, nested=False) for factor in factors)
        bodies = {"then_branch": then, "else_branch": other}
        nodes.append(helper.make_node("If", ["condition"], [f"y{index}"], name="if", **bodies))
    nodes.append(helper.make_node("Add", ["y0", "y1"], ["y"]))
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4]),
        helper.make_tensor_value_info("on", onnx.TensorProto.INT64, ["count"]),
    ]
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])
    known = [] if default is None else [numpy_helper.from_array(np.array([default]), "on")]
    graph = helper.make_graph(nodes, "switched", [*inputs, *more], [y], known)
    opsets = [helper.make_opsetid("", 16)]
    if default is not None:
        inputs[1].type.tensor_type.shape.dim[0].dim_value = 1
        graph.input[1].CopyFrom(inputs[1])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    ("data", "given"),
    [
        (switched(), {"shapes": {"on": (1,)}}),
        (switched(), {"dims": {"count": 1}}),
        (switched(default=0), {}),
    ],
    ids=["shape", "extent", "default"],
)
def test_branches_of_one_name_are_decided_by_what_is_set(data, given):
    graph = load_onnx(data, "switched", GivenShapes(**given, values={"on": 1}))
    assert graph.inputs == ("x",) and graph.source is not None
    (found,) = run_onnx(graph.source.data, np.ones((1, 4), np.float32))
    assert found.tolist() == [[5.0] * 4]


def test_a_number_of_16_bits_is_rounded():
    half = helper.make_tensor_value_info("half", onnx.TensorProto.FLOAT16, [2])
    graph = load_onnx(switched(half), "switched", GivenShapes(values={"half": 0.1, "on": 0}))
    assert graph.inputs == ("x",)


_MORE = (
    helper.make_tensor_value_info("half", onnx.TensorProto.FLOAT16, []),
    helper.make_tensor_value_info("text", onnx.TensorProto.STRING, []),
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 1.0}, "--set rate: no such input; choose from half, on, text, x"),
        ({"on": 0.5}, "--set on=0.5: the input is int64"),
        ({"on": 1e30}, "--set on=1e+30: the input is int64"),
        ({"on": float("nan")}, "--set on=nan: the input is int64"),
        ({"half": 1e9}, "--set half=1e+09: the input is float16"),
        ({"text": 1.0}, "--set text=1: the input is text"),
    ],
)
def test_what_cannot_be_set_is_refused(values, message):
    with pytest.raises(ValueError) as error:
        load_onnx(switched(*_MORE), "switched", GivenShapes(values=values))
    assert message in str(error.value)


def test_an_open_extent_of_what_is_set_is_asked_for():
    with pytest.raises(ValueError, match="give it with --shape x=1x64 or --dim n=64"):
        load_onnx(rated(), "rated", GivenShapes(values={"x": 1.0}))
