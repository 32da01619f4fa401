"""Import of quantized ONNX networks: all of ONNX's ways become the same operators."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.graph import Graph, Quantization
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx
from tpulite_testing.oracles.onnx_interpreter import interpret
from tpulite_testing.oracles.onnx_session import open_onnx
from tpulite_testing.quick_options import quick_options

RNG = np.random.default_rng(7)


def draw(*shape: int, dtype: str = "int8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def reals(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def load(data: bytes, *inputs: np.ndarray, step: float = 1.0):
    """Compare with ONNX Runtime, ties apart: results differ by one ``step`` at most, and rarely."""
    graph = load_onnx(data, "net")
    for ours, theirs in zip(interpret(graph, *inputs), run_onnx(data, *inputs), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        difference = np.abs(ours.astype(np.float64) - theirs)
        assert difference.max() <= step * 1.001
        assert np.count_nonzero(difference > step / 100) <= 1 + 0.02 * difference.size
        assert theirs.max() > theirs.min()
    return graph


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def meaning(graph: Graph, name: str) -> Quantization:
    quantization = graph.tensors[name].quantization
    assert quantization is not None
    return quantization


QUANTIZED = ("int8", "uint8")
POINTS = {"int8": -5, "uint8": 131}


@pytest.mark.parametrize("dtype", QUANTIZED)
@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("bias", ["none", "int32", "float32", "other scale"])
def test_conv_between_dequantize_and_quantize(dtype, weights, bias):
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 3, 6, 7)), 0.03, POINTS[dtype], dtype)
    scales = np.linspace(0.002, 0.01, 4) if weights == "int8" else 0.004
    point = 0 if weights == "int8" else 120
    inputs = [x, b.weight(draw(4, 3, 3, 3, dtype=weights), scales, zero_point=point)]
    sums = np.broadcast_to(np.float32(0.03) * np.float32(scales), 4).astype(np.float32)
    if bias == "int32":
        inputs.append(b.weight(RNG.integers(-999, 999, 4).astype(np.int32), sums))
    elif bias == "float32":
        inputs.append(reals(4) / 100)
    elif bias == "other scale":
        inputs.append(b.weight(RNG.integers(-99, 99, 4).astype(np.int32), sums * 7))
    y = b.node("Relu", b.node("Conv", *inputs, pads=[1, 0, 2, 1]))
    y = b.quantize(y, 0.02, POINTS[dtype], dtype)
    graph = load(b.build(y), reals(1, 3, 6, 7), step=0.02)
    assert ops(graph) == ["transpose", "quantize", "conv", "dequantize", "transpose"]
    conv = graph.nodes[2]
    assert conv["activation"] == "relu"
    x_tensor, weight = (graph.tensors[name] for name in conv.inputs[:2])
    assert x_tensor.dtype == dtype
    assert weight.dtype == weights
    assert meaning(graph, weight.name).axis == (0 if weights == "int8" else None)
    if bias != "none":
        added = graph.tensors[conv.inputs[2]]
        assert added.dtype == "int32"
        products = meaning(graph, x_tensor.name).scale * meaning(graph, weight.name).scale
        assert np.allclose(meaning(graph, added.name).scale, products, rtol=1e-3, atol=0)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_keeps_the_scales_of_channels(multiplier):
    b = OnnxBuilder()
    channels = 3 * multiplier
    x = b.quantize(b.input("x", (1, 3, 6, 7)), 0.03, 3)
    w = b.weight(draw(channels, 1, 3, 2), np.linspace(0.002, 0.02, channels))
    y = b.quantize(b.node("Conv", x, w, group=3, strides=[2, 1]), 0.02, -9)
    graph = load(b.build(y), reals(1, 3, 6, 7), step=0.02)
    weight = graph.tensors[graph.nodes[2].inputs[1]]
    assert graph.nodes[2].op == "depthwise"
    assert weight.shape == (3, 2, channels)
    assert meaning(graph, weight.name).axis == 2


def test_groups_keep_their_weights():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 6, 5, 5)), 0.03, 3)
    w = b.weight(draw(4, 3, 3, 3, dtype="uint8"), 0.004, zero_point=99)
    y = b.quantize(b.node("Conv", x, w, group=2), 0.02, -9)
    graph = load(b.build(y), reals(1, 6, 5, 5), step=0.02)
    assert graph.nodes[2]["group"] == 2
    assert graph.tensors[graph.nodes[2].inputs[1]].shape == (4, 3, 3, 3)


@pytest.mark.parametrize("transposed", [False, True])
def test_flattened_images_permute_quantized_weights(transposed):
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 3, 4, 5)), 0.03, 3)
    x = b.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    x = b.quantize(b.node("Flatten", b.quantize(x, 0.03, 3)), 0.03, 3)
    values, scales = draw(36, 6), np.linspace(0.002, 0.01, 6)
    w = b.weight(values.T if transposed else values, scales, axis=0 if transposed else 1)
    y = b.quantize(b.node("Gemm", x, w, reals(6), transB=int(transposed)), 0.02, -9)
    graph = load(b.build(y), reals(1, 3, 4, 5), step=0.02)
    assert ops(graph) == ["transpose", "quantize", "max_pool", "reshape", "dense", "dequantize"]
    weight = graph.tensors[graph.nodes[4].inputs[1]]
    assert weight.shape == (6, 36)
    assert meaning(graph, weight.name).axis == 0


def test_operators_in_a_row_are_all_quantized():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 4, 6, 6)), 0.03, 3)
    y = b.quantize(b.node("Sigmoid", x), 1 / 256, -128)
    z = b.quantize(b.node("Mul", x, y), 0.02, 7)
    z = b.quantize(b.node("Sub", z, b.quantize(b.node("Add", x, z), 0.05, 0)), 0.03, 4)
    z = b.quantize(b.node("AveragePool", z, kernel_shape=[2, 2], count_include_pad=1), 0.03, 4)
    c = b.quantize(b.node("Concat", z, b.quantize(b.node("Tanh", z), 1 / 128, 0), axis=1), 0.04, 1)
    c = b.quantize(b.node("HardSwish", b.quantize(b.node("LeakyRelu", c), 0.03, -30)), 0.03, -100)
    c = b.quantize(b.node("GlobalAveragePool", c), 0.02, -100)
    graph = load(b.build(c), reals(1, 4, 6, 6), step=0.02)
    in_floats = [n.op for n in graph.nodes if graph.tensors[n.outputs[0]].dtype != "int8"]
    assert in_floats == ["transpose", "dequantize", "transpose"]
    assert len(graph.nodes) == 14


def test_a_pad_adds_the_zero_point():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 2, 4, 4)), 0.03, 3)
    y = b.quantize(b.node("Pad", x, np.array([0, 0, 1, 0, 0, 0, 0, 2])), 0.03, 3)
    y = b.node("MaxPool", b.node("Relu", y), kernel_shape=[2, 2])
    graph = load(b.build(b.quantize(y, 0.03, 3)), reals(1, 2, 4, 4))
    (pad,) = (node for node in graph.nodes if node.op == "pad")
    assert pad["value"] == 3
    assert pad["padding"] == (1, 0, 0, 2)


def test_a_last_relu_works_on_integers():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 6)), 0.03, 3)
    y = b.node("MatMul", x, b.weight(draw(6, 4), 0.01))
    graph = load(b.build(b.node("Relu", b.quantize(y, 0.02, 7))), reals(1, 6), step=0.02)
    assert ops(graph) == ["quantize", "dense", "relu", "dequantize"]


def test_constants_are_moved_and_requantized_at_once():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 3, 4, 4)), 0.03, 3)
    factor = b.node("Reshape", b.weight(draw(3), 0.01), np.array([1, 3, 1, 1]))
    added = b.quantize(b.weight(draw(3, 1, 1), 0.01), 0.02, -5)
    y = b.quantize(b.node("Mul", x, b.quantize(factor, 0.01, 0)), 0.02, 3)
    y = b.quantize(b.node("Add", y, added), 0.02, 3)
    graph = load(b.build(y), reals(1, 3, 4, 4), step=0.02)
    assert [op for op in ops(graph) if op != "transpose"] == [
        "quantize",
        "mul",
        "add",
        "dequantize",
    ]


def test_a_shuffle_of_integers_keeps_them():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 6, 4, 4)), 0.03, 3)
    y = b.quantize(b.node("Reshape", x, np.array([1, 3, 2, 4, 4])), 0.03, 3)
    y = b.quantize(b.node("Transpose", y, perm=[0, 2, 1, 3, 4]), 0.03, 3)
    y = b.quantize(b.node("Reshape", y, np.array([1, 6, 4, 4])), 0.03, 3)
    graph = load(b.build(y), reals(1, 6, 4, 4))
    assert ops(graph) == ["transpose", "quantize", "conv", "dequantize", "transpose"]


def test_another_scale_after_moving_is_a_requantization():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 2, 6, 6)), 0.03, 3)
    y = b.quantize(b.node("MaxPool", x, kernel_shape=[2, 2]), 0.05, -7)
    graph = load(b.build(y), reals(1, 2, 6, 6), step=0.05)
    assert ops(graph)[1:-2] == ["quantize", "max_pool", "requantize"]


def test_quantization_of_a_moved_input_comes_first():
    b = OnnxBuilder()
    x = b.node("Transpose", b.input("x", (1, 5, 5, 2)), perm=[0, 3, 1, 2])
    y = b.node("Conv", b.quantize(x, 0.03, 3), b.weight(draw(4, 2, 1, 1), 0.01))
    graph = load(b.build(b.quantize(y, 0.05, -7)), reals(1, 5, 5, 2), step=0.05)
    assert ops(graph) == ["quantize", "conv", "dequantize", "transpose"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.0, 6.0, "relu"), (-9.0, 9.0, "none"), (0.0, 1.0, "clip"), (0.0, 99.0, "relu")],
)
def test_clips_that_the_quantization_does_are_dropped(low, high, expected):
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 2, 5, 5)), 0.03, 3)
    y = b.node("Conv", x, b.weight(draw(4, 2, 1, 1), 0.01))
    y = b.node("Clip", y, np.float32(low), np.float32(high))
    graph = load(b.build(b.quantize(y, 0.02, 0)), reals(1, 2, 5, 5), step=0.02)
    (conv,) = (node for node in graph.nodes if node.op == "conv")
    if expected == "clip":
        assert "clip" in ops(graph)
        assert graph.tensors[conv.outputs[0]].dtype == "float32"
    else:
        assert conv["activation"] == expected
        assert graph.tensors[conv.outputs[0]].dtype == "int8"


def test_what_is_not_quantized_stays_in_floats():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 2, 5, 5)), 0.03, 3)
    w = b.weight(draw(4, 2, 1, 1), [0.01, 0.02], axis=1)  # scales of input channels
    y = b.node("Conv", b.node("Exp", b.node("Conv", x, w)), reals(3, 4, 1, 1))
    graph = load_onnx(b.build(y), "net")
    inputs = [reals(1, 2, 5, 5)]
    float_ops = [node for node in graph.nodes if node.op == "conv"]
    assert len(float_ops) == 2
    assert all(graph.tensors[name].dtype == "float32" for n in float_ops for name in n.inputs)
    assert run_onnx(b.build(y), *inputs)[0].shape == graph.tensors[graph.outputs[0]].shape


def test_one_tensor_quantized_twice_alike_is_quantized_once():
    b = OnnxBuilder()
    x = b.input("x", (1, 2, 5, 5))
    y = b.node("Add", b.quantize(x, 0.03, 3), b.quantize(x, 0.03, 3))
    graph = load(b.build(b.quantize(y, 0.05, 1)), reals(1, 2, 5, 5), step=0.05)
    assert ops(graph) == ["quantize", "add", "dequantize"]


def test_narrow_weights_become_int8():
    b = OnnxBuilder(opset=21)
    x = b.quantize(b.input("x", (1, 8)), 0.03, 3)
    import ml_dtypes

    w = b.weight(RNG.integers(-8, 8, (8, 4)).astype(ml_dtypes.int4), 0.05)
    graph = load_onnx(b.build(b.quantize(b.node("MatMul", x, w), 0.05, 1)), "net")
    assert ops(graph) == ["quantize", "dense", "dequantize"]
    assert graph.tensors[graph.nodes[1].inputs[1]].dtype == "int8"


def test_narrow_weights_behind_a_cast_run_on_the_machine():
    """ONNX Runtime joins DequantizeLinear of int8 alone to its integer kernels."""
    b = OnnxBuilder(opset=21)
    x = b.quantize(b.input("x", (1, 8)), 0.03, 3, "uint8")
    import ml_dtypes

    narrow = b.constant(RNG.integers(-8, 8, (8, 4)).astype(ml_dtypes.int4))
    w = b.node("DequantizeLinear", b.node("Cast", narrow, to=3), np.float32(0.05), np.int8(0))
    y = b.node("QuantizeLinear", b.node("MatMul", x, w), np.float32(0.05), np.uint8(120))
    data = b.build(y, dtype="uint8")
    model = Model.load(load_onnx(data, "net"), options=quick_options())
    assert [each.where for each in model.summary()] == ["host", "MXU"]
    session = open_onnx(data)
    for value in RNG.normal(size=(20, 1, 8)).astype(np.float32):
        found = model.reference({"x": value})[y]
        np.testing.assert_array_equal(found.reshape(1, 4), session.run(None, {"x": value})[0])


def parameters(scale: float, zero_point: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    return np.array(scale, np.float32), np.array(zero_point, dtype)


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_qlinear_conv(dtype):
    b = OnnxBuilder()
    scales = np.linspace(0.002, 0.01, 4).astype(np.float32)
    y = b.node(
        "QLinearConv",
        b.input("x", (1, 3, 6, 7), dtype),
        *parameters(0.03, POINTS[dtype], dtype),
        draw(4, 3, 3, 3) // 2,
        scales,
        np.zeros(4, np.int8),
        *parameters(0.05, POINTS[dtype], dtype),
        RNG.integers(-999, 999, 4).astype(np.int32),
        name="first",
        pads=[1, 0, 2, 1],
    )
    graph = load(b.build(y), draw(1, 3, 6, 7, dtype=dtype))
    assert ops(graph) == ["transpose", "conv", "transpose"]
    conv = graph.nodes[1]
    assert (conv.name, conv.source, len(conv.inputs)) == ("first", "QLinearConv", 3)
    assert meaning(graph, conv.outputs[0]).zero_point == POINTS[dtype]


@pytest.mark.parametrize(
    ("shape", "weights"), [((5, 6), (6, 4)), ((2, 3, 6), (6, 4)), ((2, 3, 5, 6), (2, 3, 6, 4))]
)
def test_qlinear_matmul(shape, weights):
    b = OnnxBuilder(opset=21)
    y = b.node(
        "QLinearMatMul",
        b.input("x", shape, "uint8"),
        *parameters(0.03, 99, "uint8"),
        draw(*weights, dtype="uint8"),
        *parameters(0.01, 140, "uint8"),
        *parameters(0.1, 120, "uint8"),
    )
    graph = load(b.build(y), draw(*shape, dtype="uint8"))
    assert [op for op in ops(graph) if op not in ("reshape", "transpose")] == ["dense"]


CONTRIBUTED = {
    "QLinearAdd": ("add", {}),
    "QLinearMul": ("mul", {}),
    "QLinearSigmoid": ("sigmoid", {}),
    "QLinearLeakyRelu": ("leaky_relu", {"alpha": 0.3}),
    "QLinearAveragePool": ("average_pool", {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}),
    "QLinearGlobalAveragePool": ("mean", {}),
    "QLinearConcat": ("concat", {"axis": 1}),
}


@pytest.mark.parametrize("dtype", QUANTIZED)
@pytest.mark.parametrize("op", CONTRIBUTED)
def test_contributed_operators(op, dtype):
    expected, attributes = CONTRIBUTED[op]
    b = OnnxBuilder()
    x = [b.input("x", (1, 3, 6, 7), dtype), *parameters(0.03, POINTS[dtype], dtype)]
    y = parameters(0.0411 if op != "QLinearSigmoid" else 1 / 200, POINTS[dtype], dtype)
    values = [draw(1, 3, 6, 7, dtype=dtype)]
    inputs = [*x, *y]
    if op in ("QLinearAdd", "QLinearMul", "QLinearConcat"):
        z = [b.input("z", (1, 3, 6, 7), dtype), *parameters(0.02, POINTS[dtype] + 3, dtype)]
        values.append(draw(1, 3, 6, 7, dtype=dtype))
        inputs = [*y, *x, *z] if op == "QLinearConcat" else [*x, *z, *y]
    data = b.build(b.node(op, *inputs, **attributes), dtype=dtype)
    graph = load(data, *values)
    assert [o for o in ops(graph) if o not in ("transpose", "reshape")] == [expected]
    assert {node.source for node in graph.nodes} <= {op, ""}


def test_quantized_softmax():
    b = OnnxBuilder()
    x = [b.input("x", (2, 7), "int8"), *parameters(0.03, 5, "int8")]
    y = b.node("QLinearSoftmax", *x, *parameters(1 / 256, -128, "int8"), opset=17)
    assert ops(load(b.build(y), draw(2, 7, dtype="int8"))) == ["softmax"]


def test_quantized_softmax_of_another_version_than_its_model_stays():
    b = OnnxBuilder()
    x = [b.input("x", (2, 7), "int8"), *parameters(0.03, 5, "int8")]
    y = b.node("QLinearSoftmax", *x, *parameters(1 / 256, -128, "int8"), opset=11)
    assert ops(load_onnx(b.build(y), "net")) == ["qlinearsoftmax"]


def test_qgemm():
    b = OnnxBuilder()
    y = b.node(
        "QGemm",
        b.input("x", (3, 6), "uint8"),
        *parameters(0.03, 99, "uint8"),
        # Without VNNI, products of 8 bits saturate in ONNX Runtime.
        draw(4, 6) // 2,
        np.linspace(0.002, 0.01, 4).astype(np.float32),
        np.zeros(4, np.int8),
        RNG.integers(-999, 999, 4).astype(np.int32),
        *parameters(0.05, 120, "uint8"),
        transB=1,
    )
    graph = load(b.build(y, dtype="uint8"), draw(3, 6, dtype="uint8"))
    assert ops(graph) == ["dense"]


@pytest.mark.parametrize("dtype", QUANTIZED)
@pytest.mark.parametrize("shapes", [((3, 6), (6, 4)), ((2, 3, 6), (6, 4)), ((2, 3, 6), (2, 6, 4))])
def test_matmul_integer_gives_sums(dtype, shapes):
    b = OnnxBuilder()
    x = b.input("x", shapes[0], dtype)
    points = np.array(POINTS[dtype], dtype), np.array(3, "int8")
    data = b.build(b.node("MatMulInteger", x, draw(*shapes[1]) // 2, *points))
    graph = load(data, draw(*shapes[0], dtype=dtype), step=0.1)
    assert [op for op in ops(graph) if op not in ("reshape", "transpose")] == ["dense", "add"]
    (dense,) = (node for node in graph.nodes if node.op == "dense")
    assert dense["raw"]
    assert graph.tensors[graph.outputs[0]].dtype == "int32"
    assert meaning(graph, "x").zero_point == {"int8": 0, "uint8": 128}[dtype]


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 2, 1]])
@pytest.mark.parametrize("point", [7, 128])
def test_conv_integer_gives_sums(pads, point):
    b = OnnxBuilder()
    x = b.input("x", (1, 3, 7, 6), "uint8")
    data = b.build(
        b.node(
            "ConvInteger",
            *(x, draw(4, 3, 3, 2, dtype="uint8")),
            *(np.array(point, "uint8"), np.array(130, "uint8")),
            pads=pads,
            strides=[2, 1],
            dilations=[1, 2],
        )
    )
    graph = load(data, draw(1, 3, 7, 6, dtype="uint8"), step=0.1)
    assert ops(graph) == ["transpose", "conv", *["add"] * (point != 128), "transpose"]
    assert graph.nodes[1]["raw"]


def test_small_differences_to_zero_points_of_channels_become_int8():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 5)), 0.03, 3)
    points = np.array([50, 100, 200], np.uint8)
    values = points + draw(5, 3) // 3
    w = b.node("DequantizeLinear", values.astype(np.uint8), np.full(3, 0.02, np.float32), points)
    graph = load(b.build(b.quantize(b.node("MatMul", x, w), 0.02, -3)), reals(1, 5), step=0.02)
    weight = graph.tensors[graph.nodes[1].inputs[1]]
    assert weight.dtype == "int8"
    assert not meaning(graph, weight.name).zero_point.any()


def test_integers_without_scales_are_pooled():
    b = OnnxBuilder()
    x = b.input("x", (1, 3, 6, 6), "uint8")
    graph = load(
        b.build(b.node("MaxPool", x, kernel_shape=[2, 2])), draw(1, 3, 6, 6, dtype="uint8")
    )
    assert ops(graph) == ["transpose", "max_pool", "transpose"]
