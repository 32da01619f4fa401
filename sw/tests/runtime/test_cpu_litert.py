"""Operators of ONNX files with LiteRT's numerics, against TFLite files that are written by hand.

Each test builds both files, so that it knows which operator of LiteRT it expects, whether the
machine runs it or LiteRT on the CPU. The oracle of ONNX files is checked by them, too.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.graph import Quantization
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.host.ops import dequantize, quantize
from tpulite.runtime.host.part import LibraryFile
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite.runtime.oracles.litert_onnx import open_litert_of_onnx
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.tflite_builder import Builder, schema
from tpulite_testing.quick_options import quick_options

BOTH = ("litert-ref", "litert-opt")
RNG = np.random.default_rng(11)
X, Y = (0.05, 3), (0.0413, -7)
"""Scales and zero points of inputs and results, as int8."""


class Files:
    """An ONNX file and a TFLite file, whose inputs and result are integers."""

    def __init__(self, dtype: str = "int8") -> None:
        self.dtype = dtype
        self.onnx, self.litert = OnnxBuilder(opset=18), Builder(dtype)
        self.shapes: dict[str, tuple[int, ...]] = {}

    def input(self, shape, scale: float = X[0], zero: int = X[1]) -> tuple[str, int]:
        """Add an input to both; return what operators on floats read, and the TFLite tensor."""
        name = f"x{len(self.shapes)}"
        self.shapes[name] = shape
        return self._given(
            self.onnx.input(name, shape, self.dtype), scale, zero
        ), self.litert.input(shape, scale, self.zero(zero))

    def constant(self, data: np.ndarray, scale: float, zero: int = 0) -> tuple[str, int]:
        return self._given(data, scale, zero), self.litert.constant(data, scale, self.zero(zero))

    def zero(self, zero: int) -> int:
        return zero + 128 * (self.dtype == "uint8")

    def made(self, y: str, scale: float = Y[0], zero: int = Y[1]) -> str:
        """Quantize a result of the ONNX file."""
        return self.onnx.node("QuantizeLinear", y, *self._meaning(scale, zero))

    def tensor(self, shape, scale: float = Y[0], zero: int = Y[1]) -> int:
        return self.litert.tensor(shape, scale, self.zero(zero))

    def requantized(self, x: int, scale: float = Y[0], zero: int = Y[1]) -> int:
        return self.litert.unary("QUANTIZE", x, scale, self.zero(zero))

    def _given(self, x, scale: float, zero: int) -> str:
        return self.onnx.node("DequantizeLinear", x, *self._meaning(scale, zero))

    def _meaning(self, scale: float, zero: int):
        return np.float32(scale), np.array(self.zero(zero), self.dtype)

    def equal(self, y: str, z: int, exact: str) -> Model:
        """Check that a run, the definition and the oracle are LiteRT's; return the model."""
        graph = load_onnx(self.onnx.build(y, dtype=self.dtype), "net")
        model = Model.load(graph, exact=exact, options=quick_options())
        run = open_library(self.litert.build(z), "tflite", exact)
        oracle = open_litert_of_onnx(graph, exact)
        limits = np.iinfo(self.dtype)
        for _ in range(4):
            given = {
                name: RNG.integers(limits.min, limits.max + 1, shape).astype(self.dtype)
                for name, shape in self.shapes.items()
            }
            (wanted,) = run(list(given.values()))
            for found in (model.run(given).outputs, model.reference(given), oracle(given)):
                np.testing.assert_array_equal(found[y], wanted)
        return model


def runs_in_litert(model: Model) -> bool:
    return "LiteRT" in model.statement() and "ONNX Runtime" not in model.statement()


@pytest.mark.parametrize("exact", BOTH)
@pytest.mark.parametrize(("dtype", "shape"), [("int8", (1, 3, 5, 7)), ("uint8", (2, 3, 5, 1, 2))])
def test_slopes_of_bytes_are_those_of_litert(dtype, shape, exact):
    files = Files(dtype)
    x, u = files.input(shape)
    slopes = RNG.integers(-100, 100, (3,) + (1,) * (len(shape) - 2)) + 128 * (dtype == "uint8")
    a, v = files.constant(slopes.astype(dtype), 0.01)
    y = files.made(files.onnx.node("PRelu", x, a))
    files.equal(y, files.litert.operator("PRELU", [u, v], [files.tensor(shape)]), exact)


@pytest.mark.parametrize("exact", BOTH)
@pytest.mark.parametrize("second", [X, (0.07, -20)])
def test_concatenations_that_the_machine_refuses_are_litert_s(tmp_path: Path, second, exact):
    files = Files()
    x, u = files.input((2, 3, 2, 3, 5))
    b, v = files.input((2, 3, 1, 3, 5), *second)
    y = files.made(files.onnx.node("Concat", x, b, axis=2))
    ends = [files.requantized(u), files.requantized(v)]
    options = {"options_type": "ConcatenationOptions", "axis": 2}
    z = files.litert.operator("CONCATENATION", ends, [files.tensor((2, 3, 3, 3, 5))], **options)
    model = files.equal(y, z, exact)
    assert runs_in_litert(model)
    save_model(model.compile(), tmp_path / "net.tpulite")
    again, given = load_model_file(tmp_path / "net.tpulite"), random_bytes(files)
    np.testing.assert_array_equal(again.run(given).output, model.run(given).output)


def test_parts_that_an_earlier_release_cut_for_onnx_runtime_are_refused(tmp_path: Path):
    files = Files()
    x, _ = files.input((2, 3, 2, 3, 5))
    y = files.made(files.onnx.node("Concat", x, x, axis=2))
    data = files.onnx.build(y, dtype="int8")
    model = Model.load(load_onnx(data, "net"), exact="litert-ref", options=quick_options())
    (host,) = (each for each in model.plan.hosts if each.segment.library)
    old = replace(host, file=LibraryFile(data, host.part.inputs, host.part.outputs))
    hosts = tuple(old if each is host else each for each in model.plan.hosts)
    earlier = replace(model.compile(), planned=replace(model.plan, hosts=hosts))
    save_model(earlier, tmp_path / "net.tpulite")
    with pytest.raises(ValueError, match="compile the network again"):
        load_model_file(tmp_path / "net.tpulite")


def random_bytes(files: Files) -> dict[str, np.ndarray]:
    return {
        name: RNG.integers(-128, 128, shape).astype(np.int8) for name, shape in files.shapes.items()
    }


@pytest.mark.parametrize("exact", BOTH)
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(("dtype", "axes"), [("int8", (0,)), ("uint8", (0, 2)), ("int8", (1,))])
def test_reductions_over_any_axis_are_litert_s(dtype, axes, op, exact):
    files, shape = Files(dtype), (3, 4, 5, 7)
    x, u = files.input(shape)
    code = {"ReduceMean": "MEAN", "ReduceSum": "SUM"}.get(op, op.replace("eM", "e_M").upper())
    attributes = {"keepdims": 0}
    operands = [x, np.array(axes)] if op == "ReduceSum" else [x]
    if op != "ReduceSum":
        attributes["axes"] = axes  # an attribute up to opset 17 and 18
        files.onnx.opset = 17
    y = files.made(files.onnx.node(op, *operands, **attributes), 0.11)
    left = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    b, meaning = files.litert, {"options_type": "ReducerOptions", "keepDims": False}
    where = b.constant(np.array(axes, np.int32))
    if op in ("ReduceMean", "ReduceSum"):
        unsigned = op == "ReduceSum" and exact == "litert-ref" and dtype == "int8"
        if unsigned:  # the reference kernel reads int8 as uint8
            u = b.unary("QUANTIZE", u, X[0], X[1] + 128, dtype="uint8")
            sums = b.tensor(left, 0.11, Y[1] + 128, dtype="uint8")
            b.operator(code, [u, where], [sums], **meaning)
            z = b.unary("QUANTIZE", sums, 0.11, Y[1])
        else:
            z = b.operator(code, [u, where], [files.tensor(left, 0.11)], **meaning)
    else:
        most = b.operator(code, [u, where], [files.tensor(left, *X)], **meaning)
        z = files.requantized(most, 0.11)
    files.equal(y, z, exact)


@pytest.mark.parametrize("exact", BOTH)
@pytest.mark.parametrize("channels", [3, 8])
def test_transposed_convolutions_of_uint8_are_litert_s(channels, exact):
    files = Files("uint8")
    name = files.onnx.input("x0", (1, 4, 3, 5), "uint8")
    files.shapes["x0"] = (1, 4, 3, 5)
    x, weight = files._given(name, *X), RNG.integers(0, 256, (4, channels, 3, 3)).astype(np.uint8)
    w = files.onnx.node("DequantizeLinear", weight, np.float32(0.004), np.uint8(120))
    y = files.made(files.onnx.node("ConvTranspose", x, w, strides=[2, 2]), 0.1)
    b = files.litert
    order = (
        b.constant(np.array([0, 2, 3, 1], np.int32)),
        b.constant(np.array([0, 3, 1, 2], np.int32)),
    )
    u = b.input((1, 4, 3, 5), X[0], files.zero(X[1]))
    moved = b.operator(
        "TRANSPOSE",
        [u, order[0]],
        [b.tensor((1, 3, 5, 4), X[0], files.zero(X[1]))],
        options_type="TransposeOptions",
    )
    kernel = b.constant(np.ascontiguousarray(weight.transpose(1, 2, 3, 0)), 0.004, 120)
    shape = (1, 7, 11, channels)
    made = b.operator(
        "TRANSPOSE_CONV",
        [b.constant(np.array(shape, np.int32)), kernel, moved],
        [files.tensor(shape, 0.1)],
        options_type="TransposeConvOptions",
        strideH=2,
        strideW=2,
        padding=schema.Padding.VALID,
    )
    ends = [files.tensor((1, channels, 7, 11), 0.1)]
    z = b.operator("TRANSPOSE", [made, order[1]], ends, options_type="TransposeOptions")
    files.equal(y, z, exact)


@pytest.mark.parametrize("exact", BOTH)
@pytest.mark.parametrize("count", [8, 37, 64])
def test_changes_of_scale_round_by_position_as_litert_does(count, exact):
    files = Files()
    x, u = files.input((1, count), 0.0211, 4)
    z = files.requantized(
        files.litert.unary("TANH", u, 1 / 128, 0), 1 / 32, 9
    )  # a quarter are ties
    files.equal(files.made(files.onnx.node("Tanh", x), 1 / 32, 9), z, exact)


@pytest.mark.parametrize("exact", BOTH)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_negations_keep_zero_points(dtype, exact):
    files = Files(dtype)
    x, u = files.input((3, 40))
    number = np.array([0 if dtype == "uint8" else -1], dtype)
    one = files.litert.constant(number, 1.0, 1 if dtype == "uint8" else 0)
    z = files.litert.operator("MUL", [u, one], [files.tensor((3, 40))], options_type="MulOptions")
    files.equal(files.made(files.onnx.node("Neg", x)), z, exact)
    x = np.float32(X[0]) * (np.arange(-128, 128) - X[1])
    files = Files()
    integers = files.input((256,))[0]
    graph = load_onnx(
        files.onnx.build(files.made(files.onnx.node("Neg", integers)), dtype="int8"), "n"
    )
    model = Model.load(graph, exact=exact, options=quick_options())
    made = model.reference({"x0": np.arange(-128, 128).astype(np.int8)})[graph.outputs[0]]
    real = (made.astype(int) - Y[1]) * Y[0]
    limits = (np.array([-128, 127]) - Y[1]) * Y[0]
    assert np.abs(real - np.clip(-x, *limits)).max() <= Y[0]


@pytest.mark.parametrize("exact", BOTH)
@pytest.mark.parametrize(("op", "code"), [("Max", "MAXIMUM"), ("Min", "MINIMUM")])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_maxima_of_tensors_of_other_scales_compare_numbers(dtype, op, code, exact):
    files = Files(dtype)
    x, u = files.input((2, 5, 16))
    b, v = files.input((5, 1), 0.03, -20)
    ends = [files.requantized(u), files.requantized(v)]
    options = {"options_type": "MaximumMinimumOptions"}
    z = files.litert.operator(code, ends, [files.tensor((2, 5, 16))], **options)
    files.equal(files.made(files.onnx.node(op, x, b)), z, exact)


@pytest.mark.parametrize("exact", BOTH)
def test_products_of_two_activations_of_uint8_are_those_of_int8(exact):
    files = Files("uint8")
    x, u = files.input((2, 3, 16))
    b, v = files.input((2, 16, 5), 0.03, -20)
    to = files.litert.unary
    ends = [to("QUANTIZE", u, *X, dtype="int8"), to("QUANTIZE", v, 0.03, -20, dtype="int8")]
    products = files.litert.tensor((2, 3, 5), 0.2, -7, dtype="int8")
    options = {"options_type": "BatchMatMulOptions"}
    y = files.litert.operator("BATCH_MATMUL", ends, [products], **options)
    z = to("QUANTIZE", y, 0.2, files.zero(-7), dtype="uint8")
    files.equal(files.made(files.onnx.node("MatMul", x, b), 0.2), z, exact)


def test_floats_of_moved_integers_are_those_of_flat_positions():
    """ONNX Runtime's tensors come with their axes moved; optimized DEQUANTIZE goes by position."""
    b = OnnxBuilder(opset=18)
    x = b.quantize(b.input("x", (1, 2, 4, 5)), 0.0411, 40)
    factors = RNG.normal(size=(4, 2)).astype(np.float32)
    y = b.node("BatchNormalization", x, *factors[:3], np.abs(factors[3]) + np.float32(0.1))
    graph = load_onnx(b.build(b.quantize(y, 0.0301, 40)), "net")
    model = Model.load(graph, exact="litert-opt", options=quick_options())
    given = [{"x": RNG.normal(size=(1, 2, 4, 5)).astype(np.float32)} for _ in range(3)]
    assert compare_model(model, open_litert_of_onnx(graph, "litert-opt"), given).same
    made = RNG.integers(-128, 128, (1, 4, 5, 2)).astype(np.int8)
    meaning = graph.tensors[graph.nodes[-2].inputs[0]].quantization
    assert meaning is not None
    moved = np.asfortranarray(made)
    same = (dequantize(each, meaning, "litert-opt") for each in (made, moved))  # type: ignore[arg-type]
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize("exact", [*BOTH, "litert-xnnpack"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integers_of_floats_between_two_are_those_of_litert(dtype, exact):
    for count in range(1, 40):
        scale, zero = np.float32(RNG.uniform(0.01, 0.2)), 5 + 128 * (dtype == "uint8")
        values = (RNG.integers(-90, 90, count) + 0.5).astype(np.float32) * scale
        b = Builder(dtype)
        b.inputs.append(b.tensor((count,), dtype="float32"))
        z = b.operator("QUANTIZE", b.inputs, [b.tensor((count,), float(scale), zero)])
        (wanted,) = open_library(b.build(z), "tflite", Exactness(exact))([values])
        meaning = Quantization(np.array([scale]), np.array([zero]))
        np.testing.assert_array_equal(quantize(values, meaning, dtype, Exactness(exact)), wanted)
