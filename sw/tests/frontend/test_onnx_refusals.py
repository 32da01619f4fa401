"""What an ONNX file cannot be: each refusal is one sentence that names the tensor or node."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.frontend.onnx.file import load_onnx
from tpulite_testing.files.onnx_builder import OnnxBuilder


def quantized(scale=0.1, zero_point=3, channels=()) -> bytes:
    b = OnnxBuilder()
    parameters = np.full(channels, scale, np.float32), np.full(channels, zero_point, np.int8)
    y = b.node("QuantizeLinear", b.input("x", (1, 4)), *parameters, name="q", axis=1)
    return b.build(b.node("DequantizeLinear", y, *parameters, axis=1))


def changed(data: bytes, change) -> bytes:
    model = onnx.load_model_from_string(data)
    change(model)
    return model.SerializeToString()


def refusal(data: bytes) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        load_onnx(data, "net")
    return str(caught.value)


def test_a_file_of_something_else():
    assert refusal(b"PK\x03\x04 something else").startswith("not an ONNX file")
    assert refusal(b"").startswith("not an ONNX file")


def test_every_truncation_is_refused_or_read():
    data = quantized()
    for length in range(0, len(data), 3):
        try:
            load_onnx(data[:length], "net")
        except ValueError as error:
            assert str(error)


def test_every_damaged_byte_is_refused_or_read():
    data = quantized()
    for position in range(0, len(data), 2):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        try:
            load_onnx(bytes(damaged), "net")
        except ValueError as error:
            assert str(error)


def test_names_of_attributes_must_be_text():
    b = OnnxBuilder()
    data = b.build(b.node("Odd", b.input("x", (1, 2)), curious=3))
    with pytest.raises(ValueError, match=r"or a damaged one: "):
        load_onnx(data.replace(b"curious", b"\xff\xfe\xfdious"), "net")


@pytest.mark.parametrize("scale", [np.nan, 0, -1, np.inf])
def test_scales_that_mean_nothing(scale):
    graph = load_onnx(quantized(scale), "net")
    reason = "its type is not an integer, or its scales are computed at run time or not positive"
    assert {node["reason"] for node in graph.nodes if node.op == "unsupported"} == {reason}


def test_scales_for_other_channels():
    assert refusal(quantized(channels=(3,))) == (
        "Tensor 'x' of shape [1, 4] has 3 scales along axis 1"
    )


def test_missing_scales():
    def change(model):
        del model.graph.node[0].input[1:]

    assert refusal(changed(quantized(), change)).startswith("not a valid ONNX model: Node(q)")


def test_weights_in_another_file():
    def change(model):
        tensor = model.graph.initializer[0]
        tensor.data_location = onnx.TensorProto.EXTERNAL

    assert refusal(changed(quantized(), change)) == (
        "Tensor 'c0' lies in another file; save the model with its weights inside"
    )


def test_constants_of_another_size():
    def change(model):
        model.graph.initializer[0].raw_data = b"123"

    assert "c0" in refusal(changed(quantized(), change))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (("n", "width"), "nxwidth; give it with --shape x=1x64 or --dim width=64"),
        ((1, "h", "w"), "1xhxw; give it with --shape x=1x64x64 or --dim h=64 --dim w=64"),
        (("n", "h", "h"), "nxhxh; give it with --shape x=1x64x64 or --dim h=64"),
        ((1, -1), "1x?; give it with --shape x=1x64"),
        ((2, "h", -1), "2xhx?; give it with --shape x=2x64x64"),
    ],
)
def test_inputs_of_open_shape(shape, text):
    b = OnnxBuilder()
    data = b.build(b.node("Relu", b.input("x", shape)))
    assert refusal(data) == f"input 'x' has the shape {text}"


def test_inputs_without_a_shape():
    def change(model):
        model.graph.input[0].type.tensor_type.ClearField("shape")

    assert refusal(changed(quantized(), change)) == (
        "input 'x' has no shape; give it, like --shape x=1x3x64x64"
    )


def test_absurd_shapes():
    b = OnnxBuilder()
    y = b.node("Relu", b.input("x", (1, 1 << 20, 1 << 20)))
    assert refusal(b.build(y)).endswith("has the impossible shape [1, 1048576, 1048576]")


def test_shapes_that_do_not_fit():
    b = OnnxBuilder()
    x = b.input("x", (1, 3, 8, 8))
    y = b.node("Conv", x, np.zeros((4, 3, 3, 3), np.float32), name="first")

    def change(model):
        model.graph.initializer[0].dims[1] = 2
        model.graph.initializer[0].raw_data = np.zeros((4, 2, 3, 3), np.float32).tobytes()

    message = refusal(changed(b.build(y), change))
    assert message.startswith("Node 'first': 1 groups of kernels [4, 2, 3, 3] do not fit")


def test_windows_that_do_not_fit():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 3, 8, 8)), np.zeros((4, 3, 1, 1), np.float32), name="c")

    def change(model):
        model.graph.initializer[0].dims[3] = 9
        model.graph.initializer[0].raw_data = np.zeros((4, 3, 1, 9), np.float32).tobytes()
        model.graph.output[0].type.tensor_type.ClearField("shape")

    assert "8" in refusal(changed(b.build(y), change))


@pytest.mark.parametrize("opset", [0, 99])
def test_versions_that_nobody_knows(opset):
    def change(model):
        model.opset_import[0].version = opset

    message = refusal(changed(quantized(), change))
    assert message.startswith("Opset of an ONNX model must be from 7 to ")
    assert message.endswith(f", not {opset}")


def test_files_of_a_later_format():
    def change(model):
        model.ir_version = 99

    assert refusal(changed(quantized(), change)).startswith("The ONNX file has IR version 99;")


def test_inputs_that_are_not_tensors():
    def change(model):
        kind = onnx.helper.make_tensor_sequence_value_info("x", onnx.TensorProto.FLOAT, None)
        model.graph.input[0].CopyFrom(kind)

    assert refusal(changed(quantized(), change)) == "Input 'x' is not a tensor"


def test_tensors_that_nothing_computes():
    def change(model):
        model.graph.node[0].input[0] = "nothing"

    assert "nothing" in refusal(changed(quantized(), change))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_constants_that_unfold_to_much_more_than_the_file(dtype):
    b = OnnxBuilder()
    y = b.constant(np.ones(1, dtype))
    for number in range(26):
        y = b.node("Concat", y, y, axis=0, name=f"twice{number}")
    data = b.build(
        b.node("Add", b.input("x", (1, 4), np.dtype(dtype).name), b.node("ReduceMax", y))
    )
    assert len(data) < 2000
    last = {4: 21, 8: 20}[np.dtype(dtype).itemsize]
    message = f"node 'twice{last}' (Concat): constants computed by the network exceed"
    assert refusal(data).startswith(message)
