import csv
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from tpulite.frontend.files import load_graph
from tpulite.golden.timing import predict_cycles
from tpulite.models import CNN_DIGITS, DigitsTest
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.model import Model
from tpulite.runtime.oracles import open_oracle
from tpulite.zoo import DATA, ENTRIES, OWN
from tpulite_testing.files.recurrent import add_svdf
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.graphs.wide import products_of_int16

pytest_plugins = ("tpulite_testing.command_line",)

COUNT = 20
RNG = np.random.default_rng(7)

SCALES = {"weight_scale": 0.1, "scale": 0.2}

RUN = ("run", CNN_DIGITS, "--input", "images.npy")


@pytest.fixture
def digits(tmp_path):
    """Write images and labels of the test set."""
    test = DigitsTest.load()
    images = test.images[:COUNT].reshape(-1, 16, 16, 1)
    np.save(tmp_path / "x.npy", images)
    np.save(tmp_path / "labels.npy", test.labels[:COUNT])
    return images, test


def test_inspect_lists_operators_and_the_hosts_share(tpulite, tmp_path):
    words = ("inspect", CNN_DIGITS, "--json", "out.json", "--csv", "out.csv")
    code, out, err = tpulite(*words, "--exact", "tflm")
    assert (code, err) == (0, "")
    assert "DEPTHWISE_CONV_2D" in out and "1x8x8x32" in out
    assert out.splitlines()[-1] == "numerics: tflm; all operators run on the machine (397,952 MACs)"
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["exactness"] == "tflm"
    assert [x["where"] for x in record["operators"]] == [
        *("MXU", "MXU", "MXU", "VPU", "MXU", "VPU", "MXU")
    ]
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert sum(int(row["macs"]) for row in rows) == 397_952
    assert rows[0]["inputs"] == "1x16x16x1"


def test_inspect_knows_what_a_machine_lacks(tpulite, tmp_path):
    (tmp_path / "wide.tflite").write_bytes(products_of_int16(3, (1, 5, 16), [16, 8]))
    words = ("inspect", "wide.tflite", "--exact", "tflm")
    code, out, _ = tpulite(*words)
    assert code == 0 and "this configuration has no int16 (16x16,int16=1 has)" in out
    code, out, _ = tpulite(*words, "--config", "16x16,int16=1")
    assert code == 0 and "all operators run on the machine (10,240 MACs)" in out
    assert tpulite("compile", "wide.tflite", "--exact", "tflm", "--config", "16x16,int16=1")[0] == 0
    code, _, err = tpulite("inspect", "wide.tpulite", "--config", "16x16")
    assert code == 2 and "--config cannot be used because wide.tpulite is compiled." in err


def test_each_command_names_the_machine_that_runs_more(tpulite, tmp_path):
    b = Builder()
    x = b.input((1, 20), 1 / 100, -5)
    (tmp_path / "svdf.tflite").write_bytes(b.build(add_svdf(b, x, 8, 1, 4, RNG)))
    for command in ("inspect", "compile", "run"):
        out = tpulite(command, "svdf.tflite", "--config", "8x8")[1]
        assert "a machine with int16 runs SVDF: --config 8x8,int16=1" in out.splitlines()
        out = tpulite(command, "svdf.tflite", "--config", "8x8,int16=1")[1]
        assert "a machine with" not in out
    code, out, _ = tpulite("inspect", "svdf.tpulite")  # the last one
    assert code == 0 and "a machine with" not in out and "rows of 8 bytes" in out


def test_what_no_machine_runs_is_not_promised(tpulite, tmp_path):
    b, weight = Builder(), np.ones((8, 1, 1, 8), np.int8)
    x = b.conv(b.input((1, 4, 4, 8), 0.1), weight, [0] * 8, **SCALES)
    x = b.unary("QUANTIZE", x, 2**-9, dtype="int16")
    b.dtype = "int16"
    data = b.build(b.conv(x, weight, [0] * 8, **SCALES))  # with a bias of int32
    (tmp_path / "net.tflite").write_bytes(data)
    for command in ("inspect", "compile"):
        code, out, _ = tpulite(command, "net.tflite")
        assert code == 0 and "with int16 runs QUANTIZE: --config 16x16,int16=1" in out
    code, out, _ = tpulite("inspect", "net.tpulite")  # parts of which a library runs
    assert code == 0 and "cannot run" not in out


@pytest.mark.parametrize(
    ("width", "name"), [("66", "depthwi…nv_2d_1"), ("80", "depthwise_conv_2d_1")]
)
def test_inspect_fits_narrow_terminals(tpulite, monkeypatch, width, name):
    monkeypatch.setenv("COLUMNS", width)
    code, out, err = tpulite("inspect", CNN_DIGITS)
    assert (code, err) == (0, "")
    table = out.splitlines()[:-2]
    assert max(map(len, table)) <= int(width)
    assert any(f"  {name}  1x8x8x32  " in row and row.endswith(" 18,432") for row in table)


def test_a_network_runs_with_its_accuracy(tpulite, tmp_path, digits):
    images, test = digits
    words = ("run", CNN_DIGITS, "--input", "x.npy", "--labels", "labels.npy", "--output", "y.npy")
    code, out, err = tpulite(*words, "--json", "out.json")
    assert (code, err) == (0, "")
    expected = Model.load(CNN_DIGITS).reference(images)["dense"]
    np.testing.assert_array_equal(np.load("y.npy"), expected)
    accuracy = test.accuracy(expected)
    assert out.splitlines()[-1] == f"accuracy: {accuracy:.2%} of {COUNT} inputs"
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["accuracy"] == accuracy and record["inputs"] == COUNT
    program = Model.load(CNN_DIGITS).compile().programs[0]
    cycles = predict_cycles(program.commands, program.config)
    assert (record["macs"], record["host_macs"]) == (397_952, 0)
    assert (record["cycles"], record["cycles_of"]) == ([cycles] * COUNT, "cycle model")
    assert out.splitlines()[-2].startswith(
        f"{COUNT} inputs on golden: {cycles:,} cycles each by the cycle model"
    )

    assert tpulite(*words, "--limit", 3)[1].endswith(" of 3 inputs\n")
    np.testing.assert_array_equal(np.load("y.npy"), expected[:3])


def test_a_compiled_network_runs_the_same(tpulite, tmp_path, digits):
    shutil.copy(CNN_DIGITS, tmp_path / "net.tflite")
    code, out, err = tpulite("compile", "net.tflite", "--exact", "litert-opt")
    assert (code, err) == (0, "")
    assert (
        out.startswith("net.tpulite: ") and "379,480 MACs" in out and "numerics: litert-opt" in out
    )
    assert tpulite("run", "net.tpulite", "--input", "x.npy", "--output", "y.npy")[0] == 0
    expected = Model.load(CNN_DIGITS, exact="litert-opt").reference(digits[0])["dense"]
    np.testing.assert_array_equal(np.load("y.npy"), expected)


def test_a_network_runs_without_inputs(tpulite):
    code, out, _ = tpulite("run", CNN_DIGITS, "--seed", 5, "--limit", 2)
    assert code == 0
    assert out.startswith("2 random inputs, seed 5\n") and "2 inputs on golden" in out


class Clock(GoldenDevice):
    """A golden device that pretends to take 3,000 cycles a run."""

    def run(self, job):
        result = super().run(job)
        return type(result)(result.fault, {"cycles": 3000})


def test_cycles_are_told(tpulite, tmp_path, monkeypatch):
    entry = SimpleNamespace(name="clock", load=lambda: Clock)
    monkeypatch.setattr("tpulite.runtime.device._installed", lambda: {"clock": entry})
    code, out, _ = tpulite("run", CNN_DIGITS, "--device", "clock", "--json", "out.json")
    assert code == 0
    assert out.splitlines()[-1] == "1 input on clock: 3,000 cycles each (lower bound 1,576)"
    assert json.loads((tmp_path / "out.json").read_text())["cycles"] == [3000]


def test_the_zoo_is_listed_in_80_columns_without_broken_words(tpulite, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = tpulite("zoo", "list")
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    for own in (*OWN, *DATA):
        assert set(f"{own.name} {own.title}".replace("digits:", "digits").split()) <= set(
            out.replace(":", "").split()
        )
    for entry in ENTRIES:
        assert set(f"{entry.name} {entry.title}: {entry.input}".split()) <= set(out.split())


def test_the_page_of_the_zoo_says_what_was_compared(tpulite, tmp_path, monkeypatch):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    monkeypatch.setattr("tpulite.cli.zoo.fetch", lambda name: CNN_DIGITS)
    words = ("zoo", "page", "resnet8", "-o", "zoo.md", "--inputs", 2, "--device", "golden")
    assert tpulite(*words)[0] == 0
    page = (tmp_path / "zoo.md").read_text()
    assert "| `resnet8` | 397,952 | 0.0% (nothing) | 18,580 | 0 | 0 |  |" in page
    assert "| `kws` | DS-CNN, 12 keywords (MLPerf Tiny) |" in page

    monkeypatch.setattr("tpulite.cli.zoo_page.ORACLE", "litert-opt")

    def other_oracle(name, path, graph):
        return open_oracle("litert-xnnpack", path, graph)

    monkeypatch.setattr("tpulite.cli.zoo_page.open_oracle", other_oracle)
    code, _, err = tpulite(*words)
    assert (code, err) == (2, "tpulite: resnet8: results differ, or do not run; see zoo.md\n")


def test_the_page_of_the_zoo_names_what_does_not_run(tpulite, tmp_path, monkeypatch):
    unsupported(tmp_path)
    monkeypatch.setattr("tpulite.cli.zoo.fetch", lambda name: tmp_path / "odd.tflite")
    words = ("zoo", "page", "kws", "-o", "zoo.md", "--inputs", 1, "--device", "golden")
    code, _, err = tpulite(*words)
    assert code == 2 and "kws: results differ, or do not run" in err
    page = (tmp_path / "zoo.md").read_text()
    assert "These do not run yet:\n\n- `kws`: " in page and "CUSTOM Teleport" in page


def unsupported(tmp_path):
    """Write a network with an operator that neither machine nor library has."""
    builder_module = pytest.importorskip("tpulite_testing.files.tflite_builder")
    b = builder_module.Builder()
    x = b.input((1, 4, 4, 2), 0.1, 0)
    y = b.tensor((1, 4, 4, 2), 0.1, 0)
    b.operator("CUSTOM:Teleport", [x], [y])
    z = b.tensor((1, 4, 4, 2), 0.1, 0)
    b.operator("RELU", [y], [z])
    (tmp_path / "odd.tflite").write_bytes(b.build(z))


def test_what_nobody_computes_is_listed_and_refused(tpulite, tmp_path):
    unsupported(tmp_path)
    code, out, _ = tpulite("inspect", "odd.tflite")
    assert code == 1
    assert "CUSTOM Teleport" in out and "the network cannot run: odd: 'custom_0' (CUSTOM" in out
    for words in (("compile", "odd.tflite"), ("run", "odd.tflite", "--host-fallback")):
        code, _, err = tpulite(*words)
        assert code == 2 and len(err.splitlines()) == 1
        assert "custom_0" in err and "CUSTOM Teleport" in err
    assert {path.name for path in tmp_path.iterdir()} == {"odd.tflite"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("inspect", "none.tflite"), "none.tflite: no such file or zoo network"),
        (("inspect", "cut.tflite"), "cut.tflite: "),
        (("compile", "cut.tflite"), "cut.tflite: "),
        (("compile", CNN_DIGITS, "--exact", "mine"), "--exact: mine is not one of litert-ref, "),
        (("compile", CNN_DIGITS, "-o", "none/out"), "No such file or directory"),
        (("compile", CNN_DIGITS, "--calibrate", "x.npy"), "--calibrate needs a float ONNX file"),
        (("run", "cut.tflite"), "cut.tflite: "),
        (("run", CNN_DIGITS, "--input", "labels.npy"), "labels.npy: Input 'image' must have shape"),
        (("run", CNN_DIGITS, "--input", "none.npy"), "none.npy: no such file"),
        (("run", CNN_DIGITS, "--labels", "labels.npy"), "--labels needs --input"),
        ((*RUN, "--labels", "images.npy"), "images.npy must hold 20 integers, one per input"),
        ((*RUN, "--labels", "few.npy"), "few.npy must hold 20 integers, one per input, not"),
        ((*RUN, "--labels", "negative.npy"), "negative.npy: labels must be from 0 to 9, not -1"),
        (("run", CNN_DIGITS, "--input", "text.npy"), "text.npy is not a .npy file"),
        (("run", CNN_DIGITS, "--input", "cut.npy"), "cut.npy is not a complete .npy file"),
        (("run", CNN_DIGITS, "--input", "empty.npy"), "empty.npy: Input 'image' has no elements"),
        (("run", CNN_DIGITS, "--output", "cut.npy/y"), "tpulite: cut.npy: Not a directory"),
        (
            ("info", CNN_DIGITS),
            f"{CNN_DIGITS} is not compiled; if it is a network: tpu",
        ),
        (("run", CNN_DIGITS, "--output", "none/y.npy"), "tpulite: none: No such file or directory"),
        (("run", CNN_DIGITS, "--json", "/dev/null"), "/dev/null is not a regular file"),
        (("run", CNN_DIGITS, "--json", "."), "tpulite: .: Is a directory"),
        (("run", CNN_DIGITS, "--csv", "out.csv", "--output", "y.npy"), "the device has no clock"),
        (("run", CNN_DIGITS, "--seed", "-1"), "--seed: -1 is not in the range"),
        (("run", CNN_DIGITS, "--csv", "out.csv"), "the device has no clock, or records no trace"),
        (("run", CNN_DIGITS, "--limit", "0"), "0 is not in the range"),
        (("run", CNN_DIGITS, "--device", "abacus"), "abacus: no such device"),
        (("run", "net.tpulite", "--exact", "ort"), "net.tpulite is compiled"),
        (("run", "net.tpulite", "--config", "8x8"), "net.tpulite is compiled for another"),
        (
            ("compare", "net.tpulite", "--oracle", "litert-ref"),
            "net.tpulite is compiled: --oracle lit",
        ),
        (("compile", "net.tpulite", "-o", "net.tpulite"), "net.tpulite is the network itself"),
        (("inspect", "text.npy"), "text.npy: this is not a TFLite file; as an ONNX file: "),
        (("run", "cut.tpulite"), "not a tpulite program file"),
        (("compare", CNN_DIGITS, "--oracle", "abacus"), "--oracle: abacus is not one of"),
        (("compare", CNN_DIGITS, "--oracle", "ort"), "--oracle ort runs .onnx files"),
        (("zoo", "fetch", "alexnet"), "alexnet: no such zoo network; see tpulite zoo list"),
        (("zoo",), "Missing command"),
        (("zoo", "fetch"), "NAMES is missing"),
        (("zoo", "page", "-o", "out", "--inputs", "0"), "at least 1 input, not 0"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tpulite, tmp_path, digits, words, message):
    whole = CNN_DIGITS.read_bytes()
    (tmp_path / "cut.tflite").write_bytes(whole[: len(whole) // 2])
    np.save("x.npy", digits[0].astype(np.float32))
    np.save("images.npy", digits[0])
    np.save("few.npy", digits[1].labels[: COUNT - 1])
    np.save("negative.npy", np.append(digits[1].labels[: COUNT - 1].astype(int), -1))
    np.save("empty.npy", np.zeros((0, 16, 16, 1)))
    (tmp_path / "text.npy").write_text("1, 2, 3\n")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:200])
    if "net.tpulite" in words or "cut.tpulite" in words:
        tpulite("compile", CNN_DIGITS, "-o", "net.tpulite")
        compiled = (tmp_path / "net.tpulite").read_bytes()
        (tmp_path / "cut.tpulite").write_bytes(compiled[: len(compiled) // 2])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code, _, err = tpulite(*words)
    assert code == 2
    assert len(err.splitlines()) == 1 and message in err, err
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert after == before


def test_several_inputs_are_given_by_name(tpulite, tmp_path):
    builder_module = pytest.importorskip("tpulite_testing.files.tflite_builder")
    b = builder_module.Builder()
    sum_of_both = b.add(b.input((1, 2, 2, 4), 0.5), b.input((1, 2, 2, 4), 0.5), 0.5, 0)
    (tmp_path / "two.tflite").write_bytes(b.build(sum_of_both))
    x = np.arange(-16, 16, dtype=np.int8).reshape(2, 2, 2, 4)
    np.savez("both.npz", t0=x, t1=np.full_like(x, 3))
    assert tpulite("run", "two.tflite", "--input", "both.npz", "--output", "y.npy")[0] == 0
    np.testing.assert_array_equal(np.load("y.npy"), x + 3)
    np.save("x.npy", x)
    code, _, err = tpulite("run", "two.tflite", "--input", "x.npy")
    assert (code, err) == (
        2,
        "tpulite: x.npy: there are several inputs, ['t0', 't1']: give them by name\n",
    )


def test_compiled_networks_are_shown(tpulite):
    tpulite("compile", CNN_DIGITS, "--exact", "tflm")
    code, out, _ = tpulite("inspect", "cnn_digits.tpulite")
    assert code == 0 and out.endswith(
        "numerics: tflm; all operators run on the machine (397,952 MACs)\n"
    )
    code, out, _ = tpulite("info", "cnn_digits.tpulite")
    assert code == 0 and out.startswith("network cnn_digits\n  numerics: tflm; all operators run")
    assert (
        "input image: int8 [1, 16, 16, 1]" in out and "  layer conv_2d_4: m 16, k 288, n 60" in out
    )
    code, out, _ = tpulite("disasm", "cnn_digits.tpulite")
    assert code == 0 and "LOAD" in out.splitlines()[0]


def test_networks_are_known_by_content_and_by_their_name_in_the_zoo(tpulite, tmp_path, monkeypatch):
    shutil.copy(CNN_DIGITS, tmp_path / "net")
    assert tpulite("run", "net")[0] == 0
    monkeypatch.setattr("tpulite.zoo.fetch", lambda name: CNN_DIGITS)
    code, out, _ = tpulite("inspect", "resnet8")
    assert code == 0 and "all operators run on the machine (397,952 MACs)" in out


def residual(tmp_path):
    """Write an ONNX network of floats with an addition, and samples."""
    builder_module = pytest.importorskip("tpulite_testing.files.onnx_builder")
    b = builder_module.OnnxBuilder()
    x = b.input("x", (1, 2, 6, 6))
    rng = np.random.default_rng(3)
    y = b.node("Conv", x, rng.normal(size=(2, 2, 1, 1)).astype(np.float32), name="stem")
    (tmp_path / "net.onnx").write_bytes(b.build(b.node("Add", x, y, name="sum")))
    np.save(tmp_path / "x.npy", rng.normal(size=(8, 2, 6, 6)).astype(np.float32))


def test_refusals_tell_ways_out(tpulite, tmp_path):
    residual(tmp_path)
    code, _, err = tpulite("compile", "net.onnx", "--strict")
    assert code == 2 and err.endswith(
        "; this is a float network: --calibrate SAMPLES.npy quantizes it\n"
    )
    words = ("net.onnx", "--calibrate", "x.npy")
    code, _, err = tpulite("compile", *words, "--strict")
    ways = (
        "--exact litert-ref runs them on the machine, with LiteRT's numerics; "
        "without --strict they run on the CPU"
    )
    culprit = (
        "node 'sum' (QLinearAdd), tensor 'add1_QuantizeLinear_Output': ONNX Runtime computes add"
    )
    assert code == 2 and culprit in err
    assert err.endswith(f"; {ways}\n") and len(err.splitlines()) == 1
    code, out, _ = tpulite("inspect", *words, "--json", "out.json")
    assert code == 0 and out.endswith(f"\ncompile --strict refuses sum; {ways}\n")
    assert json.loads((tmp_path / "out.json").read_text())["refused"] == ["sum"]
    for option in (("--exact", "litert-ref"), ("--host-fallback",), ()):
        assert tpulite("run", *words, *option)[0] == 0


def test_it_is_told_if_nothing_ran_on_the_machine(tpulite, tmp_path):
    residual(tmp_path)
    code, out, _ = tpulite("run", "net.onnx", "--limit", 2)
    assert code == 0
    assert out.splitlines()[-2:] == [
        "2 inputs on the CPU: nothing runs on the machine",
        "float network: tpulite quantize net.onnx --calibrate SAMPLES",
    ]


def test_graphs_of_the_package_are_networks():
    assert load_graph(CNN_DIGITS).name == "cnn_digits"
