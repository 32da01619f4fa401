"""ONNX networks that ONNX Runtime must run in part: results are its own, to the bit."""

import numpy as np
import pytest

from tpulite_testing.oracles.onnx_session import open_onnx

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.partition import HostSegment, MachineSegment
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.model_tensors import equals_library

RNG = np.random.default_rng(2024)
SHAPE = (1, 8, 6, 6)


def conv(b, x, outputs=8, name=""):
    weight = RNG.integers(-127, 128, (outputs, 8, 3, 3)).astype(np.int8)
    y = b.node("Conv", x, b.weight(weight, 0.00713), pads=[1, 1, 1, 1], name=name)
    return b.quantize(y, 0.0517, -7)


def add(b, x):
    return b.quantize(b.node("Add", x, b.quantize(b.node("Relu", x), 0.0437, -9)), 0.0919, 3)


def resize(b, x):
    scales = np.array([1, 1, 2, 2], np.float32)
    y = b.node("Resize", x, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    return b.quantize(y, 0.0517, -7)


def softmax(b, x):
    return b.quantize(b.node("Softmax", x, axis=1), 1 / 256, -128)


def layer_norm(b, x):
    gamma = RNG.uniform(0.5, 1, 6).astype(np.float32)
    return b.quantize(b.node("LayerNormalization", x, gamma), 0.04, 1)


OPERATORS = {f.__name__: f for f in (add, resize, softmax, layer_norm)}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_between_convolutions(tmp_path, name):
    b = OnnxBuilder()
    x = conv(b, b.quantize(b.input("x", SHAPE), 0.0517, -7))
    y = conv(b, OPERATORS[name](b, x), 7)
    model = equals_library(tmp_path, b.build(y), "ort-int8")
    sides = [type(segment) for segment in model.segments]
    host, machine = HostSegment, MachineSegment
    assert sides == [host, machine, host, machine, host]
    assert model.crossings == 4 + (name == "add")  # both of its operands
    save_model(model, tmp_path / "net.tpulite")
    again = load_model_file(tmp_path / "net.tpulite")
    inputs = random_inputs(model.graph, 1, 7)
    np.testing.assert_array_equal(again.run(inputs).output, model.run(inputs).output)


def test_networks_of_floats_are_the_librarys(tmp_path):
    b = OnnxBuilder()
    x = b.input("x", ("batch", 8, 6, 6))
    y = b.node("Conv", x, RNG.normal(size=(4, 8, 3, 3)).astype(np.float32))
    y = b.node("Flatten", b.node("InstanceNormalization", y, *np.ones((2, 4), np.float32)))
    y = b.node("Gelu", y) if b.opset >= 20 else b.node("Erf", y)
    model = equals_library(tmp_path, b.build(b.node("Softmax", y)), "ort")
    assert [type(segment) for segment in model.segments] == [HostSegment]
    assert model.host_macs == 16 * 4 * 72 and "by ONNX Runtime" in model.statement()


@pytest.mark.parametrize("activation", [("LeakyRelu", 0.3), ("HardSigmoid", 0.3, 0.4), ("Tanh",)])
def test_dense_layers_name_each_number_of_a_fused_activation(activation):
    """ONNX Runtime writes them so; convolutions have a list."""
    b = OnnxBuilder()
    x, (kind, *numbers) = b.input("x", (4, 8)), activation
    weight, bias = (RNG.normal(size=shape).astype(np.float32) for shape in ((8, 5), (5,)))
    named = {f"activation_{n}": x for n, x in zip(("alpha", "beta"), numbers, strict=False)}
    (y,) = b.outputs("FusedGemm", 1, x, weight, bias, contributed=True, activation=kind, **named)
    data, values = b.build(y, dtype="float32"), RNG.normal(size=(4, 8)).astype(np.float32)
    found = Model.load(load_onnx(data, "dense")).run({"x": values}).output
    wanted = np.asarray(open_onnx(data).run(None, {"x": values})[0])
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_shapes_that_only_the_run_knows(tmp_path):
    b = OnnxBuilder()
    x = b.input("x", (1, 9))
    nonzero = b.node("NonZero", b.node("Relu", x))
    path = tmp_path / "net.onnx"
    path.write_bytes(b.build(nonzero))
    values = np.array([[-1, 2, 0, 3, -4, 5, 0, 0, 1]], np.float32)
    (y,) = Model.load(path).run(values).outputs.values()
    np.testing.assert_array_equal(y, np.array(np.nonzero(np.maximum(values, 0))))


def test_what_it_fuses_and_then_refuses_runs_node_by_node():
    b = OnnxBuilder()
    weight = RNG.uniform(-1, 1, (2, 4, 3)).astype(np.float32)
    data = b.build(b.node("MatMul", b.input("x", (2, 3, 4)), weight))
    x = RNG.uniform(-1, 1, (2, 3, 4)).astype(np.float32)
    quantized = quantize_onnx(data, [{"x": x}])
    try:
        expected = open_onnx(quantized).run(None, {"x": x})
    except Exception as error:  # not every version, and not for all weights
        assert "QLinearMatmul" in str(error)
        expected = open_onnx(quantized, level="DISABLE_ALL").run(None, {"x": x})
    results = Model.load(load_onnx(quantized, "product")).run({"x": x})
    np.testing.assert_array_equal(results.output, expected[0])
    np.testing.assert_allclose(results.output, x @ weight, atol=0.05)
