"""Decoders that we quantize, as exporters spell them: all on the machine, every tensor LiteRT's."""

import json
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.files import load_graph
from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.states import with_states
from tpulite.quant.calibrate import default_numerics, quantize_onnx
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite.quant.place import place
from tpulite.quant.quality_onnx import measure_quality
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.graphs.onnx_decoders import CURVES, NORMS, ROTATIONS, OnnxDecoder
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import breadth

pytest_plugins = ("tpulite_testing.command_line",)

SMALL = OnnxDecoder(tokens=8, width=32, hidden=48)
NEWEST = {"RMSNormalization": 23, "RotaryEmbedding": 23, "Swish": 24}
"""Version of the operators that a form needs."""

OTHERS = {
    "axes as attribute": {"opset": 17},
    "fused": {"fused": True},
    "heads normalized": {"head_norms": True},
    "tiles": {"repeat": "Tile"},
    "one head shared": {"shared": 1},
    "nothing shared": {"shared": 4},
}
BORDER = {"quantize", "dequantize"}


def decoders() -> dict[str, OnnxDecoder]:
    """Return decoders that together have every form; each form is in one besides the usual ones."""
    usual = (SMALL.norm, SMALL.rotation, SMALL.curve, "axes as attribute")
    made = {}
    for forms in zip_longest(NORMS, ROTATIONS, CURVES, OTHERS):
        norm, rotation, curve, other = (x or y for x, y in zip(forms, usual, strict=True))
        opset = max(NEWEST.get(x, 18) for x in (norm, rotation, curve))
        made[f"{norm}; {rotation}; {curve}; {other}"] = replace(
            SMALL,
            **{"norm": norm, "rotation": rotation, "curve": curve, "opset": opset}
            | (OTHERS[other] if opset == 18 or other != "axes as attribute" else {}),
        )
    return made


DECODERS = decoders()


def on_the_cpu(data: bytes) -> set[str]:
    """Return the operators of a file that the machine does not compute."""
    graph = as_library(load_onnx(data, "net"), Exactness.LITERT_REF)
    placements = place(graph, Exactness.LITERT_REF).placements
    return {node.op for node in graph.nodes if placements[node.name].engine == "host"}


@pytest.mark.parametrize("forms", DECODERS)
def test_nothing_stays_on_the_cpu(forms):
    made = replace(DECODERS[forms])
    float_file, feeds = made.build(), made.samples(4)
    assert default_numerics(float_file) == "litert-ref"
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    assert on_the_cpu(data) == BORDER
    (output,) = measure_quality(float_file, data, made.samples(2)).outputs
    assert output.cosine > 0.98


@pytest.mark.parametrize(
    "forms", [next(iter(DECODERS)), *breadth("forms become one", *[*DECODERS][1:])]
)
def test_every_tensor_is_litert_s(forms, tmp_path):
    made = replace(DECODERS[forms])
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize_onnx(made.build(), made.samples(4), numerics="litert-ref"))
    model = Model.load(path, options=quick_options())
    assert (model.crossings, len(model.programs)) == (2, 1)
    oracle = open_oracle("litert-ref", path, load_graph(path))
    compared = compare_model(model, oracle, made.samples(1))
    assert compared.same
    assert len(compared.layers) > 60


@pytest.mark.parametrize("angles", ["table", *breadth("floats before the machine", "product")])
def test_tokens_follow_each_other_with_keys_and_values_as_states(angles, tmp_path):
    made = replace(SMALL, tokens=1, window=8, angles=angles)
    float_file = made.build()
    feeds = made.sequence(float_file, 14)
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    outputs = measure_quality(float_file, data, feeds).outputs
    assert min(output.cosine for output in outputs) > 0.98
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    graph = with_states(load_graph(path), [*made.states.items()])
    model = Model.load(graph, options=quick_options())
    assert len(model.programs) == 1
    assert model.crossings == 4 + 1 + 2 * len(made.states)  # x, mask, cosines, sines; the result
    frames = [{name: feed[name] for name in model.graph.inputs} for feed in feeds]
    compared = compare_model(model, open_oracle("litert-ref", path, graph), frames)
    assert compared.same
    assert compared.inputs > made.window


def test_what_a_concatenation_joins_has_its_scale_and_is_rounded_once():
    made = replace(SMALL, tokens=1, window=8)
    float_file = made.build()
    data = quantize_onnx(float_file, made.sequence(float_file, 10), numerics="litert-ref")
    graph = load_onnx(data, "net")
    assert sum(node.op == "concat" for node in graph.nodes) == 2
    assert not any(node.op == "requantize" for node in graph.nodes)


def test_no_tensor_is_blamed_for_another_meaning():
    made = replace(SMALL)
    float_file, feeds = made.build(), made.samples(4)
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    tensors = measure_quality(float_file, data, feeds).tensors
    assert {"MatMul", "Softmax", "Sigmoid"} <= {each.operator for each in tensors}
    assert min(each.decibels for each in tensors) > 15


@pytest.mark.parametrize("straight", [False, True])
def test_large_channels_leave_the_others_their_bits(straight):
    made = replace(SMALL, outlier=40.0, straight=straight)
    float_file, feeds = made.build(), made.samples(8)
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    (output,) = measure_quality(float_file, data, made.samples(4)).outputs
    assert output.cosine > 0.98


@pytest.mark.parametrize("straight", [False, True])
def test_rows_of_zeros_leave_the_roots_of_others_their_bits(straight):
    made = replace(SMALL, straight=straight)
    float_file, feeds = made.build(), made.samples(4)
    for feed in feeds:
        feed["x"][:, 2] = 0
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    (output,) = measure_quality(float_file, data, feeds).outputs
    assert output.cosine > 0.98


def test_commands_take_a_decoder_from_floats_to_cycles(tpulite, tmp_path):
    made = OnnxDecoder(outlier=20.0)
    (tmp_path / "net.onnx").write_bytes(made.build())
    np.save(tmp_path / "x.npy", np.concatenate([feed["x"] for feed in made.samples(8)]))
    code, _, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy", "--json", "q.json")
    assert (code, err) == (0, "")
    (output,) = json.loads((tmp_path / "q.json").read_text())["outputs"]
    assert output["cosine"] > 0.98
    code, out, _ = tpulite("inspect", "net.int8.onnx")
    assert (code, "2 tensors move between CPU and machine" in out) == (0, True)
    code, out, _ = tpulite("profile", "net.int8.onnx")
    assert (code, "cycle model" in out) == (0, True)
    code, out, _ = tpulite("compare", "net.int8.onnx", "--limit", "1")
    assert (code, "every bit is the same" in out) == (0, True)


def test_a_normalization_of_an_input_keeps_its_factors_and_addends():
    rng = np.random.default_rng(3)
    b = OnnxBuilder()
    x = b.input("x", (1, 5, 16))
    centered = b.node("Sub", x, b.node("ReduceMean", x, axes=[-1]))
    square = b.node("Mul", centered, centered)
    variance = b.node("Add", b.node("ReduceMean", square, axes=[-1]), np.float32(1e-5))
    y = b.node("Div", centered, b.node("Sqrt", variance))
    gamma, beta, weight = (rng.normal(size=n).astype(np.float32) for n in (16, 16, (16, 16)))
    y = b.node("Add", b.node("Mul", y, gamma), beta)
    float_file = b.build(b.node("MatMul", y, weight), dtype="float32")
    feeds = [{"x": rng.normal(size=(1, 5, 16)).astype(np.float32)} for _ in range(8)]
    data = quantize_onnx(float_file, feeds, numerics="litert-ref")
    (output,) = measure_quality(float_file, data, feeds).outputs
    assert output.cosine > 0.999
