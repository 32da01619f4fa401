"""Networks that reduce extents which a file fixes: bound with the library's bits, or refused."""

from pathlib import Path

import numpy as np
import pytest

from tpulite_testing.oracles.onnx_session import open_onnx

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.tflite_builder import Builder

pytest_plugins = ("tpulite_testing.command_line",)


def onnx_file(shape, operator: str, **attributes) -> bytes:
    """Return a file of a BatchNormalization and a reduction."""
    b = OnnxBuilder()
    x = b.node("DequantizeLinear", b.input("x", shape, "uint8"), np.float32(0.05), np.uint8(131))
    parameters = np.array([[1.5, -0.7, 0.4], [0, 0.3, -1], [0.1, 0, 0.2], [1, 2, 3]], np.float32)
    y = b.node("BatchNormalization", x, *parameters)
    y = b.node(operator, b.quantize(y, 0.06, 120, "uint8"), **attributes)
    return b.build(b.node("QuantizeLinear", y, np.float32(0.04), np.uint8(125)))


def by_onnx_runtime(data: bytes, x: np.ndarray) -> np.ndarray:
    session = open_onnx(data)
    (y,) = session.run(None, {"x": np.ascontiguousarray(x.transpose(0, 3, 1, 2))})
    return np.asarray(y).transpose(0, 2, 3, 1)


def bound(name: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Run a program; return its input and its output."""
    program = Program.load(name)
    (spec,) = program.inputs
    assert spec.dtype == dtype
    x = np.random.default_rng(1).integers(0, 256, spec.shape).astype(np.uint8).view(dtype)
    y = Session(program).run(x).output
    return (x, y) if x.ndim == 4 else (x[np.newaxis], y[np.newaxis])


@pytest.mark.parametrize(
    ("operator", "attributes", "title"),
    [
        ("GlobalAveragePool", {}, "GlobalAveragePool_4"),
        ("ReduceMax", {"axes": [2], "keepdims": 1}, "ReduceMax_4"),
    ],
)
def test_fixed_extents_that_are_reduced_are_not_bound_to_others(
    tpulite, operator, attributes, title
):
    Path("net.onnx").write_bytes(onnx_file(("N", 3, 4, 6), operator, **attributes))
    assert tpulite("bind", "net.onnx", "1x8x6", "2x4x6") == (
        2,
        "",
        f"tpulite: 1x8x6: Layer {title!r} reduces 4 x 6 positions in the file, not 8 x 6; use a "
        "file whose dimensions have names\n",
    )
    assert not list(Path().glob("*.tpu"))
    data = onnx_file(("N", 3, "H", "W"), operator, **attributes)
    Path("open.onnx").write_bytes(data)
    for name, shape in (("net", "2x4x6"), ("open", "1x8x6")):
        assert tpulite("bind", f"{name}.onnx", shape)[0] == 0
        x, y = bound(f"{name}_{shape}.tpu", "uint8")
        np.testing.assert_array_equal(y, by_onnx_runtime(data, x))


@pytest.mark.parametrize(
    ("shape", "operator", "attributes"),
    [
        ("1x7x9", "GlobalMaxPool", {}),
        ("1x4x9", "ReduceMax", {"axes": [2], "keepdims": 1}),
    ],
)
def test_maxima_follow_extents_that_they_cover_or_leave(tpulite, shape, operator, attributes):
    Path("net.onnx").write_bytes(onnx_file((1, 3, 4, 6), operator, **attributes))
    assert tpulite("bind", "net.onnx", shape)[0] == 0
    x, y = bound(f"net_{shape}.tpu", "uint8")
    due = by_onnx_runtime(onnx_file((1, 3, "H", "W"), operator, **attributes), x)
    np.testing.assert_array_equal(y, due)


@pytest.mark.parametrize("alone", [False, True])
def test_a_shape_that_is_given_reads_a_tflite_file_anew(tpulite, alone):
    b = Builder()
    x = b.input((1, 4, 6, 3), 0.05, -3)
    weight = np.random.default_rng(1).integers(-127, 128, (5, 3, 3, 3)).astype(np.int8)
    y = x if alone else b.conv(x, weight, [9] * 5, weight_scale=0.01, scale=0.03, zero_point=7)
    data = b.build(b.mean(y, scale=0.01, zero_point=2, keep_dims=True))
    Path("net.tflite").write_bytes(data)
    code, out, err = tpulite("bind", "net.tflite", "1x8x12")
    given = err.partition("; give ")[2].split()
    assert (code, out, given[0]) == (2, "", "--shape")
    assert "reduces 4 x 6 positions in the file, not 8 x 12" in err
    code, _, err = tpulite("bind", "net.tflite", "1x8x12", *given)
    assert (code, err) == (0, "")
    image, got = bound("net_1x8x12.tpu", "int8")
    run = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    (source,), (target,) = run.get_input_details(), run.get_output_details()
    run.resize_tensor_input(source["index"], image.shape)
    run.allocate_tensors()
    run.set_tensor(source["index"], image)
    run.invoke()
    np.testing.assert_array_equal(got, run.get_tensor(target["index"]))


def test_a_mean_alone_is_no_range_for_c(tpulite):
    b = Builder()
    data = b.build(b.mean(b.input((1, 4, 6, 3), 0.05, -3), scale=0.04, keep_dims=True))
    Path("net.tflite").write_bytes(data)
    code, out, err = tpulite("export", "net.tflite", "--shapes", "height=4..8", "-o", "c")
    assert (code, out) == (2, "")
    assert "reduces 4 x 6 positions in the file, not 8 x 6" in err
