"""LSTM, GRU and RNN of float ONNX files: what quantize writes multiplies on the machine alone."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import numpy_helper
from onnxruntime import quantization

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.recurrent.cells import MOST_STEPS
from tpulite.quant.quality_onnx import measure_quality
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.recurrent_onnx import Recurrent, recurrent_file, recurrent_samples
from tpulite_testing.oracles.model_tensors import equals_library

FORMS = {
    "lstm": Recurrent(),
    "lstm_initial": Recurrent(initial=True, batch=2, opset=18),
    "lstm_peephole": Recurrent(peephole=True, initial=True),
    "lstm_both": Recurrent(both=True, batch=2),
    "gru": Recurrent("GRU", initial=True),
    "gru_behind": Recurrent("GRU", attributes={"linear_before_reset": 1}),
    "gru_both": Recurrent(
        "GRU", both=True, initial=True, batch=3, steps=2, attributes={"linear_before_reset": 1}
    ),
    "rnn_reverse": Recurrent("RNN", initial=True, attributes={"direction": "reverse"}),
    "old_step": Recurrent(steps=1, initial=True, opset=11),
}

WHOLE = {
    "its gates are clipped": Recurrent(attributes={"clip": 2.0}),
    "its activations are not Sigmoid and Tanh": Recurrent(
        "GRU", attributes={"activations": ["HardSigmoid", "Tanh"]}
    ),
    "its input and forget gates are coupled": Recurrent(attributes={"input_forget": 1}),
    f"it has more than {MOST_STEPS} steps": Recurrent(cells=2, steps=MOST_STEPS + 1),
}

LEAST = 0.9995
"""Cosine of states to the float file, on other samples."""


def quantized(data: bytes, count: int = 16, **settings) -> bytes:
    return quantize_onnx(data, recurrent_samples(data, count), **settings)


def kinds_of(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_model_from_string(data).graph.node]


@pytest.mark.parametrize("name", FORMS)
def test_all_products_of_a_recurrence_are_the_machines(tmp_path, name):
    data = recurrent_file(FORMS[name])
    written = quantized(data)
    quality = measure_quality(data, written, recurrent_samples(data, 8, 9))
    assert not quality.recurrent
    assert all(each.cosine > LEAST for each in quality.outputs if each.output != "out")
    model = equals_library(tmp_path, written, "ort")
    assert model.host_macs == 0 and model.graph.nodes


def test_steps_share_one_program(tmp_path):
    data = recurrent_file(Recurrent(steps=6, initial=True))
    path = tmp_path / "net.onnx"
    path.write_bytes(quantized(data))
    programs = Model.load(path).compile().programs
    assert len(programs) > 6
    assert len({id(program.commands) for program in programs}) <= 3  # first, steps, head


@pytest.mark.parametrize("reason", WHOLE)
def test_other_recurrences_stay_whole_and_the_report_says_why(tmp_path, reason):
    data = recurrent_file(WHOLE[reason])
    written = quantized(data, 2)
    assert WHOLE[reason].kind in kinds_of(written) and "MatMulInteger" not in kinds_of(written)
    quality = measure_quality(data, written, recurrent_samples(data, 2))
    assert quality.recurrent == (f"cell: {reason}",)


def test_a_recurrence_rounds_its_input_as_the_product_before_it(tmp_path):
    rng = np.random.default_rng(3)
    b = OnnxBuilder()
    x = b.node("Relu", b.node("MatMul", b.input("x", (3, 1, 8)), draw(rng, 8, 8)))
    y = b.node("GRU", x, draw(rng, 1, 36, 8), draw(rng, 1, 36, 12), hidden_size=12)
    data = b.build(y, dtype="float32")
    written = quantized(data)
    assert kinds_of(written).count("MatMulInteger") == 1 + 2 * 2  # the first state is zero
    assert equals_library(tmp_path, written, "ort").host_macs == 0


def test_weights_of_one_scale(tmp_path):
    written = quantized(recurrent_file(FORMS["lstm"]), per_channel=False)
    assert equals_library(tmp_path, written, "ort").host_macs == 0


def test_weights_of_seven_bits():
    written = quantized(recurrent_file(FORMS["lstm"]), reduce_range=True)
    graph = onnx.load_model_from_string(written).graph
    read = {node.input[1] for node in graph.node if node.op_type == "MatMulInteger"}
    weights = [numpy_helper.to_array(x) for x in graph.initializer if x.name in read]
    assert {np.abs(each).max() for each in weights} == {64}


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(scale=0.4, size=shape).astype(np.float32)


@pytest.mark.parametrize("extent", [4, 20, 64])
def test_sums_of_several_rows_and_columns(tmp_path, extent):
    rng = np.random.default_rng(extent)
    b = OnnxBuilder()
    weight = rng.integers(-127, 128, (16, extent)).astype(np.int8)
    sums = b.node("MatMulInteger", b.input("x", (2, 3, 16), "int8"), weight)
    y = b.node("DequantizeLinear", sums, np.float32(0.01))
    assert equals_library(tmp_path, b.build(y, dtype="float32"), "ort").host_macs == 0


@pytest.mark.parametrize("move", ["Reshape", "Transpose"])
def test_moved_integers_keep_their_zero_point_before_sums(tmp_path, move):
    rng = np.random.default_rng(5)
    b = OnnxBuilder()
    zero = np.array(100, np.uint8)
    x = b.node("QuantizeLinear", b.input("x", (16, 8)), np.float32(0.02), zero)
    x = b.node(move, x, np.array([8, 16])) if move == "Reshape" else b.node(move, x)
    sums = b.node("MatMulInteger", x, rng.integers(-127, 128, (16, 12)).astype(np.int8), zero)
    y = b.node("DequantizeLinear", sums, np.float32(0.01))
    equals_library(tmp_path, b.build(y, dtype="float32"), "ort")


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_states_between_runs_have_no_8_bits(kind):
    rng = np.random.default_rng(4)
    b = OnnxBuilder()
    x, kept = b.input("x", (1, 1, 8)), b.input("kept", (2, 1, 12))
    first = [
        b.node("Unsqueeze", b.node("Gather", kept, np.array(i)), np.array([0])) for i in (0, 1)
    ]
    count = 4 if kind == "LSTM" else 3
    weights = draw(rng, 1, count * 12, 8), draw(rng, 1, count * 12, 12)
    given = first if kind == "LSTM" else first[:1]
    b.node(kind, x, *weights, "", "", *given, hidden_size=12)
    last = ["hn", "cn"][: len(given)]
    b.nodes[-1].output[:] = ["y", *last]
    left = b.node("Concat", *last, axis=0) if len(last) > 1 else b.node("Squeeze", "hn")
    written = quantized(b.build("y", left, dtype="float32"))
    model = onnx.load_model_from_string(written)
    rounded = {node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    assert not {left, "kept", *first, "hn", "cn"} & rounded


@pytest.mark.parametrize("first", ["input", "constant"])
def test_large_first_states_are_not_clipped(first):
    rng = np.random.default_rng(6)
    b = OnnxBuilder()
    state = 4 * draw(rng, 1, 1, 12)
    h = b.input("h", state.shape) if first == "input" else b.constant(state)
    weights = draw(rng, 1, 36, 8) / 2, draw(rng, 1, 36, 12) / 2
    b.node("GRU", b.input("x", (3, 1, 8)), *weights, "", "", h, hidden_size=12)
    b.nodes[-1].output[:] = ["", "hn"]
    data = b.build("hn", dtype="float32")
    samples = [{"x": draw(rng, 3, 1, 8), "h": 4 * draw(rng, 1, 1, 12)} for _ in range(8)]
    feeds = samples if first == "input" else [{"x": each["x"]} for each in samples]
    (output,) = measure_quality(data, quantize_onnx(data, feeds), feeds).outputs
    assert output.cosine > 0.999


def test_without_activations_to_leave_in_floats_a_high_cosine_changes_nothing():
    rng = np.random.default_rng(7)
    b = OnnxBuilder()
    weights = draw(rng, 1, 48, 8), draw(rng, 1, 48, 12)
    data = b.build(b.node("LSTM", b.input("x", (3, 1, 8)), *weights, hidden_size=12))
    feeds = recurrent_samples(data, 4)
    found = quantize_onnx(data, feeds, min_cosine=1.0)
    assert kinds_of(found) == kinds_of(quantize_onnx(data, feeds))


@pytest.mark.parametrize(("numerics", "middle"), [("ort", 128), ("litert-ref", 0)])
def test_symmetric_inputs_have_the_middle_as_zero_point(numerics, middle):
    written = quantized(recurrent_file(FORMS["lstm"]), symmetric=True, numerics=numerics)
    constants = onnx.load_model_from_string(written).graph.initializer
    (zero,) = (x for x in constants if x.name == "cell/entering_zero_point")
    assert onnx.numpy_helper.to_array(zero) == middle


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", ["lstm", "lstm_initial", "lstm_peephole", "lstm_both"])
def test_lstms_that_are_quantized_dynamically_are_the_machines(name, per_channel, tmp_path):
    paths = tmp_path / "floats.onnx", tmp_path / "dynamic.onnx"
    paths[0].write_bytes(recurrent_file(FORMS[name]))
    quantization.quantize_dynamic(*paths, per_channel=per_channel, op_types_to_quantize=["LSTM"])
    data = paths[1].read_bytes()
    assert "DynamicQuantizeLSTM" in kinds_of(data)
    written = quantized(data)
    assert "DynamicQuantizeLSTM" not in kinds_of(written)
    paths[1].write_bytes(written)
    model = Model.load(paths[1])
    assert model.macs > 0 and model.host_macs == 0
    quality = measure_quality(data, written, recurrent_samples(data, 8, 9), original=data)
    assert all(each.cosine > LEAST for each in quality.outputs if each.output != "out")
