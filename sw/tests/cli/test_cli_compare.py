"""``compare`` as users type it: the compiled program, a library, and the untouched file."""

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

from tpulite.models import CNN_DIGITS, DigitsTest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

import flatbuffers
import onnx

from tpulite.runtime.session import Session
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.streaming import wake_word
from tpulite_testing.files.tflite_builder import Builder, schema

pytest_plugins = ("tpulite_testing.command_line",)

REF = ("--oracle", "litert-ref")


@pytest.mark.parametrize("oracle", ["litert-ref", "litert-opt", "litert-xnnpack"])
def test_program_and_definition_are_named_apart(tpulite, oracle):
    code, out, err = tpulite("compare", CNN_DIGITS, "--oracle", oracle, "--limit", 2)
    lines = out.splitlines()
    assert (code, err) == (0, ""), out
    assert lines[0] == "inputs: 2 random inputs, seed 2024"
    assert lines[-2].startswith(f"layer definitions compared with {oracle}: 7 tensors, ")
    assert lines[-2].endswith(" elements: every bit is the same")
    assert f", golden compared with {oracle}: " in lines[-1]
    assert lines[-1].endswith(" of 2 inputs, 20 elements: every bit is the same")


def test_a_device_is_compared_with_the_definition_tensor_by_tensor(tpulite):
    code, out, err = tpulite("compare", CNN_DIGITS, "--oracle", "golden", "--limit", 2)
    assert (code, err) == (0, "")
    assert ", golden compared with the definition of the layers: 7 tensors of 2 inputs, " in out


def test_the_oracle_is_by_default_the_library_of_the_format(tpulite):
    _, out, _ = tpulite("compare", CNN_DIGITS, "--limit", 2)
    assert ", golden compared with litert-ref: " in out.splitlines()[-1]
    _, out, _ = tpulite("compare", "mlp_digits", "--limit", 2)  # which no library reads
    assert ", golden compared with the definition of the layers: " in out
    assert tpulite("compare", "mlp_digits", "--oracle", "ort")[2].endswith(
        "--oracle ort runs .onnx files, and this is .npz\n"
    )


def test_a_difference_has_figures_and_fits_80_columns(tpulite, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = ("compare", CNN_DIGITS, "--oracle", "litert-xnnpack", "--exact", "litert-ref")
    code, out, _ = tpulite(*words, "--json", "out.json", "--limit", 3)
    assert code == 1
    table = [line for line in out.splitlines() if "litert" not in line and "first" not in line]
    assert max(map(len, table)) <= 80
    assert "first different tensor: 'dense' of " in out and "layers whose definition differs" in out
    record = json.loads((tmp_path / "out.json").read_text())
    (dense,) = record["tensors"]
    stem = record["layers"][0]
    assert stem["name"] == "stem" and 0 < stem["different"] < stem["elements"] == 3 * 2048
    assert stem["largest"] == 1 and stem["mean"] == stem["different"] / stem["elements"]
    assert stem["rmse"] == pytest.approx(stem["mean"] ** 0.5)
    assert 0.99 < stem["cosine"] < 1 and stem["snr"] > 20
    assert dense["top1"] == [3, 3] and stem["top1"] is None
    assert (record["same"], record["device"], record["oracle"]) == (False, "golden", words[3])


def test_a_tolerance_is_in_steps(tpulite):
    words = ("compare", CNN_DIGITS, "--oracle", "litert-xnnpack", "--exact", "litert-ref")
    assert tpulite(*words, "--limit", 2, "--tolerance", 0.5)[0] == 1
    code, out, _ = tpulite(*words, "--limit", 2, "--tolerance", 3)
    assert code == 0 and out.endswith("no difference exceeds 3\n")


def test_inputs_are_arrays_of_numbers_as_in_run(tpulite, tmp_path):
    images = DigitsTest.load().images[:3].reshape(3, 16, 16, 1)
    np.save(tmp_path / "a.npy", images)
    np.save(tmp_path / "b.npy", images[:1].astype(np.float32))
    code, out, _ = tpulite("compare", CNN_DIGITS, *REF, "--input", "a.npy")
    assert code == 0 and "of 3 inputs" in out
    code, out, _ = tpulite("compare", CNN_DIGITS, *REF, "--input", ".", "--limit", 2)
    assert code == 0 and "of 2 inputs" in out
    code, out, _ = tpulite("compare", CNN_DIGITS, *REF, "--input", "b.npy")
    assert code == 0 and "float32 quantized" in out


def test_what_cannot_be_compiled_is_refused(tpulite, monkeypatch):
    def compile_parts(*arguments, **options):
        raise ValueError("Layer 'conv' has weights of 3 channels, not 6")

    monkeypatch.setattr("tpulite.runtime.model_compile.compile_parts", compile_parts)
    code, out, err = tpulite("compare", CNN_DIGITS, *REF)
    assert (code, out) == (2, "") and err.endswith("weights of 3 channels, not 6\n")


def test_a_wrong_program_differs_where_the_definition_does_not(tpulite, monkeypatch):
    def run(session, inputs, run=Session.run):
        results = run(session, inputs)
        results.outputs["dense"].flat[3] ^= 1
        return results

    monkeypatch.setattr(Session, "run", run)
    code, out, _ = tpulite("compare", CNN_DIGITS, *REF, "--limit", 2)
    lines = out.splitlines()
    assert code == 1 and lines[-2].endswith(" elements: every bit is the same")
    assert lines[-1].endswith("1 tensor of 2 inputs, 20 elements: 1 tensor differs")
    assert "first different tensor: 'dense' of fully_connected_6: 2 of 20 elements" in out


def test_exposed_tensors_do_not_count_against_the_untouched_file(tpulite, tmp_path):
    b, rng = OnnxBuilder(), np.random.default_rng(7)
    scale, zero = np.float32(0.011), np.int8(0)
    weights = rng.normal(0, 0.3, (5, 3, 3, 3)).astype(np.float32)
    x = b.quantize(b.input("x", (1, 3, 8, 8)), 0.02, -5)
    q = b.node("QuantizeLinear", b.constant(weights), b.constant(scale), b.constant(zero))
    w = b.node("DequantizeLinear", q, b.constant(scale), b.constant(zero))
    y = b.quantize(b.node("Conv", x, w), 0.05, 3)
    (tmp_path / "net.onnx").write_bytes(b.build(y))
    code, out, _ = tpulite("compare", "net.onnx", "--oracle", "ort", "--limit", 40)
    assert code == 0 and out.endswith("every bit is the same\n"), out
    assert "layer definitions compared with ort: " in out


def summed():
    """Build SUM of int8 over channels."""
    b = Builder()
    x = b.input((1, 5, 4, 20), 0.05, -12)
    axis = b.constant(np.array([3], np.int32), None)
    y = b.tensor((1, 5, 4, 1), 0.5, 10)
    b.operator("SUM", [x, axis], [y], options_type="ReducerOptions", keepDims=True)
    return b.build(y)


def test_a_known_fault_of_a_library_has_a_name_and_a_code(tpulite, tmp_path):
    (tmp_path / "sum.tflite").write_bytes(summed())
    code, out, _ = tpulite("compare", "sum.tflite", *REF)
    assert code == 3
    assert "known bug of litert-ref: LiteRT's reference SUM reads int8 as uint8" in out
    code, out, _ = tpulite("compare", "sum.tflite", "--oracle", "litert-opt")
    assert code == 0 and "known" not in out


def gathered():
    """Build GATHER of a table of 9 rows by ids, and a dense layer."""
    b, rng = Builder(), np.random.default_rng(3)
    ids = b.tensor((6,), None, dtype="int32")
    b.inputs.append(ids)
    table = b.constant(rng.integers(-128, 128, (9, 16)).astype(np.int8), 0.1)
    rows = b.tensor((6, 16), 0.1)
    b.operator("GATHER", [table, ids], [rows], options_type="GatherOptions", axis=0)
    y = b.dense(
        rows, rng.integers(-127, 128, (8, 16)).astype(np.int8), weight_scale=0.02, scale=0.3
    )
    return b.build(y)


def test_positions_are_drawn_inside_their_table(tpulite, tmp_path):
    (tmp_path / "ids.tflite").write_bytes(gathered())
    code, out, _ = tpulite("compare", "ids.tflite", *REF, "--limit", 20)
    assert code == 0 and out.endswith("every bit is the same\n")
    assert tpulite("run", "ids.tflite")[0] == 0
    np.save(tmp_path / "bad.npy", np.full(6, 9, np.int32))
    code, _, err = tpulite("compare", "ids.tflite", *REF, "--input", "bad.npy")
    assert code == 2 and "--input" not in err and err.count("\n") == 1


def test_tflm_is_asked_for_by_its_extra(tpulite, monkeypatch):
    find = importlib.util.find_spec
    missing = {"tflite_micro"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in missing else find(name)
    )
    code, out, err = tpulite("compare", CNN_DIGITS, "--oracle", "tflm")
    assert (code, out) == (2, "") and "--oracle tflm needs: pip install" in err


def test_tflm_is_an_oracle(tpulite, tmp_path):
    pytest.importorskip(
        "tflite_micro", reason="TensorFlow Lite Micro is missing (pip install tflite-micro)"
    )
    (tmp_path / "sum.tflite").write_bytes(summed())
    for path in (CNN_DIGITS, "sum.tflite"):
        code, out, _ = tpulite("compare", path, "--oracle", "tflm", "--limit", 3)
        assert code == 0 and "numerics: tflm; " in out and ", golden compared with tflm" in out


def test_frames_of_a_sequence_keep_their_states(tpulite, tmp_path):
    (tmp_path / "net.tflite").write_bytes(wake_word())
    words = ("compare", "net.tflite", *REF, "--frames", 3)
    code, out, _ = tpulite(*words)
    assert code == 0 and "of 3 inputs" in out and out.endswith("every bit is the same\n")
    code, out, _ = tpulite(*words, "--limit", 6)
    assert code == 0 and "of 6 inputs" in out
    code, _, err = tpulite("compare", CNN_DIGITS, *REF, "--frames", 3)
    assert code == 2 and "cnn_digits.tflite has no states" in err


def test_states_of_onnx_go_in_and_out(tpulite, tmp_path):
    b, rng = OnnxBuilder(), np.random.default_rng(5)
    frame, held = b.input("frame", (1, 8, 1, 4)), b.input("held", (1, 8, 2, 4))
    sides = (b.quantize(x, 0.05, 3) for x in (held, frame))
    joined = b.quantize(b.node("Concat", *sides, axis=2), 0.05, 3)
    weight = rng.integers(-127, 128, (6, 8, 3, 1)).astype(np.int8)
    y = b.quantize(b.node("Conv", joined, b.weight(weight, 0.004)), 0.1, -5)
    ends = (np.array([n], np.int64) for n in (1, 3, 2))
    last = b.quantize(b.node("Slice", joined, *ends), 0.05, 3)
    (tmp_path / "net.onnx").write_bytes(b.build(y, last, dtype="float32"))
    words = ("compare", "net.onnx", "--oracle", "ort", "--state", f"{last}=held", "--frames", 5)
    code, out, err = tpulite(*words)
    assert code == 0 and out.endswith("every bit is the same\n"), err


def behind_the_flatbuffer(data):
    """Move the content of a file's buffers behind its flatbuffer, as files over 2 GB have it."""
    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))
    held = {i: bytes(x.data) for i, x in enumerate(model.buffers) if x.data is not None}
    offsets, file, end = dict.fromkeys(held, 1 << 20), b"", 0
    for _ in range(2):  # fields that are there keep their size
        for i, content in held.items():
            buffer = model.buffers[i]
            buffer.data, buffer.offset, buffer.size = None, offsets[i], len(content)
        builder = flatbuffers.Builder(1 << 12)
        builder.Finish(model.Pack(builder), b"TFL3")
        file = bytes(builder.Output())
        end = len(file)
        for i, content in held.items():
            offsets[i] = -(-end // 16) * 16
            end = offsets[i] + len(content)
    whole = bytearray(file.ljust(end, b"\0"))
    for i, content in held.items():
        whole[offsets[i] : offsets[i] + len(content)] = content
    return bytes(whole)


@pytest.mark.parametrize("oracle", ["litert-ref", "litert-xnnpack"])
def test_weights_behind_the_flatbuffer_are_read(tpulite, tmp_path, oracle):
    (tmp_path / "net.tflite").write_bytes(behind_the_flatbuffer(CNN_DIGITS.read_bytes()))
    code, out, err = tpulite("compare", "net.tflite", "--oracle", oracle, "--limit", 2)
    assert code == 0 and "layer definitions compared with " in out, err
    assert "7 tensors, " in out and out.endswith("every bit is the same\n")


def test_branches_of_an_if_are_fused_as_in_the_whole_file(tpulite, tmp_path):
    rng, outer, branches = np.random.default_rng(2), OnnxBuilder(), {}
    for name in ("then_branch", "else_branch"):
        b = OnnxBuilder()
        weights = b.weight(rng.integers(-127, 128, (64, 8)).astype(np.int8), 0.01)
        y = b.node("MatMul", b.quantize("x", 0.02, 3), weights)
        end = onnx.helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, (1, 8))
        branches[name] = onnx.helper.make_graph(b.nodes, name, [], [end], b.constants)
    outer.input("x", (1, 64))
    y = outer.node("If", outer.input("c", (), "bool"), **branches)
    (tmp_path / "net.onnx").write_bytes(outer.build(y, dtype="float32"))
    code, out, err = tpulite("compare", "net.onnx", "--oracle", "ort")
    assert code == 0 and out.endswith("every bit is the same\n"), out + err
