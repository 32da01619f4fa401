"""Files whose extents have names are read as ranges; what is bound has the library's bits."""

from pathlib import Path

import numpy as np
import pytest

from tpulite_testing.oracles.onnx_session import open_onnx

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytest_plugins = ("tpulite_testing.command_line",)

X, Y = (0.05, 3), (0.04, -5)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float32)


def quantized(shape, add, dtype: str = "int8") -> bytes:
    """Return a file of an integer input, what ``add`` puts behind it in floats, and an output."""
    b = OnnxBuilder()
    shift = 128 if dtype == "uint8" else 0
    ends = [(np.float32(scale), np.array(zero + shift, dtype)) for scale, zero in (X, Y)]
    y = add(b, b.node("DequantizeLinear", b.input("x", shape, dtype), *ends[0]))
    return b.build(b.node("QuantizeLinear", y, *ends[1]))


def add_batch_norm(b: OnnxBuilder, x: str, channels: int) -> str:
    values = draw(channels), draw(channels), draw(channels), np.abs(draw(channels)) + 1
    return b.node("BatchNormalization", x, *values)


def batch_norm(channels: int) -> bytes:
    return quantized(("N", "C", "H", "W"), lambda b, x: add_batch_norm(b, x, channels))


def conv(shape, **attributes) -> bytes:
    weight = np.random.default_rng(1).integers(-127, 128, (9, 3, 3, 3)).astype(np.int8)

    def add(b: OnnxBuilder, x: str) -> str:
        return b.node("Conv", x, b.weight(weight, np.full(9, 0.01)), **attributes)

    return quantized(shape, add, "uint8")


def check_bits(data: bytes, program: str) -> None:
    """Compare what a bound program gives with ONNX Runtime on the untouched file."""
    bound = Program.load(program)
    (spec,) = bound.inputs
    x = np.random.default_rng(2).integers(0, 256, spec.shape).astype(np.uint8)
    x = x.view(spec.dtype)
    session = open_onnx(data)
    images = (x if x.ndim == 4 else x[np.newaxis]).transpose(0, 3, 1, 2)
    (due,) = session.run(None, {"x": np.ascontiguousarray(images)})
    due = np.asarray(due).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(Session(bound).run(x).output.reshape(due.shape), due)


def test_a_batch_norm_with_named_extents_is_bound_to_shapes_of_the_example(tpulite):
    data = batch_norm(40)
    Path("bn.onnx").write_bytes(data)
    code, _, err = tpulite("bind", "bn.onnx", "1x8x6", "2x3x5", "0x3x5")
    assert (code, err) == (0, "")
    for name in ("bn_1x8x6.tpu", "bn_2x3x5.tpu", "bn_0x3x5.tpu"):
        check_bits(data, name)


def test_fewer_channels_than_parameters_are_the_first_ones(tpulite):
    Path("bn.onnx").write_bytes(batch_norm(40))
    code, _, err = tpulite("bind", "bn.onnx", "1x3x5x7", "1x3x5")
    assert (code, err) == (0, "")
    fewer, all_ = (Program.load(f"bn_{shape}.tpu") for shape in ("1x3x5x7", "1x3x5"))
    x = np.random.default_rng(3).integers(-128, 128, (1, 3, 5, 40)).astype(np.int8)
    whole = Session(all_).run(x).output
    np.testing.assert_array_equal(Session(fewer).run(x[..., :7]).output, whole[..., :7])


def test_an_extent_that_the_file_fixes_stays_so_unless_it_is_named(tpulite):
    Path("net.onnx").write_bytes(conv(("N", 3, "H", 8), pads=[1, 1, 1, 1]))
    assert tpulite("bind", "net.onnx", "1x9x8")[0] == 0
    assert tpulite("bind", "net.onnx", "1x9x7") == (
        2,
        "",
        "tpulite: 1x9x7: the file fixes its width at 8; --shapes width=7 allows another\n",
    )
    assert tpulite("bind", "net.onnx", "1x9x7", "--shapes", "width=7")[0] == 0


def test_a_file_that_fixes_height_and_width_is_bound_to_any(tpulite):
    Path("net.onnx").write_bytes(conv(("N", 3, 8, 8), pads=[1, 1, 1, 1]))
    assert tpulite("bind", "net.onnx", "1x9x7")[0] == 0


def test_same_padding_is_that_of_each_shape(tpulite):
    data = conv(("N", 3, "H", "W"), auto_pad="SAME_UPPER", strides=[2, 2])
    Path("net.onnx").write_bytes(data)
    for shape in ("1x8x8", "1x9x8", "1x9x9"):
        assert tpulite("bind", "net.onnx", shape)[0] == 0
        check_bits(data, f"net_{shape}.tpu")
    code, out, err = tpulite("bind", "net.onnx", "1x8x8", "1x10x9")
    assert (code, out) == (2, "")
    assert err.startswith("tpulite: 1x8x8: ")
    assert err.endswith("bind this shape in a separate call\n")


def test_extents_that_a_mean_counts_are_not_bound_with_others(tpulite):

    def add(b: OnnxBuilder, x: str) -> str:
        return b.node("GlobalAveragePool", b.quantize(add_batch_norm(b, x, 5), 0.04, 123, "uint8"))

    data = quantized(("N", 5, "H", "W"), add, "uint8")
    Path("net.onnx").write_bytes(data)
    code, out, err = tpulite("bind", "net.onnx", "1x8x8", "1x4x4")
    assert (code, out) == (2, "")
    assert "pads or averages differently than for the other shapes" in err
    assert tpulite("bind", "net.onnx", "1x4x4")[0] == 0
    check_bits(data, "net_1x4x4.tpu")


def test_channels_that_neither_file_nor_shape_says_are_asked_for(tpulite):
    data = quantized(("N", "C", "H", "W"), lambda b, x: b.node("Sigmoid", x))
    Path("net.onnx").write_bytes(data)
    code, out, err = tpulite("bind", "net.onnx", "1x4x4")
    assert (code, out) == (2, "")
    assert err == (
        "tpulite: net.onnx: input 'x' has open channels: add them to the shape, like 1x4x4x16\n"
    )
    assert tpulite("bind", "net.onnx", "1x4x4x20")[0] == 0
    check_bits(data, "net_1x4x4x20.tpu")
    assert tpulite("bind", "net.onnx", "1x4x4x20", "1x5x4x3", "--dim", "C=33")[0] == 0
    check_bits(data, "net_1x5x4x3.tpu")
    assert tpulite("bind", "net.onnx", "0x0x4x20", "--shapes", "channels=0..33")[0] == 0
    check_bits(data, "net_0x0x4x20.tpu")


def test_a_grid_of_open_extents_needs_no_range(tpulite):
    Path("bn.onnx").write_bytes(batch_norm(40))
    code, out, err = tpulite("bind", "bn.onnx", "--explain")
    assert code == 0
    limits = "height=8..256,width=8..256"
    assert err == f"tpulite: note: the grid is --shapes {limits}; give --shapes for another one\n"
    assert "slabs, parts of a plane" in out


def test_what_is_not_bound_is_named(tpulite):

    def add(b: OnnxBuilder, x: str) -> str:
        y = b.quantize(add_batch_norm(b, x, 5), 0.04, 123, "uint8")
        return b.node("InstanceNormalization", y, draw(5), draw(5), name="last")

    Path("net.onnx").write_bytes(quantized((1, 5, 4, 4), add, "uint8"))
    for command, *words in (("bind", "1x4x4"), ("export", "--shapes", "height=1..4", "-o", "out")):
        code, _, err = tpulite(command, "net.onnx", *words)
        assert code == 0
        assert err == (
            "tpulite: note: only 'BatchNormalization_1' is bound, the largest part on the machine, "
            "without last: tpulite inspect net.onnx says why\n"
        )
