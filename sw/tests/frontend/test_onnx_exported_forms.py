"""Forms of Q/DQ files as PyTorch (PT2E, dynamo) and AIMET export them, with LiteRT's numerics."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.frontend.onnx.file import load_onnx
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles.litert_onnx import open_litert_of_onnx
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.quick_options import quick_options

pytest_plugins = ("tpulite_testing.command_line",)


def checked(data: bytes) -> Model:
    """Compare a file with LiteRT's kernels; return the model."""
    graph = load_onnx(data, "net")
    model = Model.load(graph, exact="litert-ref", options=quick_options())
    inputs = [random_inputs(graph, 1, seed) for seed in range(2)]
    compared = compare_model(model, open_litert_of_onnx(graph, "litert-ref"), inputs)
    assert compared.same and compared.elements, str(compared)
    return model


class Exported:
    """A network whose weights have scales of channels, as exporters write them."""

    def __init__(self, *shape: int) -> None:
        self.b, self.rng = OnnxBuilder(opset=18), np.random.default_rng(4)
        self.y = self.b.quantize(self.b.input("x", shape), 0.05, 3)

    def weight(self, *shape: int, axis: int = 0) -> str:
        integers = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = self.rng.uniform(0.002, 0.01, shape[axis]).astype(np.float32)
        zeros = np.zeros(scales.shape, np.int8)
        return self.b.node("DequantizeLinear", integers, scales, zeros, axis=axis)

    def bias(self, size: int) -> np.ndarray:
        return self.rng.normal(size=size).astype(np.float32)

    def conv(self, inputs: int, outputs: int) -> str:
        weight = self.weight(outputs, inputs, 3, 3)
        return self.b.node("Conv", self.y, weight, self.bias(outputs), pads=[1] * 4)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(1, 16), (1, 6, 16), (2, 3, 16)])
def test_weights_are_transposed_behind_their_dequantization(shape, relu):
    net = Exported(*shape)
    for inputs, outputs in ((16, 32), (32, 10)):
        weight = net.b.node("Transpose", net.weight(outputs, inputs), perm=[1, 0])
        y = net.b.node("Add", net.b.node("MatMul", net.y, weight), net.bias(outputs))
        net.y = net.b.quantize(net.b.node("Relu", y) if relu else y, 0.2, 0)
    model = checked(net.b.build(net.y))
    assert (model.cpu_share, len(model.programs), model.crossings) == (0, 1, 2)


@pytest.mark.parametrize("kernel", [2, 8])
def test_average_pools_that_are_quantized_anew_run_on_the_machine(kernel):
    net = Exported(1, 3, 8, 8)
    net.y = net.b.quantize(net.b.node("Relu", net.conv(3, 8)), 0.1, -128)
    y = net.b.node("AveragePool", net.y, kernel_shape=[kernel] * 2, strides=[kernel] * 2)
    net.y = net.b.quantize(y, 0.04, -100)
    model = checked(net.b.build(net.b.quantize(net.conv(8, 4), 0.1, 0)))
    assert (model.cpu_share, len(model.programs)) == (0, 1)


def test_concatenations_of_several_scales_run_on_the_machine():
    net = Exported(1, 3, 8, 8)
    parts = [net.b.quantize(net.conv(3, 16), scale, zero) for scale, zero in ((0.1, 0), (0.07, 9))]
    net.y = net.b.quantize(net.b.node("Concat", *parts, net.y, axis=1), 0.1, 0)
    model = checked(net.b.build(net.b.quantize(net.conv(35, 4), 0.2, 0)))
    assert (model.cpu_share, len(model.programs), model.crossings) == (0, 1, 2)


@pytest.mark.parametrize("clip", [None, 0, 6])
@pytest.mark.parametrize("known", [False, True])
def test_constants_are_concatenated_and_results_are_clipped(known, clip):
    """As the token of a class before those of a picture."""
    net = Exported(1, 8, 16)
    token = net.rng.normal(size=(1, 2, 16)).astype(np.float32)
    token = net.b.quantize(token if known else net.b.input("z", token.shape), 0.02, 7)
    y = net.b.node("Concat", token, net.y, axis=1)
    if clip is not None:
        ends = [np.float32(0), np.float32(clip)][: 2 if clip else 1]
        y = net.b.node("Clip", y, *ends)
    net.y = net.b.quantize(y, 0.05, -9)
    y = net.b.node("MatMul", net.y, net.weight(16, 12, axis=1))
    model = checked(net.b.build(net.b.quantize(y, 0.1, 0)))
    assert (model.cpu_share, len(model.programs)) == (0, 1)


def test_what_only_the_optimizer_of_onnx_runtime_rejects_names_other_numerics(tpulite, tmp_path):
    net = Exported(1, 3, 8, 8)
    net.b = OnnxBuilder(opset=21)
    scale, kind = np.float32(0.05), {"output_dtype": onnx.TensorProto.INT8}
    y = net.b.node("QuantizeLinear", net.b.input("x", (1, 3, 8, 8)), scale, **kind)
    net.y = net.b.node("DequantizeLinear", y, scale)
    y = net.b.node("QuantizeLinear", net.conv(3, 4), scale, **kind)
    data = net.b.build(net.b.node("DequantizeLinear", y, scale))
    (tmp_path / "net.onnx").write_bytes(data)
    assert checked(data).cpu_share == 0
    code, out, err = tpulite("inspect", "net.onnx", "--exact", "ort-int8")
    assert code == 0 or (code, out, err.count("\n")) == (2, "", 1)
    assert code == 0 or "net: ONNX Runtime's optimizer rejects it (--exact litert-ref" in err


def test_integers_of_one_scale_are_concatenated_before_they_are_floats():
    net = Exported(1, 3, 8, 8)
    parts = [net.b.quantize(net.conv(3, 16), 0.1, 0) for _ in range(2)]
    model = checked(net.b.build(net.b.node("Concat", *parts, axis=1)))
    assert (model.cpu_share, len(model.programs), model.crossings) == (0, 1, 2)


@pytest.mark.parametrize(
    "window",
    [
        (4, 2, [1] * 4, 0),
        (3, 2, [1] * 4, 1),
        (3, 1, [1] * 4, 0),
        (5, 3, [2] * 4, 2),
        (3, 2, [0, 0, 1, 1], 0),
        (3, 1, [0, 1, 1, 0], 0),
    ],
)
def test_transposed_convolutions_with_padding_are_those_of_whole_windows(window):
    kernel, stride, pads, more = window
    net = Exported(1, 4, 6, 6)
    weight = net.weight(4, 8, kernel, kernel, axis=1)
    sizes = {"strides": [stride] * 2, "pads": pads, "output_padding": [more] * 2}
    y = net.b.node("ConvTranspose", net.y, weight, net.bias(8), **sizes)
    model = checked(net.b.build(net.b.quantize(y, 0.1, 0)))
    assert (model.cpu_share, len(model.programs)) == (0, 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
def test_curves_of_any_scale_run_on_the_machine(op, dtype):
    net = Exported(1, 3, 8, 8)
    net.y = net.b.quantize(net.conv(3, 8), 0.05, 0)
    zero = 0 if dtype == "int8" else 128
    net.y = net.b.quantize(
        net.b.node(op, net.b.quantize(net.y, 0.05, zero, dtype)), 0.0075, zero, dtype
    )
    model = checked(net.b.build(net.b.quantize(net.conv(8, 4), 0.1, 0)))
    assert (model.cpu_share, len(model.programs)) == (0, 1)


def test_average_pools_count_their_padding():
    net = Exported(1, 4, 6, 6)
    y = net.b.node("AveragePool", net.y, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    assert checked(net.b.build(net.b.quantize(y, 0.05, 3))).cpu_share == 0


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_softmax_over_other_axes_than_channels_is_compared(axis):
    net = Exported(1, 4, 6, 6)
    net.y = net.b.quantize(net.conv(4, 4), 0.05, 0)
    y = net.b.quantize(net.b.node("Softmax", net.y, axis=axis), 1 / 256, -128)
    checked(net.b.build(y))
