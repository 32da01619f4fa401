"""What commands say of a network before and after they run it: only what is so."""

import zipfile

import numpy as np
import pytest

from tpulite.arch.memory import Window
from tpulite.frontend.tflite.builder import ModelBuilder
from tpulite.models import CNN_DIGITS
from tpulite.report.speed import Speed
from tpulite.runtime import device
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytest_plugins = ("tpulite_testing.command_line",)

F32 = np.float32


def _recurrent():
    """Return a network with an LSTM of 5,120 MACs before a quantized layer of 64."""
    b = OnnxBuilder()
    x = b.input("x", (10, 1, 8))
    gates = np.full((1, 32, 8), 0.1, F32)
    h = b.node("Squeeze", b.node("LSTM", x, gates, gates, hidden_size=8), np.array([1]))
    h = b.quantize(b.node("Slice", h, np.array([9]), np.array([10]), np.array([0])), 0.01, 0)
    y = b.node("MatMul", h, b.weight(np.eye(8, dtype=np.int8), 0.1))
    return b.build(b.quantize(y, 0.01, 0))


@pytest.mark.parametrize("command", ["run", "profile"])
def test_no_rate_leaves_out_the_cpu(tpulite, tmp_path, command):
    (tmp_path / "net.onnx").write_bytes(_recurrent())
    words = (command, "net.onnx", "--mhz", 100)
    code, out, err = tpulite(*words)
    assert (code, err) == (0, "") and "(lower bound" not in out
    said = " ".join(out.split())
    assert "of the MACs run on the CPU: give its time with --host-ms to get inferences/s" in said
    code, out, _ = tpulite(*words, "--host-ms", 4)
    assert code == 0 and " ms, plus 4 ms on the CPU: 250 inferences/s" in " ".join(out.split())


def test_rates_add_the_cpus_time_for_each_inference():
    assert Speed(100_000, 2, 100.0, 0.5, 1.0).inputs_per_second == 2e3 / (1.0 + 2 * 1.0)
    assert Speed(100_000, 1, 100.0, 0.01).inputs_per_second == 1000.0
    assert Speed(100_000, 1, 100.0, 0.011).inputs_per_second is None
    assert Speed(100_000, 1, 100.0, None).inputs_per_second is None


def test_the_limit_is_of_what_the_machine_does(tpulite):
    _, out, _ = tpulite("run", CNN_DIGITS)
    line = next(line for line in out.splitlines() if "(lower bound " in line)
    cycles = int(line.split(" cycles each")[0].rpartition(" ")[2].replace(",", ""))
    limit = int(line.partition("(lower bound ")[2].rstrip(")").replace(",", ""))
    program = Model.load(CNN_DIGITS).compile().programs[0]
    beats = (len(program.constants) + program.window_bytes[Window.INPUT]) // 16
    assert limit == max(-(-program.macs // 256), beats) <= cycles


def test_inspect_begins_with_the_networks_ends(tpulite):
    code, out, _ = tpulite("inspect", CNN_DIGITS)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("input ") and "1x16x16x1 int8, scale " in lines[0]
    assert lines[1].startswith("output ") and "1x10 " in lines[1] and ", zero point " in lines[1]
    assert lines[2].startswith("parameters: ") and lines[2].endswith(" bytes")
    assert "rows of 16 bytes (" in lines[3]


def test_compiling_what_does_not_run_on_the_machine_says_so_first(tpulite, tmp_path):
    b = OnnxBuilder()
    x = b.input("x", (1, 3, 8, 8))
    (tmp_path / "net.onnx").write_bytes(b.build(b.node("Conv", x, np.ones((4, 3, 3, 3), F32))))
    code, out, err = tpulite("compile", "net.onnx")
    assert (code, err) == (1, "")
    assert out.splitlines()[:2] == [
        "net.onnx: nothing runs on the machine; all operators run on the CPU",
        "float network: tpulite quantize net.onnx --calibrate SAMPLES",
    ]
    assert tpulite("run", "net.tpulite")[0] == 0
    assert "float network: tpulite quantize net.onnx" in tpulite("inspect", "net.onnx")[1]
    assert "float network: tpulite quantize net.onnx" in tpulite("run", "net.onnx")[1]


def test_a_call_of_another_subgraph_is_counted(tpulite, tmp_path):
    b = ModelBuilder("float32")
    (tmp_path / "net.tflite").write_bytes(_with_while(b))
    code, out, _ = tpulite("inspect", "net.tflite")
    assert code in (0, 1) and "≥ 32" in out and "0.0%" not in out


def _with_while(b):
    """Return a file whose only operator is a loop; its body is a dense layer of 4 x 8."""
    from tpulite.frontend.tflite.builder import flatbuffers, schema

    def tensor(shape, name, buffer=0):
        made = schema.TensorT()
        made.shape, made.type = list(shape), schema.TensorType.FLOAT32
        made.name, made.buffer = name, buffer
        return made

    def graph(tensors, operators, inputs, outputs):
        made = schema.SubGraphT()
        made.tensors, made.operators = tensors, operators
        made.inputs, made.outputs = inputs, outputs
        return made

    def operator(code, inputs, outputs):
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = code, inputs, outputs
        return made

    loop = operator(0, [0], [1])
    loop.builtinOptionsType = schema.BuiltinOptions.WhileOptions
    loop.builtinOptions = schema.WhileOptionsT()
    loop.builtinOptions.condSubgraphIndex, loop.builtinOptions.bodySubgraphIndex = 1, 2
    main = graph([tensor((4, 8), "x"), tensor((4, 8), "y")], [loop], [0], [1])
    condition = graph([tensor((4, 8), "c")], [], [0], [0])
    dense = operator(1, [0, 1], [2])
    body = graph([tensor((4, 8), "a"), tensor((1, 8), "w"), tensor((4, 1), "b")], [dense], [0], [2])
    model = schema.ModelT()
    model.version, model.subgraphs = 3, [main, condition, body]
    model.buffers = [schema.BufferT()]
    model.operatorCodes = []
    for builtin in (schema.BuiltinOperator.WHILE, schema.BuiltinOperator.FULLY_CONNECTED):
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = builtin
        code.version = 1
        model.operatorCodes.append(code)
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


FOREIGN = {
    "net.pt": ("torch.onnx.export(model, (x,)", {"net/data.pkl": b""}),
    "net.pt2": ('torch.onnx.export(torch.export.load("net.pt2")', {"net/archive_format": b"pt2"}),
    "net.keras": (
        "TFLiteConverter.from_keras_model",
        {"config.json": b"", "metadata.json": b"", "model.weights.h5": b""},
    ),
    "net.h5": ("TFLiteConverter.from_keras_model", b"\x89HDF\r\n\x1a\n"),
    "net.pte": ("an ExecuTorch program", b"\x10\0\0\0ET12"),
    "net.tosa": ("(TOSA)", b"\x10\0\0\0TOSA"),
    "net.mlir": ("(MLIR, stablehlo)", b"module @net {\n  stablehlo.return\n}"),
    "net.mlirbc": ("(MLIR bytecode)", b"ML\xefR\x01"),
    "net.pb": ("TFLiteConverter.from_saved_model", b"\x08\x01"),
    "net.safetensors": ("weights without a network", b"\x08\0\0\0\0\0\0\0{}"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_frameworks_are_recognized(tpulite, tmp_path, name):
    words, content = FOREIGN[name]
    if isinstance(content, dict):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, data in content.items():
                archive.writestr(member, data)
    else:
        (tmp_path / name).write_bytes(content)
    code, out, err = tpulite("inspect", name)
    assert (code, out) == (2, "") and err.startswith(f"tpulite: {name}: this is ") and words in err
    assert err.count("\n") == 1


def test_a_folder_of_a_saved_model_is_recognized(tpulite, tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    code, _, err = tpulite("inspect", "saved")
    assert code == 2 and "this is a TensorFlow graph" in err


def test_a_device_whose_packages_are_missing_says_what_to_install(tpulite, monkeypatch):
    class Entry:
        def load(self):
            raise ModuleNotFoundError("No module named 'amaranth'", name="amaranth")

    monkeypatch.setattr(device, "_installed", lambda: {"rtl": Entry()})
    code, out, err = tpulite("run", CNN_DIGITS, "--device", "rtl")
    assert (code, out) == (2, "")
    assert err.startswith("tpulite: Device 'rtl' needs: pip install ") and "amaranth" in err
