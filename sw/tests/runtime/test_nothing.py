"""Scalars, tensors without elements and inputs without a shape: the library computes them."""

import numpy as np
import pytest

from tpulite_testing.oracles.onnx_session import open_onnx

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import TensorProto, helper

from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.tflite.builder import ModelBuilder
from tpulite.runtime.inputs import check_inputs, random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.model_tensors import equals_library

pytest_plugins = ("tpulite_testing.command_line",)

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def same_as_untouched(tmp_path, data, *inputs):
    """Check that a run has the bits of ONNX Runtime; return the model."""
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    model = Model.load(path)
    feed = dict(zip(model.graph.inputs, inputs, strict=True))
    results = model.run(feed)
    session = open_onnx(data)
    wanted = map(np.asarray, session.run(None, feed))
    for name, expected in zip(model.graph.outputs, wanted, strict=True):
        np.testing.assert_array_equal(results.outputs[name].reshape(expected.shape), expected)
        assert results.outputs[name].dtype == expected.dtype
    return model


def branch(value: float, name: str) -> onnx.GraphProto:
    """Return a branch of an If that adds something to ``x`` of the graph around it."""
    constant = helper.make_tensor(f"{name}_c", TensorProto.FLOAT, [1], [value])
    node = helper.make_node("Add", ["x", f"{name}_c"], [name])
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])
    return helper.make_graph([node], name, [], [output], [constant])


def conditional() -> bytes:
    """Return a network whose first input, a truth value without axes, says what to add."""
    b = OnnxBuilder()
    condition, _ = b.input("c", (), "bool"), b.input("x", (1, 4))
    branches = {"then_branch": branch(2.0, "yes"), "else_branch": branch(3.0, "no")}
    return b.build(b.node("If", condition, **branches), dtype="float32")


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_without_axes(tmp_path, condition):
    same_as_untouched(tmp_path, conditional(), np.array(condition), floats(1, 4))


def quantized_branch(name: str) -> onnx.GraphProto:
    """Return a branch that multiplies ``x`` by weights of int8, in Q/DQ form."""
    b = OnnxBuilder()
    x = b.quantize("x", 0.02, -3)
    y = b.node("MatMul", x, b.weight(RNG.integers(-127, 128, (4, 4)).astype(np.int8), 0.01))
    renamed = {each.name: f"{name}_{each.name}" for each in b.constants}
    renamed |= {output: f"{name}_{output}" for node in b.nodes for output in node.output}
    for each in b.constants:
        each.name = renamed[each.name]
    for node in b.nodes:
        for names in (node.input, node.output):
            names[:] = [renamed.get(each, each) for each in names]
    output = helper.make_tensor_value_info(renamed[y], TensorProto.FLOAT, [1, 4])
    return helper.make_graph(b.nodes, name, [], [output], b.constants)


def test_quantized_branches_have_the_bits_of_an_ordinary_session(tmp_path):
    b = OnnxBuilder()
    condition, _ = b.input("c", (), "bool"), b.input("x", (1, 4))
    branches = {"then_branch": quantized_branch("yes"), "else_branch": quantized_branch("no")}
    data = b.build(b.node("If", condition, **branches), dtype="float32")
    for index in range(10):
        same_as_untouched(tmp_path, data, np.array(index % 2 == 0), floats(1, 4))


def test_both_branches_are_drawn_and_compared(tpulite, tmp_path):
    (tmp_path / "net.onnx").write_bytes(conditional())
    assert tpulite("run", "net.onnx")[0] == 0
    code, out, _ = tpulite("compare", "net.onnx", "--oracle", "ort")
    assert (code, "every bit is the same" in out) == (0, True)
    drawn = random_inputs(load_onnx(conditional(), "net"), 10, seed=2024)["c"]
    assert (drawn.shape, sorted({*drawn.tolist()})) == ((10,), [False, True])


def test_scalars_are_one_input_or_several():
    graph = load_onnx(conditional(), "net")
    x = floats(3, 4)
    assert check_inputs(graph, {"c": np.array([True, False, True]), "x": x})[1] == 3
    assert check_inputs(graph, {"c": np.array(True), "x": x[:1]})[1] == 1
    with pytest.raises(ValueError, match=r"all inputs must have the same number, not \[1, 3\]"):
        check_inputs(graph, {"c": np.array(True), "x": x})
    with pytest.raises(ValueError, match=r"Input 'c' must have shape"):
        check_inputs(graph, {"c": np.array([[True]]), "x": x[:1]})


def test_rows_that_are_not_there_yet(tmp_path):
    b = OnnxBuilder()
    past, x = b.input("past", (1, 0, 4)), b.input("x", (1, 1, 4))
    data = b.build(b.node("Concat", past, x, axis=1))
    same_as_untouched(tmp_path, data, floats(1, 0, 4), floats(1, 1, 4))


def test_an_input_of_no_rows(tmp_path):
    b = OnnxBuilder()
    data = b.build(b.node("Reshape", b.input("x", (0, 3, 4)), np.array([3, 4, 0]), allowzero=1))
    model = same_as_untouched(tmp_path, data, floats(0, 3, 4))
    with pytest.raises(ValueError, match=r"Input 'x' must have shape"):
        model.run(floats(1, 3, 4))


def test_an_output_of_no_rows(tmp_path):
    b = OnnxBuilder()
    ends = np.array([0]), np.array([0]), np.array([0])
    data = b.build(b.node("Relu", b.node("Slice", b.input("x", (1, 4)), *ends)))
    same_as_untouched(tmp_path, data, floats(1, 4))


def test_an_input_without_a_shape_is_a_scalar_where_that_fits(tmp_path):
    def shapeless(data: bytes) -> bytes:
        model = onnx.load_model_from_string(data)
        model.graph.input[0].type.tensor_type.ClearField("shape")
        return model.SerializeToString()

    b = OnnxBuilder()
    factor, x = b.input("factor", ()), b.input("x", (1, 4))
    data = shapeless(b.build(b.node("Mul", x, factor)))
    same_as_untouched(tmp_path, data, np.array(2, np.float32), floats(1, 4))
    b = OnnxBuilder()
    data = shapeless(b.build(b.node("MatMul", b.input("x", (2, 4)), floats(4, 3))))
    with pytest.raises(ValueError, match=r"input 'x' has no shape; give it, like --shape x=1x3"):
        load_onnx(data, "net")


def test_a_slice_of_no_rows_beside_a_convolution(tmp_path):
    b = ModelBuilder()
    x = b.input((1, 4, 6, 8), 0.05, -3)
    known = [b.constant(np.array(values, np.int32)) for values in ([0] * 4, [1, 0, 6, 8])]
    nothing = b.operator(
        "SLICE", [x, *known], [b.like(x, (1, 0, 6, 8))], options_type="SliceOptions"
    )
    options = {"options_type": "ConcatenationOptions", "axis": 1}
    y = b.operator("CONCATENATION", [nothing, x], [b.like(x, (1, 4, 6, 8))], **options)
    weight = b.constant(RNG.integers(-127, 128, (4, 1, 1, 8)).astype(np.int8), [0.01] * 4, [0] * 4)
    bias = b.constant(np.zeros(4, np.int32), [0.05 * 0.01] * 4, [0] * 4)
    options = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    options |= {"options_type": "Conv2DOptions"}
    z = b.operator("CONV_2D", [y, weight, bias], [b.tensor((1, 4, 6, 4), 0.1)], **options)
    model = equals_library(tmp_path, b.build(z))
    assert (model.macs, model.host_macs) == (4 * 6 * 4 * 8, 0)


def test_an_empty_constant(tmp_path):
    b = ModelBuilder()
    x = b.input((1, 4), 0.05, -3)
    empty = b.like(x, (0, 4))
    options = {"options_type": "ConcatenationOptions", "axis": 0}
    y = b.operator("CONCATENATION", [empty, x], [b.like(x, (1, 4))], **options)
    equals_library(tmp_path, b.build(y))


def test_shapes_that_onnx_does_not_know_are_the_library_s(tmp_path):
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 4, 8, 8)), 0.05, 3)

    def conv(x: str, inputs: int) -> str:
        weight = b.weight(RNG.integers(-127, 128, (8, inputs, 3, 3)).astype(np.int8), 0.01)
        return b.quantize(b.node("Conv", x, weight), 0.1, 0)

    b.nodes.append(helper.make_node("Gelu", [conv(x, 4)], ["g"], domain="com.microsoft"))
    data = b.build(conv(b.quantize("g", 0.1, 0), 8), dtype="float32")
    model = same_as_untouched(tmp_path, data, floats(1, 4, 8, 8))
    assert model.host_macs == 0
