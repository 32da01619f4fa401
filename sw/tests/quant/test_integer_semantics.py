"""Transformers that we quantize: LiteRT's integers by name, and every tensor equal to LiteRT's."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
import onnx
from onnx import helper

from tpulite.frontend.files import load_graph
from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.onnx.library import open_session
from tpulite.quant.calibrate import default_numerics, quantize_onnx
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library, chosen_numerics
from tpulite.quant.quality_onnx import measure_quality
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.graphs.onnx_encoders import OnnxEncoder
from tpulite_testing.quick_options import quick_options

ENCODERS = {
    "behind": OnnxEncoder(),
    "before": OnnxEncoder(first=True),
    "spelled": OnnxEncoder(spelled=True),
    "before, spelled": OnnxEncoder(first=True, spelled=True, masked=False),
    "axes as input": OnnxEncoder(spelled=True, opset=18, last_axis=2, masked=False),
    "positive axis": OnnxEncoder(first=True, last_axis=2, masked=False),
    "wide": OnnxEncoder(tokens=21, width=48, heads=3, masked=False),
}


def quantized(encoder: OnnxEncoder, **settings) -> tuple[bytes, list[dict[str, np.ndarray]]]:
    feeds = encoder.samples(8)
    return quantize_onnx(encoder.build(), feeds, numerics="litert-ref", **settings), feeds


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def softmax_alone() -> bytes:
    rng = np.random.default_rng(7)
    first, second = (rng.normal(size=(32, 32)).astype(np.float32) / 4 for _ in range(2))
    b = OnnxBuilder()
    shares = b.node("Softmax", b.node("MatMul", b.input("x", (1, 16, 32)), first), axis=-1)
    return b.build(b.node("MatMul", shares, second))


def test_softmax_alone_is_litert_s(tmp_path):
    rng = np.random.default_rng(8)
    feeds = [{"x": rng.normal(size=(1, 16, 32)).astype(np.float32)} for _ in range(4)]
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize_onnx(softmax_alone(), feeds, numerics="litert-ref"))
    model = Model.load(path, options=quick_options())
    assert model.crossings == 2
    oracle = open_oracle("litert-ref", path, load_graph(path))
    assert compare_model(model, oracle, feeds[:2]).same


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_crosses_at_its_ends_alone_and_equals_litert(tmp_path, kind):
    encoder = replace(ENCODERS[kind])
    data, feeds = quantized(encoder)
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    model = Model.load(path, options=quick_options())
    assert model.exactness == Exactness.LITERT_REF
    assert "numerics: litert-ref (named in the file)" in model.statement()
    assert len(model.programs) == 1
    assert model.crossings == 2 + encoder.masked
    oracle = open_oracle("litert-ref", path, load_graph(path))
    compared = compare_model(model, oracle, feeds[:2])
    assert compared.same
    assert len(compared.layers) > 30
    inside = [each for each in compared.layers if each.name not in model.graph.outputs]
    assert all(each.elements for each in inside)


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_file_means_the_same_to_other_tools(tmp_path, kind):
    encoder = replace(ENCODERS[kind])
    data, feeds = quantized(encoder)
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    graph = load_graph(path)
    found = open_oracle("litert-ref", path, graph)(feeds[0])[graph.outputs[0]]
    other = open_session(data, "DISABLE_ALL").run(None, feeds[0])[0]
    assert cosine(found, other) > 0.999


@pytest.mark.parametrize("first", [False, True])
def test_a_large_channel_leaves_the_others_their_bits(first):
    encoder = OnnxEncoder(first=first, outlier=60.0)
    float_file, feeds = encoder.build(), encoder.samples(8)
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    (output,) = measure_quality(float_file, data, feeds).outputs
    assert output.cosine > 0.98


def test_an_input_can_be_part_of_a_stream():
    encoder = OnnxEncoder(straight=True, masked=False, outlier=60.0)
    float_file, feeds = encoder.build(), encoder.samples(8)
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    (output,) = measure_quality(float_file, data, feeds).outputs
    assert output.cosine > 0.98


def test_tensors_that_mean_something_else_are_not_measured():
    encoder = OnnxEncoder(outlier=60.0)
    float_file, feeds = encoder.build(), encoder.samples(8)
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    quality = measure_quality(float_file, data, feeds)
    assert {"MatMul", "Softmax"} <= {each.operator for each in quality.tensors}
    assert "LayerNormalization" not in {each.operator for each in quality.tensors}


def test_a_file_has_the_numerics_that_it_names():
    data, _ = quantized(ENCODERS["behind"])
    graph = load_onnx(data, "net")
    assert chosen_numerics(graph) == Exactness.LITERT_REF
    assert chosen_numerics(graph, "ort") == Exactness.ORT
    model = onnx.load_model_from_string(data)
    del model.metadata_props[:]
    assert chosen_numerics(load_onnx(model.SerializeToString(), "net")) == Exactness.ORT
    helper.set_model_props(model, {"tpulite.numerics": "abacus"})
    with pytest.raises(ValueError, match="asks for numerics 'abacus'"):
        chosen_numerics(load_onnx(model.SerializeToString(), "net"))


def test_functions_have_their_names_with_litert_alone():
    data, _ = quantized(ENCODERS["spelled"])
    graph = load_onnx(data, "net")
    named = as_library(graph, Exactness.LITERT_REF)
    count = sum(node.op == "expression" for node in graph.nodes)
    assert count == 3
    assert not any(node.op == "expression" for node in named.nodes)
    assert sum(node.op == "rsqrt" for node in named.nodes) == 2
    (gelu,) = (node for node in named.nodes if node.op == "gelu")
    assert gelu["approximate"]


def test_transformers_get_integers_by_default_and_others_do_not():
    assert default_numerics(ENCODERS["before"].build()) == "litert-ref"
    assert default_numerics(softmax_alone()) == "litert-ref"
    b = OnnxBuilder()
    x = b.node("MatMul", b.input("x", (1, 8)), np.ones((8, 4), np.float32))
    assert default_numerics(b.build(b.node("Softmax", x))) == "ort"


@pytest.mark.parametrize(("axes", "numerics"), [(1, "litert-ref"), (2, "litert-ref"), (3, "ort")])
def test_transposed_convolutions_get_integers_by_default(axes, numerics):
    """ONNX Runtime computes them in floats, even between quantized tensors."""
    b, rng = OnnxBuilder(), np.random.default_rng(axes)
    first, second = (rng.normal(size=(8, 8, *[3] * axes)).astype(np.float32) for _ in range(2))
    x = b.node("Conv", b.input("x", (1, 8, *[5] * axes)), first)
    data = b.build(b.node("ConvTranspose", b.node("Relu", x), second, strides=[2] * axes))
    assert default_numerics(data) == numerics
    if numerics == "litert-ref":
        feeds = [{"x": rng.normal(size=(1, 8, *[5] * axes)).astype(np.float32)} for _ in range(4)]
        model = Model.load(load_onnx(quantize_onnx(data, feeds, numerics=numerics), "net"))
        assert model.macs and not model.host_macs


def test_numerics_must_be_known():
    with pytest.raises(ValueError, match="numerics must be one of ort, litert-ref, not 'tosa'"):
        quantize_onnx(softmax_alone(), [np.zeros((1, 16, 32), np.float32)], numerics="tosa")
