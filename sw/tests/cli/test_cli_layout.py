import json
import sys
import zipfile

import numpy as np
import pytest

from tpulite import layouts
from tpulite.models import CNN_DIGITS

pytest_plugins = ("tpulite_testing.command_line",)


def example(**shapes):
    """Return an ONNX file with an int8 convolution for each filter shape."""
    from tpulite_testing.files.onnx_builder import OnnxBuilder

    b, ends = OnnxBuilder(), []
    for name, shape in shapes.items():
        x = b.quantize(b.input(f"x_{name}", (1, shape[1], 8, 8)), 0.05, 0)
        filters = np.arange(np.prod(shape)).astype(np.int8).reshape(shape)
        weight, bias = b.weight(filters, 0.01), b.constant(np.ones(shape[0], np.int32))
        bias = b.node("DequantizeLinear", bias, np.float32(0.05 * 0.01), np.array(0, np.int32))
        ends.append(b.quantize(b.node("Conv", x, weight, bias, name=name), 0.1, 3))
    return b.build(*ends)


@pytest.fixture
def document(tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing")
    (tmp_path / "net.onnx").write_bytes(example(document=(128, 64, 3, 3)))


def row(out, name):
    """Return the cells of a table's row."""
    (line,) = (line for line in out.splitlines() if line.startswith(name))
    return line.split()


@pytest.mark.parametrize(
    ("options", "widths"),
    [
        ((), "0 2 576 1152 8 76 76 128 1280 81,920"),
        (("--lanes", "16"), "0 8 576 4608 32 124 124 160 4768 76,288"),
        (("--ic-parallel", "32"), "0 2 576 1152 8 76 76 128 1280 81,920"),
        (("--eu-num", "32"), "0 2 576 1152 8 44 44 64 1216 77,824"),
    ],
)
def test_the_documents_example_is_printed(tpulite, document, monkeypatch, options, widths):
    monkeypatch.setenv("COLUMNS", "80")
    for library in ("ai_edge_litert", "onnxruntime"):
        monkeypatch.setitem(sys.modules, library, None)  # none is needed
    words = ("export", "net.onnx", "--layout", "bm1684x", "-o", "out", *options)
    code, out, err = tpulite(*words)
    assert (code, err) == (0, "")
    assert row(out, "document") == ["document", "conv", "128x64x3x3", *widths.split()]
    assert "without weights: QuantizeLinear, DequantizeLinear\n" in out
    assert max(map(len, out.splitlines())) <= 80
    assert layouts.read("out")["document"].filter.shape == (128, 64, 3, 3)


def test_the_manifest_is_printed_as_json(tpulite, tmp_path):
    words = ("export", CNN_DIGITS, "--layout", "bm1684x", "-o", "out", "--json", "-")
    code, out, err = tpulite(*words, "--3ic-optimize", "1")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads((tmp_path / "out/manifest.json").read_text())
    modes = [layer["3ic_optimize"] for layer in json.loads(out)["layers"]]
    assert modes == [1, 0, 0, 0, 0]


def test_weights_of_files_are_turned_back_in_their_order(tpulite, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing")
    from tpulite_testing.files.onnx_builder import OnnxBuilder

    rng, b = np.random.default_rng(3), OnnxBuilder()
    kernel, matrix = rng.standard_normal((4, 3, 3, 2)), rng.standard_normal((4 * 6 * 7, 5))
    kernel, matrix = kernel.astype(np.float32), matrix.astype(np.float32)
    x = b.node("Conv", b.input("x", (1, 3, 8, 8)), kernel, name="conv")
    b_flat = b.node("Flatten", b.node("Relu", x))
    y = b.node("Gemm", b_flat, matrix, name="gemm")
    (tmp_path / "net.onnx").write_bytes(b.build(y))
    code, out, _ = tpulite("export", "net.onnx", "--layout", "bm1684x", "-o", "out")
    assert code == 0 and row(out, "gemm")[:4] == ["gemm", "dense", "f32", "5x168x1x1"]
    found = layouts.read("out")
    np.testing.assert_array_equal(found["conv"].filter, kernel)
    np.testing.assert_array_equal(found["gemm"].filter[:, :, 0, 0], matrix.T)
    words = ("export", "net.onnx", "--layout", "bm1684x", "-o", "out", "--weights", "bf16")
    assert row(tpulite(*words)[1], "conv")[:6] == ["conv", "conv", "bf16", "4x3x3x2", "0", "192"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--layout", "bm1684x", "--strict", "--without", "grouping"),
            "--strict, --without cannot be used with --layout bm1684x.",
        ),
        (
            ("--layout", "bm1684x", "--exact", "ort"),
            "--exact cannot be used with --layout bm1684x.",
        ),
        (
            ("--lanes", "3", "--3ic-optimize", "0"),
            "--lanes, --3ic-optimize cannot be used without --layout bm1684x.",
        ),
        (
            ("--layout", "bm1684x", "--weights", "f16"),
            "cnn_digits has no float layers: leave out --weights f16",
        ),
    ],
)
def test_options_that_would_do_nothing_are_refused(tpulite, tmp_path, options, message):
    code, out, err = tpulite("export", CNN_DIGITS, "-o", "out", *options)
    assert (code, out, err) == (2, "", f"tpulite: {message}\n")
    assert not (tmp_path / "out").exists()


def test_compiled_networks_are_refused(tpulite, tmp_path):
    with zipfile.ZipFile(tmp_path / "net.tpulite", "w") as archive:
        archive.writestr("model.json", "{}")
    code, _, err = tpulite("export", "net.tpulite", "-o", "out", "--layout", "bm1684x")
    assert (code, err) == (
        2,
        "tpulite: net.tpulite is compiled: --layout needs the original network file\n",
    )
