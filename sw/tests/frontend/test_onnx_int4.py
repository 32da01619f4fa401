"""Weights of 4 bits in ONNX files that the quantizer writes."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import TensorProto

from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.int4 import int4_rows
from tpulite.quant.int4_onnx import int8_weights
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.onnx_session import open_onnx
from tpulite_testing.quick_options import quick_options


def network(rng: np.random.Generator) -> bytes:
    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32) / np.float32(np.prod(shape[1:]) ** 0.5)

    b = OnnxBuilder()
    y = b.input("x", (1, 3, 9, 8))
    y = b.node("Relu", b.node("Conv", y, drawn(8, 3, 3, 3), drawn(8), pads=[1, 1, 1, 1]))
    y = b.node("Relu", b.node("Conv", y, drawn(16, 8, 3, 2), strides=[2, 1], dilations=[1, 2]))
    y = b.node("Relu", b.node("Gemm", b.node("Flatten", y), drawn(384, 24), drawn(24)))
    return b.build(b.node("MatMul", y, drawn(24, 10)))


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(24, 1, 3, 9, 8)).astype(np.float32)


@pytest.mark.parametrize("per_channel", [True, False])
def test_the_file_is_small_and_runs_on_the_machine(samples, per_channel):
    floats = network(np.random.default_rng(0))
    data = quantize_onnx(floats, samples, int4=True, per_channel=per_channel)
    model = onnx.load_model_from_string(data)
    narrow = [x for x in model.graph.initializer if x.data_type == TensorProto.INT4]
    assert len(narrow) == 4 and not int8_weights(model)
    loaded = Model.load(load_onnx(data, "net"), options=quick_options())
    products = [each for each in loaded.summary() if each.macs]
    assert len(products) == 4 and {each.where for each in products} == {"MXU"}
    session, real = open_onnx(data), open_onnx(floats)
    for sample in samples:
        runs = (each.run(None, {"x": sample}) for each in (session, real))
        found, wanted = (np.asarray(run[0]) for run in runs)
        name = loaded.graph.outputs[0]
        np.testing.assert_array_equal(loaded.reference({"x": sample})[name].reshape(1, 10), found)
        cosine = (found * wanted).sum() / np.linalg.norm(found) / np.linalg.norm(wanted)
        assert cosine > (0.98 if per_channel else 0.95)


def test_weights_that_lose_most_keep_int8(samples):
    floats = network(np.random.default_rng(0))
    files = [quantize_onnx(floats, samples, int4=True, min_cosine=x) for x in (0.99, 0.9995)]
    few, many = (int8_weights(onnx.load_model_from_string(data)) for data in files)
    assert len(few) < len(many)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_files_without_products_stay_as_they_are():
    b = OnnxBuilder()
    data = b.build(b.node("Add", b.input("x", (1, 8)), drawn(8)))
    model = onnx.load_model_from_string(quantize_onnx(data, drawn(6, 1, 8), int4=True))
    assert TensorProto.INT4 not in {x.data_type for x in model.graph.initializer}


def test_outputs_may_be_inputs_of_products():
    b = OnnxBuilder()
    y = b.node("Gemm", b.input("x", (1, 8)), drawn(8, 6), drawn(6))
    data = b.build(y, b.node("Gemm", y, drawn(6, 4), drawn(4)))
    model = onnx.load_model_from_string(quantize_onnx(data, drawn(6, 1, 8), int4=True))
    assert [x.data_type for x in model.graph.initializer].count(TensorProto.INT4) == 2


def test_groups_and_batched_weights_keep_int8():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 4, 6, 6)), drawn(4, 1, 3, 3), drawn(4), group=4)
    data = b.build(b.node("MatMul", y, drawn(1, 4, 4, 5)))
    model = onnx.load_model_from_string(quantize_onnx(data, drawn(6, 1, 4, 6, 6), int4=True))
    assert TensorProto.INT4 not in {x.data_type for x in model.graph.initializer}


def test_scales_lose_no_more_than_those_of_the_largest_weight():
    rng = np.random.default_rng(3)
    weight, inputs = (
        rng.standard_t(3, (20, 50)),
        rng.normal(size=(400, 30)) @ rng.normal(size=(30, 50)),
    )
    plain = np.abs(weight).max(axis=1, keepdims=True) / 7
    lost = [np.rint(weight / plain) * plain]
    for moments in (None, inputs.T @ inputs):
        rows, scale = int4_rows(weight, moments)
        assert rows.min() >= -8 and rows.max() <= 7
        lost.append(rows * scale[:, None])
    errors = [np.linalg.norm(each - weight) for each in lost]
    assert errors[1] < errors[0]
    products = [np.linalg.norm((each - weight) @ inputs.T) for each in lost]
    assert 1.5 * products[2] < min(products[:2])
