"""A file that is broken is named first, wherever it is given, and nothing is written."""

import numpy as np
import pytest

from tpulite.compiler.options import Options
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytest_plugins = ("tpulite_testing.command_line",)

NET = "cnn_digits"
NOISE = bytes(range(256)) * 4
NETWORKS = (
    "empty.tflite",
    "noise.tflite",
    "cut.tflite",
    "noise.onnx",
    "noise.npz",
    "noise.tpulite",
)
ARRAYS = ("empty.npy", "noise.npy", "cut.npy", "objects.npy", "noise.npz", "nan.npy", "nan.npz")

POSITIONS = [
    (("inspect", "?"), NETWORKS),
    (("compile", "?"), NETWORKS),
    (("run", "?"), (*NETWORKS, "cut.tpl")),
    (("profile", "?"), (*NETWORKS, "cut.tpl")),
    (("evaluate", "?", "--data", "digits"), NETWORKS),
    (("compare", "?", "--oracle", "golden"), NETWORKS),
    (("quantize", "?", "--calibrate", "good.npy"), ("empty.tflite", "noise.onnx")),
    (("export", "?", "-o", "out"), NETWORKS),
    (("bind", "?", "1x16x16"), NETWORKS),
    (("explore", "?", "--vary", "ub_rows=1024"), NETWORKS),
    (("info", "?"), ("noise.tflite", "noise.tpulite", "cut.tpl")),
    (("disasm", "?"), ("noise.tflite", "noise.tpulite", "cut.tpl")),
    (
        ("run", NET, "--output", "out.npy", "--input", "?"),
        (*ARRAYS, "noise.png", "noise.txt", "bad"),
    ),
    (("run", "good.tpl", "--input", "?"), ARRAYS),
    (("run", NET, "--input", "digits", "--limit", "1", "--labels", "?"), ("cut.npy", "nan.npy")),
    (("compare", NET, "--oracle", "golden", "--input", "?"), ARRAYS),
    (("export", NET, "-o", "out", "--input", "?"), ("nan.npy",)),
    (("evaluate", NET, "--data", "?"), (*ARRAYS, "noise.txt", "bad")),
    (("evaluate", NET, "--data", "digits", "--names", "?"), ("noise.txt", "good.npy")),
    (
        ("evaluate", NET, "--data", "good.npy", "--labels", "?"),
        ("noise.npy", "nan.npy", "noise.txt"),
    ),
    (
        ("quantize", "float.onnx", "--calibrate", "?"),
        (*ARRAYS, "noise.png", "bad", "good.npy", "scalar.npy", "names.npz"),
    ),
    (("run", "float.onnx", "--calibrate", "?"), ("noise.npy", "nan.npz", "good.npy")),
]
"""Commands, and what stands in the place of the question mark."""


@pytest.fixture(scope="module")
def program():
    """A bare program."""
    return Model.load(MLP_DIGITS, options=Options(effort=0)).programs[0]


@pytest.fixture
def files(tpulite, tmp_path, program):
    for suffix in ("tflite", "onnx", "npz", "npy", "tpulite", "png", "txt"):
        (tmp_path / f"empty.{suffix}").touch()
        (tmp_path / f"noise.{suffix}").write_bytes(NOISE)
    images = np.zeros((2, 16, 16, 1), np.float32)
    np.save("good.npy", images)
    np.save("scalar.npy", np.float32(1))
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    np.savez("names.npz", other=images)
    images[1, 2, 3, 0] = np.nan
    np.save("nan.npy", images)
    np.savez("nan.npz", x=images, y=np.zeros(2, int))
    program.save("good.tpl")
    b = OnnxBuilder()
    x = b.input("x", ("batch", 3, 4, 4))
    weights = np.ones((48, 2), np.float32)
    network = b.build(b.node("Gemm", b.node("Flatten", x), weights, np.ones(2, np.float32)))
    (tmp_path / "float.onnx").write_bytes(network)
    (tmp_path / "bad").mkdir()
    for name in ("tpl", "npy"):
        whole = (tmp_path / f"good.{name}").read_bytes()
        (tmp_path / f"cut.{name}").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut.tflite").write_bytes(CNN_DIGITS.read_bytes()[:1000])
    return tmp_path


@pytest.mark.parametrize(("words", "names"), POSITIONS, ids=lambda x: " ".join(x)[:40])
def test_the_broken_file_is_named_first(tpulite, files, words, names):
    there = {path for path in files.iterdir() if path.name != "cache"}
    for name in names:
        code, out, err = tpulite(*(name if word == "?" else word for word in words))
        assert (code, out) == (2, "")
        assert err.startswith(f"tpulite: {name}") and err.count("\n") == 1, err
    assert {path for path in files.iterdir() if path.name != "cache"} == there


def test_the_first_number_that_is_not_finite_is_shown(tpulite, files):
    _, _, err = tpulite("run", NET, "--input", "nan.npy")
    assert err == "tpulite: nan.npy: value [1, 2, 3, 0] is nan: values must be finite\n"
    images = np.load("nan.npy")
    images[0, 0, 1, 0] = -np.inf
    np.savez("two.npz", x=images)
    _, _, err = tpulite("evaluate", NET, "--data", "two.npz")
    assert err == "tpulite: two.npz: x[0, 0, 1, 0] is -inf: values must be finite\n"
