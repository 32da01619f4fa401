"""Weights whose errors make up for each other, by the inputs that samples have."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import numpy_helper

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats import quantizer
from tpulite.quant.int4 import compensated, damped
from tpulite.quant.moments import Multiplied, moments_of
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.onnx_session import open_onnx

ENDS = -127, 127


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def file_of(kind: str, x: tuple[int, ...], weight: np.ndarray, **fields) -> bytes:
    b = OnnxBuilder()
    return b.build(b.node(kind, b.input("x", x), weight, **fields))


FORMS = {
    "strides": ("Conv", (1, 3, 9, 8), (4, 3, 3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    "dilations": ("Conv", (2, 3, 9, 8), (4, 3, 3, 2), {"strides": [2, 3], "dilations": [1, 2]}),
    "depthwise": ("Conv", (1, 4, 6, 5), (8, 1, 3, 3), {"group": 4}),
    "groups": ("Conv", (1, 4, 6, 5), (6, 2, 3, 3), {"group": 2, "auto_pad": "SAME_LOWER"}),
    "auto_pad": (
        "Conv",
        (1, 3, 7, 10),
        (4, 3, 2, 4),
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "one axis": ("Conv", (1, 3, 17), (4, 3, 5), {"pads": [2, 2]}),
    "three axes": ("Conv", (1, 2, 4, 3, 5), (3, 2, 2, 2, 3), {}),
    "Gemm": ("Gemm", (5, 7), (7, 4), {}),
    "transB": ("Gemm", (5, 7), (4, 7), {"transB": 1}),
    "transA": ("Gemm", (7, 5), (7, 4), {"transA": 1}),
    "MatMul": ("MatMul", (2, 5, 7), (7, 4), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_moments_are_those_of_what_the_library_multiplies(form):
    kind, shape, extents, fields = FORMS[form]
    rng = np.random.default_rng(1)
    weight, samples = drawn(rng, *extents), [{"x": drawn(rng, *shape)} for _ in range(11)]
    data = file_of(kind, shape, weight, **fields)
    model = onnx.load_model_from_string(data)
    (node,) = model.graph.node
    product = Multiplied(node, node.input[1], extents)
    moments = moments_of(model, [product], samples)[product.weight]
    matrix = product.matrix(weight).reshape(len(moments), -1, product.columns)
    session, wanted = open_onnx(data), np.zeros(())
    for sample in samples:
        y = np.moveaxis(session.run(None, sample)[0], 1 if kind == "Conv" else -1, 0)
        groups = y.reshape(len(moments), -1, y[0].size).astype(np.float64)
        assert groups.shape[2] <= 64  # all outputs count
        wanted = wanted + groups @ groups.transpose(0, 2, 1)
    found = matrix @ moments @ matrix.transpose(0, 2, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_integers_lose_less_of_products_and_stay_between_the_ends():
    rng = np.random.default_rng(3)
    mix = drawn(rng, 12, 150)
    inputs, others = (drawn(rng, 2000, 12) @ mix + drawn(rng, 2000, 150) / 9 for _ in range(2))
    weight = rng.normal(size=(20, 150))
    scale = np.abs(weight).max(axis=1) / 127
    moments = damped(inputs.T.astype(np.float64) @ inputs)
    rows = compensated(weight, scale, moments, ENDS)
    assert np.array_equal(rows, np.rint(rows)) and np.abs(rows).max() <= 127
    plain = np.rint(weight / scale[:, None])
    errors = [np.linalg.norm((x * scale[:, None] - weight) @ others.T) for x in (rows, plain)]
    assert 3 * errors[0] < errors[1]


def test_weights_that_are_integers_stay():
    rng = np.random.default_rng(4)
    integers = rng.integers(-127, 128, (5, 90)).astype(np.float64)
    scale, inputs = rng.uniform(0.1, 2, 5), rng.normal(size=(300, 90))
    rows = compensated(integers * scale[:, None], scale, damped(inputs.T @ inputs), ENDS)
    np.testing.assert_array_equal(rows, integers)


def network(rng: np.random.Generator) -> bytes:
    def weight(*shape: int) -> np.ndarray:
        return drawn(rng, *shape) / np.float32(np.prod(shape[1:]) ** 0.5)

    b = OnnxBuilder()
    y = b.input("x", (1, 6, 10, 10))
    y = b.node("Relu", b.node("Conv", y, weight(24, 6, 3, 3), weight(24), pads=[1, 1, 1, 1]))
    y = b.node("Conv", y, weight(24, 1, 3, 3), weight(24), group=24, strides=[2, 2])
    y = b.node("Relu", b.node("Gemm", b.node("Flatten", y), weight(384, 48), weight(48)))
    return b.build(b.node("MatMul", y, weight(48, 10)))


def smooth(rng: np.random.Generator, count: int) -> np.ndarray:
    """Pictures whose pixels and channels are much like those beside them."""
    return (drawn(rng, count, 1, 2, 300) @ SMOOTH).reshape(count, 1, 6, 10, 10)


SMOOTH = np.cumsum(drawn(np.random.default_rng(9), 300, 300), axis=1) / np.float32(200)


def with_weights(data: bytes, floats: bytes, *, rounded: bool) -> bytes:
    """Return a QDQ file with float weights, which were perhaps rounded one by one."""
    model = onnx.load_model_from_string(data)
    real = {
        x.name: numpy_helper.to_array(x)
        for x in onnx.load_model_from_string(floats).graph.initializer
    }
    values = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    for node in list(model.graph.node):
        name = node.input[0].removesuffix("_quantized")
        if node.op_type != "DequantizeLinear" or name not in real or real[name].ndim < 2:
            continue
        axis = next((x.i for x in node.attribute if x.name == "axis"), 0)
        scale = values[node.input[1]].reshape(-1, *[1] * (real[name].ndim - 1 - axis))
        weight = np.rint(real[name] / scale) * scale if rounded else real[name]
        model.graph.node.remove(node)
        model.graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
    return model.SerializeToString()


def test_a_quantized_network_loses_less_by_its_weights():
    rng = np.random.default_rng(5)
    floats, samples, others = network(rng), smooth(rng, 48), smooth(rng, 32)
    data = quantize_onnx(floats, samples)
    files = [with_weights(data, floats, rounded=x) for x in (False, True)]
    real, plain, found = (open_onnx(each) for each in (*files, data))

    def outputs(session) -> np.ndarray:
        return np.concatenate([session.run(None, {"x": x})[0] for x in others])

    wanted = outputs(real)
    lost, before = (np.linalg.norm(outputs(x) - wanted) for x in (found, plain))
    assert 1.3 * lost < before


@pytest.mark.parametrize("per_channel", [True, False])
def test_constants_that_others_read_too_keep_their_nearest_integers(per_channel):
    rng = np.random.default_rng(6)
    b = OnnxBuilder()
    weight = drawn(rng, 40, 40)
    shared = b.constant(weight)
    x = b.input("x", (40, 40))
    data = b.build(b.node("MatMul", x, shared), b.node("Add", x, shared))
    samples = drawn(rng, 20, 40, 8) @ drawn(rng, 8, 40)
    found = quantize_onnx(data, samples, per_channel=per_channel)
    values = {
        x.name: numpy_helper.to_array(x)
        for x in onnx.load_model_from_string(found).graph.initializer
    }
    scale = values[f"{shared}_scale"]
    np.testing.assert_array_equal(values[f"{shared}_quantized"], np.rint(weight / scale))


@pytest.mark.parametrize("groups", [(1, 2), (2, 1)])
def test_weights_that_are_read_in_other_groups_keep_their_nearest_integers(groups):
    rng = np.random.default_rng(8)
    b = OnnxBuilder()
    weight = drawn(rng, 8, 4, 3, 3)
    shared, y = b.constant(weight), b.input("x", (1, 8, 12, 12))
    for group in groups:
        x = y if group == 2 else b.node("Slice", y, *(np.array([i]) for i in (0, 4, 1)))
        y = b.node("Conv", x, shared, group=group)
    found = quantize_onnx(b.build(y), drawn(rng, 20, 1, 8, 12, 12))
    values = {
        x.name: numpy_helper.to_array(x)
        for x in onnx.load_model_from_string(found).graph.initializer
    }
    scale = values[f"{shared}_scale"].reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(values[f"{shared}_quantized"], np.rint(weight / scale))


def test_weights_that_lose_more_of_the_outputs_are_not_taken(monkeypatch):
    rng = np.random.default_rng(7)
    b = OnnxBuilder()
    floats = b.build(b.node("MatMul", b.input("x", (1, 40)), drawn(rng, 40, 9)))
    samples = drawn(rng, 20, 1, 40)

    def quantized(change) -> bytes:
        monkeypatch.setattr(quantizer, "compensate_weights", lambda data, *_: change(data))
        return quantize_onnx(floats, samples)

    def without_weights(data: bytes) -> bytes:
        model = onnx.load_model_from_string(data)
        for tensor in model.graph.initializer:
            if tensor.name.endswith("_quantized"):
                zeros = np.zeros_like(numpy_helper.to_array(tensor))
                tensor.CopyFrom(numpy_helper.from_array(zeros, tensor.name))
        return model.SerializeToString()

    assert without_weights(quantized(bytes)) != quantized(bytes) == quantized(without_weights)
