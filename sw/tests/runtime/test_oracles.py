import numpy as np
import pytest

from tpulite.frontend.files import load_graph
from tpulite.models import CNN_DIGITS
from tpulite.runtime.comparison import compare_tensors
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.oracles import ORACLES, open_oracle

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")

from onnx import TensorProto, helper, numpy_helper

from tpulite.quant.calibrate import quantize_onnx
from tpulite.runtime.model_compare import compare_model
from tpulite_testing.files.onnx_builder import OnnxBuilder


@pytest.fixture
def onnx_file(tmp_path):
    """Write a quantized network with channels first: Conv, Relu, MaxPool, Flatten, Gemm."""
    rng = np.random.default_rng(2024)
    weights = {"w": (16, 3, 3, 3), "b": (16,), "v": (7, 144), "c": (7,)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["s"], name="conv"),
        helper.make_node("Relu", ["s"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "v", "c"], ["y"], name="gemm", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7])],
        [
            numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = rng.normal(0, 1, (20, 3, 8, 8)).astype(np.float32)
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize_onnx(model.SerializeToString(), samples))
    return path


def test_tensors_of_onnx_are_compared_in_the_order_of_the_graph(onnx_file):
    graph = load_graph(onnx_file)
    oracle = open_oracle("ort", onnx_file, graph)
    model = Model.load(onnx_file)
    inputs = random_inputs(model.graph, 3, 2024)
    pairs = []
    for i in range(3):
        values = {name: array[i : i + 1] for name, array in inputs.items()}
        pairs.append((model.reference(values), oracle(values)))
    names = {name: node.name for node in model.graph.nodes for name in node.outputs}
    differences = compare_tensors(names, pairs)
    assert not any(difference.different for difference in differences)
    compared = {difference.node for difference in differences}
    assert {"conv", "pool", "gemm"} <= compared
    images = [d for d in differences if d.name.endswith(".nhwc")]
    assert images and all(len(pairs[0][1][d.name].shape) == 4 for d in images)


@pytest.mark.parametrize(
    ("op", "constants", "attributes"),
    [
        ("Gather", [np.array([3, 0, 1])], {"axis": 1}),
        ("Gather", [np.array([0, 1, 2, 3])], {"axis": 1}),
        ("Slice", [np.array([1, 3]), np.array([3, 1]), np.array([1, 3]), np.array([1, -1])], {}),
        ("DepthToSpace", [], {"blocksize": 2}),
        ("SpaceToDepth", [], {"blocksize": 2}),
    ],
)
def test_what_moves_floats_before_they_are_rounded_is_moved_by_litert(
    op, constants, attributes, tmp_path
):
    rng = np.random.default_rng(7)
    b = OnnxBuilder()
    y = b.quantize(b.node(op, b.input("x", (1, 4, 4, 4)), *constants, **attributes), 0.03, 4)
    y = b.node("DepthToSpace" if op == "SpaceToDepth" else "SpaceToDepth", y, blocksize=2)
    path = tmp_path / "net.onnx"
    path.write_bytes(b.build(b.quantize(b.node("Relu", y), 0.03, 4)))
    oracle = open_oracle("litert-ref", path, load_graph(path))
    model = Model.load(path, exact="litert-ref")
    samples = [{"x": rng.normal(size=(1, 4, 4, 4)).astype(np.float32)} for _ in range(2)]
    assert compare_model(model, oracle, samples).same


def test_every_tensor_of_a_tflite_file_is_there():
    graph = load_graph(CNN_DIGITS)
    values = random_inputs(graph, 1, 2024)
    computed = {name for node in graph.nodes for name in node.outputs}
    shown = {
        name: open_oracle(name, CNN_DIGITS, graph)(values)
        for name in ORACLES
        if name.startswith("litert")
    }
    for name, tensors in shown.items():
        assert tensors.keys() == computed, name
        assert all(len(np.unique(tensor)) > 5 for tensor in tensors.values())
    assert (shown["litert-ref"]["stem"] != shown["litert-xnnpack"]["stem"]).any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("abacus", r"^--oracle 'abacus': must be one of litert-ref, .*, ort, ort-int8$"),
        ("ort", r"cnn_digits.tflite: --oracle ort runs .onnx files, and this is .tflite$"),
    ],
)
def test_wrong_oracles_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        open_oracle(name, CNN_DIGITS, load_graph(CNN_DIGITS))


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = r"litert-ref needs: pip install 'ai-edge-litert>="
    with pytest.raises(ValueError, match=message):
        open_oracle("litert-ref", CNN_DIGITS, load_graph(CNN_DIGITS))
