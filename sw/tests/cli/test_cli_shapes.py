"""``--shape`` and ``--dim``: every command takes files whose inputs have open extents."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import tpulite as package
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

pytest_plugins = ("tpulite_testing.command_line",)

RNG = np.random.default_rng(7)
SHAPE = ("--shape", "x=1x3x12x10")
DIMS = ("--dim", "h=12", "--dim", "w=10")
MACS = 12 * 10 * 8 * 27


@pytest.fixture
def quantized(tmp_path):
    """Write a quantized convolution of images of any size."""
    b = OnnxBuilder()
    x = b.quantize(b.input("x", ("n", 3, "h", "w")), 0.05, 3)
    weights = b.weight(RNG.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8), 0.01)
    y = b.node("Relu", b.node("Conv", x, weights, pads=[1, 1, 1, 1]))
    data = b.build(b.quantize(y, 0.1, -128))
    (tmp_path / "net.onnx").write_bytes(data)
    return data


@pytest.mark.parametrize("given", [SHAPE, DIMS], ids=["shape", "dims"])
def test_every_command_takes_them(tpulite, quantized, tmp_path, given):
    for words in (
        ("inspect", "net.onnx"),
        ("compile", "net.onnx", "-o", "net.tpulite"),
        ("profile", "net.onnx"),
        ("run", "net.onnx"),
        ("compare", "net.onnx", "--oracle", "ort", "--limit", "2"),
        ("explore", "net.onnx", "--vary", "ub_rows=2048"),
        ("export", "net.onnx", "--output", "exported"),
    ):
        code, out, err = tpulite(*words, *given)
        if words[0] != "export":  # whose host operators are another matter
            assert (code, err) == (0, ""), (words, err)
        else:
            assert "shape" not in err
        if words[0] in ("inspect", "compile"):
            assert f"{MACS:,}" in out, words
    assert (tmp_path / "net.tpulite").exists()


def test_results_are_those_of_the_untouched_file(quantized, tmp_path):
    x = RNG.normal(size=(1, 3, 12, 10)).astype(np.float32) * 3
    (expected,) = run_onnx(quantized, x)
    for given in ({"shapes": {"x": (1, 3, 12, 10)}}, {"dims": {"h": 12, "w": 10}}):
        model = Model.load(tmp_path / "net.onnx", **given)
        (name,) = model.graph.outputs
        np.testing.assert_array_equal(model.run(x).outputs[name], expected)
        loaded = package.load(tmp_path / "net.onnx", **given)
        assert loaded.graph.tensors["x"].shape == model.graph.tensors["x"].shape


def test_a_float_network_is_quantized_for_the_shape_that_is_given(tpulite, tmp_path):
    b = OnnxBuilder()
    x = b.input("x", (1, 3, "h", "w"))
    y = b.node("Conv", x, RNG.normal(size=(4, 3, 3, 3)).astype(np.float32))
    (tmp_path / "net.onnx").write_bytes(b.build(y))
    np.save(tmp_path / "x.npy", RNG.normal(size=(3, 3, 12, 10)).astype(np.float32))
    quantize = ("quantize", "net.onnx", "--calibrate", "x.npy")
    code, _, err = tpulite(*quantize)
    assert (code, "--shape x=1x3x64x64 or --dim h=64 --dim w=64" in err) == (2, True)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["net.onnx", "x.npy"]
    code, _, err = tpulite(*quantize, *SHAPE)
    assert (code, err) == (0, "")
    code, out, _ = tpulite("inspect", "net.int8.onnx")
    assert (code, f"{10 * 8 * 4 * 27:,}" in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "input 'x' has the shape nx3xhxw; give it with --shape x=1x3x64x64 or --dim h=64"),
        (("--shape", "x=1x3x12"), "--shape x=1x3x12: the file's shape is nx3xhxw"),
        (("--shape", "y=1x3x12x10"), "--shape y: no such input; choose from x"),
        (("--dim", "height=3"), "--dim height: no such open dimension"),
        (("--shape", "x"), "'x' must be like x=1x3x64x64"),
        (("--shape", "x=1x-3x4x4"), "'x=1x-3x4x4' must be like x=1x3x64x64"),
        (("--shape", "x=1,3,64,64"), "'x=1,3,64,64' must be like x=1x3x64x64"),
        (("--shape", "=1x3"), "'=1x3' must be like x=1x3x64x64"),
        (("--dim", "h=1x2"), "'h=1x2' must be like sequence=128"),
        (("--dim", "h"), "'h' must be like sequence=128"),
        (("--dim", "h=4", "--dim", "h=5"), "--dim h is given twice, with different values."),
        ((*SHAPE, "--shape", "x=1x3x4x4"), "--shape x is given twice, with different values."),
        (("--dim", "h=99999999", "--dim", "w=999999"), "impossible shape"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(tpulite, quantized, tmp_path, words, text):
    code, out, err = tpulite("compile", "net.onnx", *words)
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1
    assert [x.name for x in tmp_path.iterdir()] == ["net.onnx"]


def test_shapes_of_a_compiled_network_are_settled(tpulite, quantized, tmp_path):
    assert tpulite("compile", "net.onnx", "-o", "net.tpulite", *SHAPE)[0] == 0
    code, _, err = tpulite("run", "net.tpulite", *SHAPE)
    assert (code, err) == (
        2,
        "tpulite: net.tpulite is compiled: give --shape and --dim to compile\n",
    )
    with pytest.raises(
        ValueError, match=r"is compiled: give shapes and dims with the original file"
    ):
        package.load(tmp_path / "net.tpulite", dims={"h": 3})


def test_shapes_of_a_graph_are_settled(quantized, tmp_path):
    graph = Model.load(tmp_path / "net.onnx", dims={"h": 4, "w": 4}).graph
    with pytest.raises(ValueError, match=r"shapes and dims need a file, and this is a graph"):
        Model.load(graph, dims={"h": 5})
