"""``quantize``: a file that anyone opens, and what its report says."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.frontend.tflite.builder import ModelBuilder, schema
from tpulite.frontend.tflite.cut import unpack
from tpulite.quant.calibrate import check_samples, fixed_batch, quantize_onnx
from tpulite.quant.exactness import Exactness
from tpulite.quant.quality_onnx import measure_quality
from tpulite.quant.tflite import plain_floats
from tpulite.runtime.host.libraries import open_library
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.graphs.onnx_encoders import OnnxEncoder

pytest_plugins = ("tpulite_testing.command_line",)

RNG = np.random.default_rng(11)


def draw(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def network():
    b = OnnxBuilder()
    x = b.input("x", ("batch", 3, 8, 8))
    y = b.node("Relu", b.node("Conv", x, draw(8, 3, 3, 3), draw(8), pads=[1, 1, 1, 1]))
    z = b.node("Conv", y, draw(8, 8, 1, 1) / 3, draw(8))
    y = b.node("Concat", b.node("Add", y, z), b.node("Sigmoid", z), axis=1)
    y = b.node("Flatten", b.node("GlobalAveragePool", y))
    return b.build(b.node("Gemm", y, draw(16, 5), draw(5)))


@pytest.fixture
def files(tmp_path, network):
    (tmp_path / "net.onnx").write_bytes(network)
    np.save(tmp_path / "x.npy", draw(12, 3, 8, 8))
    (tmp_path / "empty.npz").touch()
    return tmp_path


def test_a_quantized_file_has_the_bits_of_onnx_runtime(tpulite, files):
    code, _, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy", "--json", "q.json")
    assert (code, err) == (0, "")
    record = json.loads((files / "q.json").read_text())
    assert record["samples"] == 12
    assert {each["operator"] for each in record["tensors"]} >= {"input", "Add", "Concat", "Gemm"}
    assert all(each["decibels"] > 20 for each in record["tensors"])
    code, out, _ = tpulite("compare", "net.int8.onnx", "--oracle", "ort")
    assert (code, "every bit is the same" in out) == (0, True)


def test_weights_may_have_4_bits(tpulite, files):
    words = ("--calibrate", "x.npy", "--weights", "int4", "--min-cosine", "0.9999")
    code, out, _ = tpulite("quantize", "net.onnx", *words, "--json", "q.json")
    record = json.loads((files / "q.json").read_text())
    least = min(each["cosine"] for each in record["outputs"])
    assert record["int8"] and code == (0 if least >= 0.9999 else 1)
    code, out, _ = tpulite("quantize", "net.onnx", *words[:4], "--min-cosine", "0.9")
    assert (code, "keep int8 weights" in out) == (0, False)
    model = onnx.load(files / "net.int4.onnx")
    kinds = [tensor.data_type for tensor in model.graph.initializer]
    assert kinds.count(onnx.TensorProto.INT4) == 3
    code, out, _ = tpulite("compare", "net.int4.onnx", "--oracle", "ort")
    assert (code, "every bit is the same" in out) == (0, True)


def test_an_output_that_lost_too_much_is_an_error_and_the_file_stays(tpulite, files):
    words = ("--calibrate", "x.npy", "--min-cosine", "1", "--json", "q.json")
    code, _, err = tpulite("quantize", "net.onnx", *words)
    record = json.loads((files / "q.json").read_text())
    (output,) = record["outputs"]
    assert output["output"] in err
    assert (code, len(err.splitlines()), err.count("is below 1; most is lost in")) == (1, 1, 1)
    assert 0.99 < output["cosine"] < 1
    worst = max(record["tensors"], key=lambda each: each["lost"])
    assert worst["tensor"] in err
    assert (files / "net.int8.onnx").exists()


def test_every_output_is_reported_and_only_classes_have_a_top_1(tpulite, files):
    b = OnnxBuilder()
    x, mask = b.input("x", (1, 6)), b.input("m", (1, 6))
    y = b.node("MatMul", x, draw(6, 4))
    (files / "two.onnx").write_bytes(b.build(y, b.node("Identity", mask), b.node("Abs", y)))
    np.savez(files / "two.npz", x=draw(8, 1, 6), m=draw(8, 1, 6))
    code, _, err = tpulite("quantize", "two.onnx", "--calibrate", "two.npz", "--json", "q.json")
    assert (code, err) == (0, "")
    outputs = json.loads((files / "q.json").read_text())["outputs"]
    assert [each["agreement"] is not None for each in outputs] == [True, False, False]
    assert outputs[1]["cosine"] == 1
    assert 0.999 < outputs[0]["cosine"] < 1


def test_the_table_fits_80_columns(tpulite, files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = tpulite("quantize", "net.onnx", "--calibrate", "x.npy", "-o", "q.onnx")
    rows = out.splitlines()
    table = rows[: next(i for i, row in enumerate(rows) if row.startswith("q.onnx: "))]
    assert table
    assert max(map(len, table)) <= 80
    assert "top-1 agreement with the float network: 1" in out
    assert "--exact litert-ref runs them on the machine" in out


def test_a_folder_of_pictures_and_arrays_calibrates(tpulite, files):
    image = pytest.importorskip("PIL.Image", reason="Pillow is missing (pip install pillow)")
    (files / "data").mkdir()
    np.save(files / "data/a.npy", draw(2, 3, 8, 8))
    image.fromarray(RNG.integers(0, 256, (20, 30, 3), np.uint8)).save(files / "data/b.png")
    options = ("--calibrate", "data", "--pixels", "-1:1", "--json", "-", "-o", "q.onnx")
    code, out, err = tpulite("quantize", "net.onnx", *options)
    assert (code, err) == (0, "")
    assert json.loads(out)["samples"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("net.onnx", "--calibrate", "net.onnx"), "net.onnx is not a .npy file"),
        (("net.onnx", "--calibrate", "empty.npz"), "empty.npz: the file is empty"),
        (("x.npy", "--calibrate", "x.npy"), "not an ONNX file"),
        (("net.onnx", "--calibrate", "x.npy", "-o", "net.onnx"), "net.onnx is the network itself"),
        (("net.onnx", "--calibrate", "x.npy", "--ranges", "percentile"), "needs --percentile P"),
        (
            ("net.onnx", "--calibrate", "x.npy", "--ranges", "entropy", "--percentile", "99"),
            "--percentile cannot be used with --ranges entropy",
        ),
        (("net.int8.onnx", "--calibrate", "x.npy"), "net.int8.onnx: no such file or zoo network"),
    ],
)
def test_refusals_are_one_line(tpulite, files, arguments, said):
    code, _, err = tpulite("quantize", *arguments)
    assert (code, len(err.splitlines())) == (2, 1)
    assert said in err


@pytest.mark.parametrize("gain", [np.float32(0.7), np.full(4, 0.7, np.float32)])
def test_an_input_may_be_one_number(tpulite, tmp_path, gain):
    rng = np.random.default_rng(2)
    b = OnnxBuilder()
    y = b.node("Mul", b.input("x", (1, 3, 8, 8)), b.input("gain", ()))
    y = b.node("Conv", y, rng.normal(size=(8, 3, 3, 3)).astype(np.float32))
    (tmp_path / "net.onnx").write_bytes(b.build(y, dtype="float32"))
    x = rng.normal(size=(4, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x, gain=gain)
    code, out, err = tpulite("quantize", "net.onnx", "--calibrate", "samples.npz")
    assert (code, err, "4 samples" in out or "4 calibration" in out) == (0, "", True)


def test_both_sides_of_a_concatenation_have_its_scale(network):
    model = onnx.load_model_from_string(quantize_onnx(network, draw(6, 3, 8, 8)))
    made = {name: node for node in model.graph.node for name in node.output}
    read = {node.input[0]: node for node in model.graph.node}
    (concat,) = (node for node in model.graph.node if node.op_type == "Concat")
    scales = {made[name].input[1] for name in concat.input}
    assert scales == {read[concat.output[0]].input[1]}


def test_errors_are_those_of_the_numbers(network):
    samples = draw(4, 3, 8, 8)
    quality = measure_quality(
        fixed_batch(network), quantize_onnx(network, samples), check_samples(network, samples)
    )
    (x,) = (each for each in quality.tensors if each.tensor == "x")
    step = (max(samples.max(), 0) - min(samples.min(), 0)) / 255
    noise = (np.round(samples / step) * step - samples).std()
    assert x.decibels == pytest.approx(20 * np.log10(samples.std() / noise), abs=0.5)
    assert x.largest <= step * 0.51
    assert x.lost == 0
    assert quality.agreement == 1
    assert quality.worst[0].lost == max(each.lost for each in quality.tensors)


def test_weights_in_another_file(tpulite, files, network):
    model = onnx.load_model_from_string(network)
    (files / "big").mkdir()
    place = "net.onnx.data"
    settings = {"save_as_external_data": True, "location": place, "size_threshold": 0}
    onnx.save_model(model, files / "big/net.onnx", **settings)
    assert tpulite("compare", "big/net.onnx", "--oracle", "ort")[0] == 0
    assert tpulite("quantize", "big/net.onnx", "--calibrate", "x.npy")[0] == 0
    x = np.load(files / "x.npy")[:1]
    (found,) = run_onnx((files / "net.int8.onnx").read_bytes(), x)
    assert np.abs(found - run_onnx(network, x)[0]).max() < 1
    (files / "big" / place).write_bytes(b"short")
    assert "has 5" in tpulite("inspect", "big/net.onnx")[2]
    (files / "big" / place).unlink()
    code, _, err = tpulite("inspect", "big/net.onnx")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "big/net.onnx.data, which is missing" in err
    assert err.startswith("tpulite: big/net.onnx: tensor ")


def int8_dense(rng: np.random.Generator) -> bytes:
    """Return two dense layers of int8."""
    b = ModelBuilder()
    x = b.input((1, 40), 0.03, 3)
    for outputs, spread in ((32, 0.06), (10, 0.2)):
        weight = rng.integers(-127, 128, (outputs, b.shape(x)[1])).astype(np.int8)
        bias = rng.integers(-500, 500, outputs).astype(np.int32)
        y = b.tensor((1, outputs), spread, -5)
        scales = np.full(outputs, 0.01)
        x = b.operator(
            "FULLY_CONNECTED",
            [x, b.constant(weight, scales), b.constant(bias, 0.03 * scales)],
            [y],
            options_type="FullyConnectedOptions",
        )
    return b.build(x)


@pytest.mark.parametrize("more", [(), ("--per-tensor",)])
def test_weights_of_int8_tflite_files_may_become_int4(tpulite, files, more):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    (files / "net.tflite").write_bytes(int8_dense(np.random.default_rng(5)))
    np.save(files / "y.npy", draw(16, 40))
    words = ("--calibrate", "y.npy", "--weights", "int4", "--min-cosine", "0.9")
    code, _, err = tpulite("quantize", "net.tflite", *words, *more)
    assert (code, err) == (0, "")
    assert (files / "net.int4.tflite").stat().st_size < (files / "net.tflite").stat().st_size
    config = ("--config", "16x16,int4=1")
    code, out, _ = tpulite("compare", "net.int4.tflite", "--oracle", "litert-ref", *config)
    assert (code, "every bit is the same" in out) == (0, True)


def test_samples_of_tflite_files_may_be_integers(tpulite, files):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    b, rng = Builder(), np.random.default_rng(3)
    b.inputs.append(b.tensor((1, 6), None, dtype="int32"))
    table = b.constant(rng.integers(-128, 128, (9, 16)).astype(np.int8), 0.1)
    rows = b.tensor((1, 6, 16), 0.1)
    b.operator("GATHER", [table, b.inputs[0]], [rows], options_type="GatherOptions", axis=0)
    weight = rng.integers(-127, 128, (8, 16)).astype(np.int8)
    (files / "net.tflite").write_bytes(b.build(b.dense(rows, weight, weight_scale=0.02, scale=1)))
    words = ("--calibrate", "y.npy", "--weights", "int4", "--min-cosine", "0.9")
    np.save(files / "y.npy", rng.integers(0, 9, (16, 6)))
    assert tpulite("quantize", "net.tflite", *words)[::2] == (0, "")
    np.save(files / "y.npy", draw(16, 6))
    code, _, err = tpulite("quantize", "net.tflite", *words)
    assert code == 2 and "no scale to quantize floats" in err


def test_int4_refuses_tflite_files_of_floats(tpulite, files):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    b = ModelBuilder("float32")
    (files / "net.tflite").write_bytes(
        b.build(b.operator("RELU", [b.input((1, 4))], [b.tensor((1, 4))]))
    )
    np.save(files / "y.npy", draw(6, 4))
    code, _, err = tpulite("quantize", "net.tflite", "--calibrate", "y.npy", "--weights", "int4")
    assert code == 2 and "quantize the network to int8 first" in err
    assert not (files / "net.int4.tflite").exists()


def test_a_tflite_file_of_floats(tpulite, files):
    pytest.importorskip("ai_edge_quantizer", reason="pip install '.[quantize]'")
    b = ModelBuilder("float32")
    x, y = b.input((1, 8, 8, 3)), b.tensor((1, 8, 8, 8))
    w, bias = b.constant(draw(8, 3, 3, 3)), b.constant(draw(8))
    strides = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    b.operator("CONV_2D", [x, w, bias], [y], options_type="Conv2DOptions", **strides)
    (files / "net.tflite").write_bytes(b.build(y))
    np.save(files / "y.npy", draw(6, 8, 8, 3))
    words = ("--calibrate", "y.npy", "--json", "q.json")
    code, _, err = tpulite("quantize", "net.tflite", *words)
    assert (code, err) == (0, "")
    (error,) = json.loads((files / "q.json").read_text())["tensors"]
    assert error["decibels"] > 15  # it averages ranges, so outliers are cut
    assert tpulite("compare", "net.int8.tflite", "--oracle", "litert-ref")[0] == 0


def test_older_tflite_files_and_weights_of_float16_become_plain_floats(monkeypatch):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")

    class Code(schema.OperatorCodeT):
        def Pack(self, builder):  # noqa: N802 - the schema's name
            self.builtinCode = 0  # as files from before 2020 have it
            return super().Pack(builder)

    b = ModelBuilder("float32")
    x, y = b.input((1, 8, 8, 3)), b.tensor((1, 8, 8, 8))
    w, bias = b.tensor((8, 3, 3, 3), name="same"), b.rename(b.constant(draw(8)), "same")
    b.operator("DEQUANTIZE", [b.constant(draw(8, 3, 3, 3).astype(np.float16))], [w])
    strides = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    b.operator("CONV_2D", [x, w, bias], [y], options_type="Conv2DOptions", **strides)
    with monkeypatch.context() as context:
        context.setattr(schema, "OperatorCodeT", Code)
        data = b.build(y)
    plain = plain_floats(data)
    model = unpack(plain)
    (conv,) = model.subgraphs[0].operators
    assert model.operatorCodes[conv.opcodeIndex].builtinCode == schema.BuiltinOperator.CONV_2D
    names = [tensor.name for tensor in model.subgraphs[0].tensors]
    assert len({*names}) == len(names)
    sample = [draw(1, 8, 8, 3)]
    found, wanted = (open_library(x, "tflite", Exactness.LITERT_REF)(sample) for x in (plain, data))
    np.testing.assert_array_equal(found[0], wanted[0])


def test_tensors_of_tflite_files_get_names_of_their_own_and_inputs_keep_theirs():
    b = ModelBuilder("float32")
    for name in (*(f"a_{i}" for i in range(9, 20)), "a", "x"):
        b.tensor((1,), name=name)
    given = b.rename(b.input((1, 4)), "x")
    model = unpack(plain_floats(b.build(b.operator("NEG", [given], [b.tensor((1, 4), name="a")]))))
    names = [tensor.name for tensor in model.subgraphs[0].tensors]
    assert len({*names}) == len(names)
    assert names[model.subgraphs[0].inputs[0]] == b"x"


def test_a_transformer_gets_integers_by_name_unless_the_user_wants_floats(tpulite, tmp_path):
    encoder = OnnxEncoder(masked=False)
    (tmp_path / "net.onnx").write_bytes(encoder.build())
    np.save(tmp_path / "x.npy", np.concatenate([each["x"] for each in encoder.samples(8)]))
    code, out, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy")
    assert (code, err) == (0, "")
    said = "numerics: litert-ref (named in the file)"
    assert said in out
    assert "Add or Sub" not in out
    for command in ("inspect", "compile"):
        _, out, _ = tpulite(command, "net.int8.onnx")
        assert said in out
    code, out, _ = tpulite("compare", "net.int8.onnx", "--limit", "2")
    assert code == 0
    assert "compared with litert-ref" in out
    words = ("--calibrate", "x.npy", "--exact", "ort", "-o", "floats.onnx")
    _, out, _ = tpulite("quantize", "net.onnx", *words)
    assert "numerics: ort; on the CPU" in out
    assert "Softmax" in out


def test_tensors_are_compared_where_both_files_have_the_same_numbers():
    """Factors of scores move into weights of the queries; masks are clamped."""
    encoder = OnnxEncoder()
    data, samples = encoder.build(), encoder.samples(16)
    found = quantize_onnx(data, samples, numerics="litert-ref")
    quality = measure_quality(fixed_batch(data), found, samples)
    scores = [each for each in quality.tensors if each.operator in ("Div", "Add", "Softmax")]
    assert [each.operator for each in scores[:3]] == ["Div", "Add", "Softmax"]
    assert all(28 < each.decibels < 40 for each in scores[:3])
    products = [each for each in quality.tensors if each.operator in ("Reshape", "Transpose")]
    assert products and all(each.decibels > 28 for each in products)


def test_exact_is_for_onnx_files(tpulite, tmp_path):
    b = ModelBuilder("float32")
    x = b.input((1, 4))
    (tmp_path / "net.tflite").write_bytes(b.build(b.operator("NEG", [x], [b.like(x, (1, 4))])))
    np.save(tmp_path / "x.npy", draw(2, 1, 4))
    words = ("net.tflite", "--calibrate", "x.npy", "--exact", "ort")
    code, _, err = tpulite("quantize", *words)
    assert code == 2
    assert "--ranges and --exact are for ONNX files" in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "sr"), "--set: 'sr' must be like sr=16000"),
        (("--set", "sr=nan"), "--set: 'sr=nan' must be like sr=16000"),
        (("--set", "sr=1", "--set", "sr=2"), "--set sr is given twice, with different values."),
    ],
)
def test_a_constant_that_is_no_number_is_refused(tpulite, tmp_path, words, message):
    (tmp_path / "net.onnx").write_bytes(b"")
    np.save(tmp_path / "x.npy", draw(2, 1, 4))
    code, _, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy", *words)
    assert (code, err.strip()) == (2, f"tpulite: {message}")


def test_recurrent_nodes_that_stay_whole_are_named_and_counted(tpulite, tmp_path):
    b = OnnxBuilder()
    x = b.input("x", (3, 1, 4))
    for index in range(5):
        weights = draw(1, 4, 4), draw(1, 4, 4)
        x = b.node("RNN", x, *weights, name=f"cell{index}", hidden_size=4, clip=2.0)
        x = b.node("Squeeze", x, np.array([1]))
    data = b.build(b.node("MatMul", x, draw(4, 4)), dtype="float32")
    (tmp_path / "net.onnx").write_bytes(data)
    np.save(tmp_path / "x.npy", draw(4, 3, 1, 4))
    words = "--calibrate", "x.npy", "--min-cosine", "0"
    code, out, _ = tpulite("quantize", "net.onnx", *words)
    assert code == 0 and "cell2: its gates are clipped" in out and "cell3" not in out
    assert "2 more recurrent nodes stay in floats" in out


def test_a_constant_input_decides_a_branch_of_the_written_file(tpulite, tmp_path):
    b = OnnxBuilder()
    y, kind = b.node("MatMul", b.input("x", (1, 4)), draw(4, 4)), onnx.TensorProto.FLOAT
    branches = {}
    for name, operator in (("then_branch", "Relu"), ("else_branch", "Neg")):
        result = onnx.helper.make_tensor_value_info("made", kind, (1, 4))
        node = onnx.helper.make_node(operator, [y], ["made"])
        branches[name] = onnx.helper.make_graph([node], name, [], [result])
    fast = b.node("Equal", b.input("rate", (), "int64"), np.array(16000))
    (tmp_path / "net.onnx").write_bytes(b.build(b.node("If", fast, **branches)))
    np.save(tmp_path / "x.npy", draw(4, 1, 4))
    words = ("net.onnx", "--calibrate", "x.npy", "--set", "rate=16000")
    code, _, err = tpulite("quantize", *words, "-o", "int8.onnx")
    assert (code, err) == (0, "")
    graph = onnx.load(tmp_path / "int8.onnx").graph
    assert [each.name for each in graph.input] == ["x"]
    assert not {"If", "Neg"} & {node.op_type for node in graph.node}
