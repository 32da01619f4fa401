"""Files that round activations before operators of floats, as ModelOpt, NNCF and brevitas do."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import numpy_helper

from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.calibrate import quantize_onnx
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.onnx_static import run_library
from tpulite_testing.quick_options import quick_options

SHAPE = (1, 3, 12, 12)


class Net:
    """Convolutions that read rounded activations and weights, and give floats."""

    def __init__(self, levels: int = 255, opset: int = 13) -> None:
        self.b, self.levels = OnnxBuilder(opset=opset), levels
        self.rng = np.random.default_rng(5)

    def rounded(self, x: str, high: float) -> str:
        """Round from 0 to ``high``, to fewer levels by a Clip of integers."""
        ends = np.float32(high / self.levels), np.uint8(0)
        x = self.b.node("QuantizeLinear", x, *ends)
        if self.levels < 255:
            x = self.b.node("Clip", x, np.uint8(0), np.uint8(self.levels))
        return self.b.node("DequantizeLinear", x, *ends)

    def weight(self, *shape: int) -> str:
        """Round float weights by channel."""
        values = self.rng.normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(np.float32)
        scales = np.abs(values).max(axis=tuple(range(1, len(shape)))) / np.float32(127)
        ends = scales, np.zeros(len(scales), np.int8)
        x = self.b.node("QuantizeLinear", values, *ends, axis=0)
        return self.b.node("DequantizeLinear", x, *ends, axis=0)

    def build(self, high: float = 4.0) -> bytes:
        b, x = self.b, self.b.input("x", SHAPE)
        for read, made in ((3, 8), (8, 8)):
            bias = self.rng.normal(0, 0.1, made).astype(np.float32)
            y = self.rounded(x, high)
            y = b.node("Conv", y, self.weight(made, read, 3, 3), bias, pads=[1] * 4)
            x = b.node("Relu", b.node("Add", x, y) if read == made else y)
        x = b.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        x = b.node("Flatten", self.rounded(x, high))
        return b.build(b.node("Gemm", x, self.weight(10, 288), transB=1), dtype="float32")


def samples(count: int = 16) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(8)
    return [{"x": rng.uniform(0, 3, SHAPE).astype(np.float32)} for _ in range(count)]


@pytest.mark.parametrize("opset", [13, 19, 21])
@pytest.mark.parametrize(("levels", "high"), [(255, 4.0), (15, 0.5)])
def test_products_of_rounded_floats_become_the_machines(opset, levels, high):
    data = Net(levels, opset).build(high)
    feeds = samples()
    quantized = quantize_onnx(data, feeds)
    model = Model.load(load_onnx(quantized, "net"), options=quick_options())
    assert Model.load(load_onnx(data, "net")).host_macs > model.macs / 2
    assert model.host_macs == 0
    for feed in feeds[:4]:
        (wanted,), (found,) = run_library(data, feed), run_library(quantized, feed)
        noise = np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())
        assert noise < (0.02 if levels == 255 else 0.1)


def test_weights_of_rounded_floats_are_kept():
    data = Net().build()
    written = onnx.load_model_from_string(quantize_onnx(data, samples(), ranges="minmax"))
    kept = [
        numpy_helper.to_array(x) for x in written.graph.initializer if x.name.endswith("_quantized")
    ]
    for tensor in onnx.load_model_from_string(data).graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.ndim > 1:
            scales = np.abs(values).reshape(len(values), -1).max(axis=1) / np.float32(127)
            wanted = np.rint(values / scales.reshape(-1, *(1,) * (values.ndim - 1)))
            assert any(x.shape == wanted.shape and np.array_equal(x, wanted) for x in kept)


def test_ranges_that_clip_stay():
    """The largest inputs change nothing beyond the end of the range."""
    net = Net(15)
    quantized = quantize_onnx(net.build(0.5), samples())
    (large,), (larger,) = (
        run_library(quantized, {"x": np.full(SHAPE, each, np.float32)}) for each in (0.6, 3.0)
    )
    np.testing.assert_array_equal(large, larger)


def test_a_file_of_integers_is_refused():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", SHAPE), 0.03, 3)
    weight = b.weight(np.ones((4, 3, 3, 3), np.int8), 0.01)
    data = b.build(b.quantize(b.node("Relu", b.node("Conv", x, weight)), 0.05, 3))
    with pytest.raises(ValueError, match="already quantized; compile and run it as it is"):
        quantize_onnx(data, samples())


@pytest.mark.parametrize("form", ["output_dtype", "no_zero_point", "explicit"])
def test_types_of_integers_are_those_of_the_file(form):
    net = Net(opset=21)
    b = net.b
    x, scale = b.input("x", SHAPE), np.float32(0.03)
    if form == "output_dtype":
        y = b.node("QuantizeLinear", x, scale, output_dtype=onnx.TensorProto.INT8)
    else:
        point = np.uint8(0) if form == "no_zero_point" else np.int8(0)
        y = b.node("QuantizeLinear", x, scale, *([] if form == "no_zero_point" else [point]))
    y = b.node("Conv", b.node("DequantizeLinear", y, scale), net.weight(8, 3, 3, 3))
    y = b.node("Conv", b.node("Relu", y), net.weight(4, 8, 3, 3))
    rng, low = np.random.default_rng(3), 0 if form == "no_zero_point" else -3
    feeds = [{"x": rng.uniform(low, 3, SHAPE).astype(np.float32)} for _ in range(8)]
    data = b.build(y, dtype="float32")
    (wanted,), (found,) = (
        run_library(each, feeds[0]) for each in (data, quantize_onnx(data, feeds))
    )
    cosine = np.vdot(wanted, found) / np.linalg.norm(wanted) / np.linalg.norm(found)
    assert cosine > 0.995
