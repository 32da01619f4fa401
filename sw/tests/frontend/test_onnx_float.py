"""Import of float ONNX networks: they mean what ONNX Runtime computes."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.graph import Graph
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx
from tpulite_testing.oracles.onnx_interpreter import interpret

RNG = np.random.default_rng(2024)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def check(data: bytes, *inputs: np.ndarray) -> Graph:
    """Compare with ONNX Runtime; return the graph."""
    graph = load_onnx(data, "net")
    for ours, theirs in zip(interpret(graph, *inputs), run_onnx(data, *inputs), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    return graph


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


CONVS = {
    "plain": ((4, 3, 3, 2), {}),
    "one pixel": ((5, 3, 1, 1), {}),
    "asymmetric": ((4, 3, 3, 3), {"pads": [2, 0, 1, 3], "strides": [2, 3]}),
    "dilated": ((4, 3, 3, 2), {"pads": [1, 2, 1, 1], "dilations": [2, 3]}),
    "same upper": ((4, 3, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    "same lower": ((4, 3, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [3, 2]}),
    "valid": ((4, 3, 4, 3), {"auto_pad": "VALID"}),
    "depthwise": ((3, 1, 3, 3), {"group": 3, "pads": [1, 0, 0, 1]}),
    "multiplier": ((6, 1, 3, 2), {"group": 3, "strides": [1, 2]}),
    "groups": ((6, 2, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("case", CONVS)
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_equal_onnx_runtime(case, bias):
    shape, attributes = CONVS[case]
    channels = shape[1] * attributes.get("group", 1)
    b = OnnxBuilder()
    x = b.input("x", (1, channels, 11, 9))
    b_values = [draw(shape[0])] if bias else []
    graph = check(
        b.build(b.node("Conv", x, draw(*shape), *b_values, **attributes)), draw(1, channels, 11, 9)
    )
    op = "depthwise" if case in ("depthwise", "multiplier") else "conv"
    assert ops(graph) == ["transpose", op, "transpose"]


def test_a_row_is_an_image():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 3, 20)), draw(4, 3, 5), draw(4), pads=[2, 1], strides=[2])
    y = b.node("Relu", y)
    y = b.node("MaxPool", y, kernel_shape=[3], strides=[2], pads=[0, 1])
    y = b.node("GlobalAveragePool", b.node("Conv", y, draw(5, 4, 3), dilations=[2]))
    graph = check(b.build(y), draw(1, 3, 20))
    assert "transpose" not in ops(graph)[1:-1]
    assert [n["window"] for n in graph.nodes if n.op == "max_pool"] == [(1, 3)]


POOLS = {
    "plain": {"kernel_shape": [2, 3], "strides": [2, 2]},
    "padded": {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]},
    "ceil": {"kernel_shape": [3, 2], "strides": [3, 2], "ceil_mode": 1},
    "ceil padded": {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [1, 1, 1, 1],
        "ceil_mode": 1,
    },
    "same": {"kernel_shape": [2, 4], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
}


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("height", [8, 9, 10])
def test_max_pools_equal_onnx_runtime(case, height):
    b = OnnxBuilder()
    x = b.input("x", (2, 3, height, 7))
    check(b.build(b.node("MaxPool", x, **POOLS[case])), draw(2, 3, height, 7))


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("height", [8, 9, 10])
@pytest.mark.parametrize("count", [0, 1])
def test_average_pools_equal_onnx_runtime(case, height, count):
    b = OnnxBuilder(opset=19)
    x = b.input("x", (1, 3, height, 7))
    y = b.node("AveragePool", x, count_include_pad=count, **POOLS[case])
    check(b.build(y), draw(1, 3, height, 7))


def test_an_ordinary_network_has_one_transpose():
    b = OnnxBuilder()
    x = b.input("x", ("batch", 3, 9, 10))
    y = b.node("Sub", x, draw(3, 1, 1))
    y = b.node("Pad", y, np.array([0, 0, 1, 2, 0, 0, 0, 1]))
    y = b.node(
        "Clip",
        b.node("Conv", y, draw(8, 3, 3, 3), draw(8), strides=[2, 1]),
        b.constant(np.float32(0)),
        b.constant(np.float32(6)),
    )
    z = b.node("BatchNormalization", y, draw(8), draw(8), draw(8), np.abs(draw(8)) + 1)
    s = b.node("Add", b.node("LeakyRelu", z, alpha=0.2), y)
    gate = b.node("Sigmoid", b.node("Conv", b.node("GlobalAveragePool", s), draw(8, 8, 1, 1)))
    s = b.node("Mul", s, gate)
    s = b.node("Concat", s, y, b.node("Tanh", z), axis=1)
    s = b.node("Flatten", b.node("MaxPool", s, kernel_shape=[2, 2], strides=[2, 2]))
    inferred = load_onnx(b.build(s), "net")
    k = inferred.tensors[inferred.outputs[0]].shape[1]
    s = b.node("Gemm", b.node("HardSwish", s), draw(5, k), draw(5), transB=1)
    s = b.node("MatMul", s, draw(5, 4))
    graph = check(b.build(s), draw(1, 3, 9, 10))
    assert ops(graph).count("transpose") == 1
    assert ops(graph)[0] == "transpose"
    assert "reshape" in ops(graph)


def test_a_reshape_of_one_pixel_needs_no_transpose():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 1, 6, 6)), draw(4, 1, 6, 6))
    y = b.node("Gemm", b.node("Reshape", y, np.array([0, -1])), draw(4, 3))
    graph = check(b.build(y), draw(1, 1, 6, 6))
    assert ops(graph) == ["transpose", "conv", "reshape", "dense"]


def test_a_flattened_image_that_others_read_keeps_its_order():
    b = OnnxBuilder()
    y = b.node("Flatten", b.node("Conv", b.input("x", (1, 2, 4, 4)), draw(3, 2, 2, 2)))
    z = b.node("Gemm", y, draw(27, 3))
    graph = check(b.build(z, y), draw(1, 2, 4, 4))
    assert ops(graph).count("transpose") == 2


def test_transposes_of_the_file_cancel():
    b = OnnxBuilder()
    x = b.node("Transpose", b.input("x", (1, 7, 6, 3)), perm=[0, 3, 1, 2])
    y = b.node("Relu", b.node("Conv", x, draw(4, 3, 3, 3)))
    graph = check(b.build(b.node("Transpose", y, perm=[0, 2, 3, 1])), draw(1, 7, 6, 3))
    assert ops(graph)[:2] == ["conv", "relu"]
    assert "transpose" not in ops(graph)


def test_operators_that_need_the_original_order_get_it():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 2, 6, 6)), draw(4, 2, 3, 3))
    y = b.node("Reshape", y, np.array([1, 2, 2, 16]))
    y = b.node("Transpose", y, perm=[0, 2, 1, 3])
    y = b.node("Conv", b.node("Reshape", y, np.array([1, 4, 4, 4])), draw(3, 4, 1, 1))
    check(b.build(y), draw(1, 2, 6, 6))


def test_a_mean_over_pixels_is_one_of_an_image():
    b = OnnxBuilder()
    y = b.node("Relu", b.node("Relu", b.input("x", (1, 3, 6, 5))))
    graph = check(b.build(b.node("GlobalAveragePool", y)), draw(1, 3, 6, 5))
    assert ops(graph) == ["transpose", "relu", "relu", "mean", "transpose"]
    assert graph.nodes[3]["axes"] == (1, 2)


def test_a_shuffle_of_channels_is_a_convolution():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 2, 6, 6)), draw(6, 2, 3, 3))
    y = b.node("Reshape", y, np.array([1, 3, 2, 4, 4]))
    y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1, 3, 4]), np.array([1, 6, 4, 4]))
    graph = check(b.build(b.node("Relu", y)), draw(1, 2, 6, 6))
    assert ops(graph) == ["transpose", "conv", "conv", "relu", "transpose"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_old_softmax_is_over_all_axes_from_one_on(axis):
    b = OnnxBuilder(opset=11)
    check(b.build(b.node("Softmax", b.input("x", (2, 3, 4)), axis=axis)), draw(2, 3, 4))


@pytest.mark.parametrize("keepdims", [0, 1, 2])
@pytest.mark.parametrize("axes", [[2, 3], [-1], [1], [1, 3]])
def test_means_of_any_axes(axes, keepdims):
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 2, 6, 5)), draw(4, 2, 3, 3))
    check(b.build(b.node("ReduceMean", y, axes=axes, keepdims=keepdims)), draw(1, 2, 6, 5))


def test_broadcasts_of_lower_rank():
    b = OnnxBuilder()
    x, z = b.input("x", (1, 2, 6, 5)), b.input("z", (3, 1, 1))
    w = b.input("w", (4, 3))
    y = b.node("Add", b.node("Conv", x, draw(3, 2, 3, 3)), z)
    y = b.node("Mul", b.node("Sub", w, b.node("Conv", y, draw(1, 3, 1, 1))), np.float32(3))
    inputs = draw(1, 2, 6, 5), draw(3, 1, 1), draw(4, 3)
    check(b.build(b.node("Div", y, draw(3))), *inputs)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 6), (2, 1, 3, 6)])
def test_products_of_any_rank(shape):
    b = OnnxBuilder()
    y = b.node("Add", b.node("MatMul", b.input("x", shape), draw(6, 5)), draw(5))
    graph = check(b.build(y), draw(*shape))
    assert "dense" in ops(graph)


@pytest.mark.parametrize("bias", [(5,), (1, 5), (1,), (4, 5), (4, 1)])
def test_gemm_with_factors_and_transposes(bias):
    b = OnnxBuilder()
    x = b.input("x", (6, 4))
    y = b.node("Gemm", x, draw(5, 6), draw(*bias), alpha=0.5, beta=2.0, transA=1, transB=1)
    graph = check(b.build(y), draw(6, 4))
    assert ops(graph) == ["transpose", "dense"] + ["add"] * (bias[0] == 4)


@pytest.mark.parametrize("opset", [7, 10, 11, 12, 13, 18, 21])
def test_files_of_old_and_new_opsets(opset):
    b = OnnxBuilder(opset=opset)
    y = b.node("Conv", b.input("x", (1, 2, 6, 6)), draw(4, 2, 3, 3), pads=[1, 1, 1, 1])
    bounds = np.float32(-1), np.float32(0.5)
    y = b.node("Clip", y, *bounds) if opset > 10 else b.node("Clip", y, min=-1.0, max=0.5)
    pads = [0, 0, 1, 0, 0, 0, 0, 2]
    y = b.node("Pad", y, np.array(pads)) if opset > 10 else b.node("Pad", y, pads=pads)
    y = b.node("Unsqueeze", y, np.array([0])) if opset > 12 else b.node("Unsqueeze", y, axes=[0])
    y = b.node("Squeeze", y, np.array([0])) if opset > 12 else b.node("Squeeze", y, axes=[0])
    if opset > 17:
        y = b.node("ReduceMean", y, np.array([2, 3]), keepdims=0)
    else:
        y = b.node("ReduceMean", y, axes=[2, 3], keepdims=0)
    graph = check(b.build(b.node("Dropout", y)), draw(1, 2, 6, 6))
    assert "clip" in ops(graph)


def test_shape_arithmetic_is_folded():
    b = OnnxBuilder()
    x = b.input("x", ("n", 2, 4, 4))
    batch = b.node("Gather", b.node("Shape", x), np.array(0))
    sizes = b.node("Concat", b.node("Unsqueeze", batch, np.array([0])), np.array([-1]), axis=0)
    y = b.node("Gemm", b.node("Reshape", x, sizes), draw(32, 3))
    graph = check(b.build(y), draw(1, 2, 4, 4))
    assert ops(graph) == ["reshape", "dense"]


def test_dead_nodes_disappear():
    b = OnnxBuilder()
    x = b.input("x", (1, 3))
    b.node("Exp", x)
    graph = load_onnx(b.build(b.node("Relu", x)), "net")
    assert ops(graph) == ["relu"]
    assert set(graph.tensors) == {"x", graph.outputs[0]}


def test_outputs_that_are_other_names_are_copies():
    b = OnnxBuilder()
    x = b.input("x", (1, 3))
    y = b.node("Relu", x)
    check(b.build(b.node("Identity", y), y, b.node("Identity", x)), draw(1, 3))


def test_unknown_operators_stay_by_name():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 2, 6, 6)), draw(3, 2, 3, 3))
    y = b.node("GridSample", y, draw(1, 4, 4, 2))
    y = b.node("Det", y)
    graph = load_onnx(b.build(y), "net")
    assert ops(graph) == ["transpose", "conv", "transpose", "gridsample", "det"]


def test_shapes_that_only_a_run_would_tell_are_no_obstacle():
    b = OnnxBuilder()
    x = b.input("x", (1, 2, 6, 6))
    y = b.node("QLinearSoftmax", x, np.float32(1))  # a foreign operator: its output is anything
    z = b.node("Conv", b.node("Relu", y), draw(3, 2, 3, 3))
    n = b.node("Gather", x, b.node("NonZero", x), axis=2)
    graph = load_onnx(b.build(b.node("Flatten", z), b.node("Concat", n, n, axis=0)), "net")
    assert ops(graph) == [
        *("qlinearsoftmax", "unsupported", "unsupported", "unsupported"),
        *("nonzero", "unsupported", "unsupported"),
    ]
    unknown = graph.tensors[graph.nodes[0].outputs[0]]
    assert (unknown.dtype, unknown.shape) == ("object", ())


def test_forms_that_graphs_lack_are_named():
    b = OnnxBuilder(opset=19)
    x = b.input("x", (1, 2, 6, 6))
    y = b.node("AveragePool", x, kernel_shape=[2, 2], dilations=[2, 2])
    y = b.node("Pad", y, np.array([0, 0, 1, 1, 0, 0, -1, -1]), mode="reflect")
    graph = load_onnx(b.build(y), "net")
    assert [(n.op, n["reason"], n.source) for n in graph.nodes] == [
        ("unsupported", "it pools with dilations", "AveragePool"),
        ("unsupported", "its mode is reflect, or its padding negative", "Pad"),
    ]
