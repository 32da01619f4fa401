"""Float ONNX files that others made: what ``quantize`` says of values that cannot be."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import TensorProto

from tpulite.frontend.given_shapes import GivenShapes
from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.quality import OutputSums
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.hostile.floats import float_networks

pytest_plugins = ("tpulite_testing.command_line",)

RATE = GivenShapes(values={"rate": 16_000})


@pytest.fixture
def branches():
    (whole,) = (each for each in float_networks() if each.name == "branches.onnx")
    return onnx.load_model_from_string(whole.data)


def read(model):
    load_onnx(model.SerializeToString(), "branches", RATE)


@pytest.mark.parametrize(
    ("kind", "extents", "message"),
    [
        (TensorProto.UNDEFINED, [], "the input is of no type"),
        (999, [], "the input is of the unknown type 999"),
        (TensorProto.COMPLEX64, [], "the input is complex"),
        (TensorProto.INT64, [2**20, 2**20], "the input has 1,099,511,627,776 elements"),
    ],
)
def test_numbers_are_set_where_there_are_some(branches, kind, extents, message):
    rate = branches.graph.input[1].type.tensor_type
    rate.elem_type = kind
    for extent in extents:
        rate.shape.dim.add().dim_value = extent
    with pytest.raises(ValueError, match=f"--set rate=16000: {message}"):
        read(branches)


def test_a_branch_without_a_condition_is_refused(branches):
    del branches.graph.node[1].input[:]
    with pytest.raises(ValueError, match=r"not a valid ONNX model: Node\(if\).* has input size 0"):
        read(branches)


@pytest.mark.parametrize("branch", [0, 1])
def test_weights_in_branches_are_in_the_file_and_whole(branches, branch):
    graph = branches.graph.node[1].attribute[branch].g
    weight = graph.initializer[0]
    weight.data_location = TensorProto.EXTERNAL
    with pytest.raises(ValueError, match="Tensor 'w' lies in another file"):
        read(branches)
    weight.data_location = TensorProto.DEFAULT
    graph.sparse_initializer.add().values.name = "few"
    with pytest.raises(ValueError, match="Tensor 'few' is sparse"):
        read(branches)


def quantized(tpulite, tmp_path, *outputs: str, b: OnnxBuilder) -> str:
    """Quantize, which must be refused; return the message."""
    (tmp_path / "net.onnx").write_bytes(b.build(*outputs))
    np.save(tmp_path / "x.npy", np.full((2, 1, 4), -1, np.float32))
    code, _, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy", "-o", "out.onnx")
    assert code == 2 and len(err.splitlines()) == 1 and not (tmp_path / "out.onnx").exists()
    return err


def test_weights_that_are_nan_are_refused(tpulite, tmp_path):
    b = OnnxBuilder()
    y = b.node("MatMul", b.input("x", (1, 4)), np.full((4, 4), np.nan, np.float32))
    assert "net.onnx: Tensor 'c0' has elements that are NaN" in quantized(tpulite, tmp_path, y, b=b)


def test_outputs_that_are_nan_in_floats_are_refused(tpulite, tmp_path):
    b = OnnxBuilder()
    y = b.node("MatMul", b.input("x", (1, 4)), np.eye(4, dtype=np.float32))
    root = b.node("Sqrt", y)
    message = f"output {root!r} is NaN before quantization"
    assert message in quantized(tpulite, tmp_path, y, root, b=b)


def test_an_infinite_output_loses_everything():
    sums = OutputSums()
    sums.add(np.float32([1, -np.inf]), np.float32([1, -4]), classes=False)
    assert sums.result("y").cosine == 0
