import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.padding import pad_same
from tpulite.frontend.tflite.file import load_tflite
from tpulite_testing.files.tflite_builder import Builder, schema

ZEROS = np.zeros((4, 3, 3, 2), np.int8)


def image(builder=None, shape=(1, 8, 9, 2)):
    b = builder or Builder()
    return b, b.input(shape, 0.5, -3)


def quantization(graph, name):
    found = graph.tensors[name].quantization
    assert found is not None
    return found


def only_node(builder, *outputs):
    (node,) = load_tflite(builder.build(*outputs)).nodes
    return node


def test_a_convolution_has_explicit_padding_and_scales_of_channels():
    b, x = image()
    y = b.conv(
        x,
        ZEROS,
        [1, 2, 3, 4],
        weight_scale=[0.1, 0.2, 0.3, 0.4],
        scale=0.7,
        zero_point=5,
        stride=(2, 1),
        activation="RELU6",
    )
    graph = load_tflite(b.build(y), "net")
    (node,) = graph.nodes
    assert (graph.name, graph.format, graph.inputs, graph.outputs) == (
        "net",
        "tflite",
        ("t0",),
        ("t3",),
    )
    assert (node.name, node.op, node.source) == ("conv_2d_0", "conv", "CONV_2D")
    assert node.inputs == ("t0", "t1", "t2")
    assert dict(node.attributes) == {
        "stride": (2, 1),
        "dilation": (1, 1),
        "padding": (0, 1, 1, 1),
        "activation": "relu6",
        "group": 1,
    }
    weight, bias, out = (graph.tensors[name] for name in ("t1", "t2", "t3"))
    assert weight.shape == (4, 3, 3, 2) and quantization(graph, "t1").axis == 0
    scales = np.float32([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_array_equal(quantization(graph, "t1").scale, scales)
    np.testing.assert_array_equal(quantization(graph, "t1").zero_point, [0, 0, 0, 0])
    np.testing.assert_array_equal(bias.data, [1, 2, 3, 4])
    assert (out.shape, out.dtype, out.data) == ((1, 4, 9, 4), "int8", None)
    assert quantization(graph, "t3").axis is None
    assert quantization(graph, "t3").zero_point == [5]


@pytest.mark.parametrize(
    ("extent", "kernel", "stride", "dilation", "expected"),
    [
        (8, 3, 1, 1, (1, 1)),
        (8, 4, 1, 1, (1, 2)),
        (8, 3, 2, 1, (0, 1)),
        (9, 3, 2, 1, (1, 1)),
        (7, 1, 3, 1, (0, 0)),
        (8, 3, 1, 2, (2, 2)),
        (5, 2, 1, 3, (1, 2)),
    ],
)
def test_same_padding_puts_the_odd_element_behind(extent, kernel, stride, dilation, expected):
    assert pad_same(extent, kernel, stride, dilation) == expected


def test_depthwise_weights_lose_their_first_axis_and_keep_their_order():
    b, x = image()
    weight = np.arange(2 * 3 * 4, dtype=np.int8).reshape(1, 2, 3, 4)
    y = b.depthwise(x, weight, weight_scale=[1, 2, 3, 4], scale=1.0)
    z = b.depthwise(x, weight, weight_scale=0.5, scale=1.0, padding="VALID")
    graph = load_tflite(b.build(y, z))
    first, second = graph.nodes
    assert first["multiplier"] == second["multiplier"] == 2
    assert len(first.inputs) == 2
    found = graph.tensors[first.inputs[1]]
    np.testing.assert_array_equal(found.data, weight[0])
    assert found.shape == (2, 3, 4) and quantization(graph, first.inputs[1]).axis == 2
    assert quantization(graph, second.inputs[1]).axis is None
    assert set(graph.tensors) == {"t0", "t1[0]", "t2", "t3[0]", "t4"}


def test_two_depthwise_layers_may_share_their_weights():
    b, x = image()
    weight = np.ones((1, 3, 3, 2), np.int8)
    y = b.depthwise(x, weight, weight_scale=0.5, scale=1.0)
    z = b.tensor(b.shape(y), 2.0)
    options = {"options_type": "DepthwiseConv2DOptions", "strideH": 1, "strideW": 1}
    b.operator("DEPTHWISE_CONV_2D", [y, 1], [z], **options)
    first, second = load_tflite(b.build(z)).nodes
    assert first.inputs[1] == second.inputs[1] == "t1[0]"


def test_a_missing_bias_is_no_input():
    b, x = image()
    y = b.dense(x, np.zeros((3, 144), np.int8), weight_scale=0.1, scale=1.0)
    b._operators[0].inputs.append(-1)
    assert only_node(b, y).inputs == ("t0", "t1")


def test_uint8_stays_uint8():
    b, x = image(Builder("uint8"))
    b.tensors[x].quantization.zeroPoint = [131]
    y = b.pool("AVERAGE_POOL_2D", x, (2, 3))
    graph = load_tflite(b.build(y))
    assert {tensor.dtype for tensor in graph.tensors.values()} == {"uint8"}
    assert dict(graph.nodes[0].attributes) == {
        "window": (2, 3),
        "stride": (1, 1),
        "padding": (0, 0, 0, 0),
        "activation": "none",
        "count_include_pad": False,
    }


def test_a_pad_adds_the_zero_point_unless_told_otherwise():
    b, x = image()
    y = b.pad(x, ((0, 0), (1, 2), (3, 4), (0, 0)))
    z = b.pad(x, ((0, 0), (1, 2), (3, 4), (0, 0)), 17)
    first, second = load_tflite(b.build(y, z)).nodes
    assert first["padding"] == second["padding"] == (1, 3, 2, 4)
    assert (first["value"], second["value"]) == (-3, 17)


def test_shape_inputs_and_negative_axes_become_attributes():
    b, x = image()
    flat = b.reshape(x, (1, -1))
    mean = b.mean(x, (-3, 2), 1.0)
    joined = b.concat([x, x], axis=-1)
    turned = b.tensor((1, 2, 8, 9), 0.5, -3)
    b.operator("TRANSPOSE", [x, b.constant(np.int32([0, 3, 1, 2]))], [turned])
    best = b.tensor((1, 8, 9), dtype="int64")
    b.operator("ARG_MAX", [x, b.constant(np.int32(-1))], [best])
    nodes = load_tflite(b.build(flat, mean, joined, turned, best)).nodes
    assert [(node.op, dict(node.attributes)) for node in nodes] == [
        ("reshape", {"shape": (1, 144)}),
        ("mean", {"axes": (1, 2), "keep_dims": False}),
        ("concat", {"axis": 3, "activation": "none"}),
        ("transpose", {"perm": (0, 3, 1, 2)}),
        ("argmax", {"axis": 3}),
    ]
    assert [node.inputs for node in nodes] == [("t0",), ("t0",), ("t0", "t0"), ("t0",), ("t0",)]


def test_quantize_is_requantize_between_integers():
    b = Builder("float32")
    x = b.input((1, 4))
    q = b.unary("QUANTIZE", x, 0.1, 1, dtype="int8")
    r = b.unary("QUANTIZE", q, 0.2, 2, dtype="uint8")
    y = b.unary("DEQUANTIZE", r, dtype="float32")
    assert [n.op for n in load_tflite(b.build(y)).nodes] == ["quantize", "requantize", "dequantize"]


def test_unknown_operators_keep_their_name():
    b, x = image()
    y = b.unary("CUMSUM", x, 1.0)
    z = b.unary("CUSTOM:MyOperator", y, 1.0)
    first, second = load_tflite(b.build(z)).nodes
    assert (first.op, first.source, dict(first.attributes)) == (
        "cumsum",
        "CUMSUM",
        {},
    )
    assert (second.op, second.source) == ("custom", "CUSTOM MyOperator")


def unsupported_activation(b, x):
    return b.add(x, x, 1.0, activation="TANH")


def unsupported_computed_axes(b, x):
    y = b.tensor((1, 2), 1.0)
    axes = b.input((2,))
    b.tensors[axes].type = 2
    return b.operator("MEAN", [x, axes], [y])


def unsupported_type(b, x):
    y = b.unary("RELU", x, 1.0)
    b.tensors[y].type = 17  # int4
    return y


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (unsupported_activation, "unknown fused activation 4"),
        (unsupported_computed_axes, "its axes are not constant"),
        (unsupported_type, "tensor 't1' has a type or layout that numpy does not support"),
    ],
)
def test_forms_that_graphs_cannot_express_give_a_reason(build, reason):
    b, x = image()
    node = only_node(b, build(b, x))
    assert (node.op, dict(node.attributes)) == ("unsupported", {"reason": reason})


def test_weights_of_fewer_channels_are_those_of_groups():
    b, x = image()
    y = b.conv(x, np.zeros((4, 1, 1, 1), np.int8), weight_scale=0.1, scale=1.0)
    node = only_node(b, y)
    assert (node.op, node["group"]) == ("conv", 2)


def test_equal_names_get_numbers():
    b, x = image()
    y = b.unary("RELU", x, 0.5)
    b.tensors[y].name = b.tensors[x].name
    graph = load_tflite(b.build(y))
    assert (graph.inputs, graph.outputs) == (("t0",), ("t0:1",))


def test_a_dynamic_batch_is_one():
    b, x = image()
    y = b.unary("RELU", x, 0.5)
    for tensor in (x, y):
        b.tensors[tensor].shapeSignature = [-1, 8, 9, 2]
    assert load_tflite(b.build(y)).tensors["t1"].shape == (1, 8, 9, 2)


def test_tensors_that_nobody_uses_are_left_out():
    b, x = image()
    b.tensor((0, -5), -1.0)
    assert set(load_tflite(b.build(b.unary("RELU", x, 0.5))).tensors) == {"t0", "t2"}


def test_what_an_operator_keeps_is_a_state_that_starts_as_zeros():
    b, x = image()
    state = b.tensor((2, 3), dtype="float32")
    b.tensors[state].isVariable = True
    y = b.tensor((1, 3), 1.0)
    b.operator("SVDF", [x, state], [y])
    graph = load_tflite(b.build(y))
    (kept,) = graph.states
    assert (kept.input, *graph.nodes[0].outputs) == ("t1", "t2", kept.output)
    np.testing.assert_array_equal(kept.initial, np.zeros((2, 3), np.float32))


def test_a_variable_that_no_operator_changes_is_constant():
    b, x = image()
    still = b.tensor(b.shape(x), 0.5, 3)
    b.tensors[still].isVariable = True
    graph = load_tflite(b.build(b.add(x, still, 0.5, 3)))
    assert not graph.states and (graph.tensors["t1"].data == 3).all()


@pytest.mark.parametrize(
    ("old", "new", "op"), [(19, 0, "relu"), (0, 19, "relu"), (127, 150, "gelu")]
)
def test_codes_of_operators_have_an_old_and_a_new_field(old, new, op, monkeypatch):
    b, x = image()
    y = b.unary("RELU", x, 0.5)

    class Code(schema.OperatorCodeT):
        def Pack(self, builder):  # noqa: N802 - the schema's name
            self.deprecatedBuiltinCode, self.builtinCode = old, new
            return super().Pack(builder)

    monkeypatch.setattr(schema, "OperatorCodeT", Code)
    assert only_node(b, y).op == op
