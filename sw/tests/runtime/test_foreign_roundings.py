"""Files with LiteRT's numerics whose floats ONNX Runtime computes in the middle."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.partition import HostSegment
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles.litert_onnx import open_litert_of_onnx
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.quick_options import quick_options


class Net:
    """Small convolutions, quantized, and operators that stay in floats between them."""

    def __init__(self) -> None:
        self.b, self.rng = OnnxBuilder(opset=17), np.random.default_rng(2)
        self.x = self.b.quantize(self.b.input("x", (1, 3, 12, 12)), 0.03, 3)

    def conv(self, x: str, channels: int, made: int, kernel: int = 3) -> str:
        values = self.rng.integers(-127, 128, (made, channels, kernel, kernel)).astype(np.int8)
        weight = self.b.weight(values, 0.004)
        y = self.b.node("Conv", x, weight, pads=[kernel // 2] * 4)
        return self.b.quantize(y, 0.05, -4)

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        values = self.rng.integers(-127, 128, (inputs, outputs)).astype(np.int8)
        return self.b.node("MatMul", x, self.b.weight(values, 0.004))

    def resize(self, x: str, mode: str, scale: float) -> str:
        """Interpolate; halves of steps are frequent."""
        scales = np.array([1, 1, scale, scale], np.float32)
        y = self.b.node("Resize", x, "", scales, mode=mode)
        return self.b.quantize(y, 0.05, -4)


def checked(data: bytes, exact: str = "litert-ref", count: int = 6) -> Model:
    """Compare a file with LiteRT's kernels; return the model."""
    graph = load_onnx(data, "net")
    model = Model.load(graph, exact=exact, options=quick_options())
    rng = np.random.default_rng(3)
    samples = [
        {x: np.float32(rng.normal(size=graph.tensors[x].shape)) for x in graph.inputs}
        for _ in range(count)
    ]
    assert compare_model(model, open_litert_of_onnx(graph, exact), samples).same
    return model


@pytest.mark.parametrize("exact", ["litert-ref", "litert-opt"])
def test_what_rounds_behind_floats_rounds_as_litert_does(exact):
    net = Net()
    y = net.resize(net.conv(net.x, 3, 5), "linear", 4)
    model = checked(net.b.build(net.b.node("ArgMax", y, axis=1, keepdims=0), dtype="int64"), exact)
    hosts = [each for each in model.segments if isinstance(each, HostSegment)]
    owns = [{node.op for node in each.nodes} for each in hosts if not each.library]
    assert {"quantize", "dequantize"} in owns


def test_small_products_between_floats_stay_on_the_machine():
    net = Net()
    y = net.conv(net.conv(net.x, 3, 16), 16, 8)
    for _ in range(2):
        y = net.conv(net.resize(y, "cubic", 1.5), 8, 8, kernel=1)
    model = checked(net.b.build(y))
    assert [each.where for each in model.summary()].count("MXU") == 4


def test_results_whose_shape_the_data_decide_are_compared():
    net = Net()
    y = net.b.node("Reshape", net.conv(net.x, 3, 4), np.array([1, -1, 4]))
    scores = net.b.node("Reshape", net.conv(net.x, 3, 1), np.array([1, 1, -1]))
    limits = np.array([3]), np.float32([0.5]), np.float32([0.3])
    checked(net.b.build(net.b.node("NonMaxSuppression", y, scores, *limits), dtype="int64"))


@pytest.mark.parametrize("exact", ["litert-ref", "litert-xnnpack"])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_pairs_between_floats_run_in_numpy(op, exact):
    net = Net()
    y = net.conv(net.resize(net.conv(net.x, 3, 16), "cubic", 2), 16, 16)
    y = net.resize(y, "cubic", 0.5)
    by = net.b.quantize(net.rng.normal(size=(1, 16, 1, 1)).astype(np.float32), 0.02, 5)
    y = net.b.quantize(net.b.node(op, y, by), 0.06, 9)
    y = net.b.quantize(net.b.node(op, y, net.b.node("Sqrt", y)), 0.04, 1)
    y = net.resize(net.b.quantize(net.b.node(op, y, y), 0.07, -20), "cubic", 2)
    model = checked(net.b.build(net.conv(y, 16, 8)), exact)
    hosts = [each for each in model.segments if isinstance(each, HostSegment)]
    owns = {node.op for each in hosts if not each.library for node in each.nodes}
    assert op.lower() in owns


@pytest.mark.parametrize("last", ["none", "Relu", "Softmax"])
def test_products_of_rows_whose_results_stay_in_floats_are_compared(last):
    net = Net()
    y = net.b.node("Reshape", net.conv(net.x, 3, 16), np.array([2, 72, 16]))
    y = net.dense(net.b.quantize(net.dense(y, 16, 16), 0.1, -4), 16, 12)
    y = y if last == "none" else net.b.node(last, y)
    checked(net.b.build(net.b.quantize(y, 0.01, 0) if last == "Softmax" else y))


@pytest.mark.parametrize("numbers", ["of the machine", "of ONNX Runtime", "given"])
def test_numbers_without_axes_pass_between_parts(numbers):
    net = Net()
    y = net.conv(net.x, 3, 8)
    if numbers == "given":
        number = net.b.node("Exp", net.b.input("s", ()))
    else:
        number = net.b.quantize(net.b.node("ReduceMean", y, keepdims=0), 0.02, -100)
        number = net.b.node("Sqrt", net.b.node("Abs", number))
    y = net.b.quantize(net.b.node("Mul", y, number), 0.3, 2)
    checked(net.b.build(y if numbers == "of ONNX Runtime" else net.conv(y, 8, 8)))


#: Functions, and scales and zero points, of which LiteRT and ONNX Runtime round a byte otherwise.
UNDECIDED = [
    ("Sigmoid", "int8", (0.04284187778830528, -13), (1 / 256, -128)),
    ("Sigmoid", "uint8", (0.03151920810341835, 115), (1 / 256, 0)),
    ("Tanh", "uint8", (0.0441114604473114, 179), (1 / 128, 128)),
    ("Tanh", "uint8", (0.0441114604473114, 179), (0.0075, 100)),
    ("Log", "int8", (0.08044308423995972, 57), (0.0872570052742958, 19)),
    ("Gelu", "int8", (0.09074966609477997, -41), (0.046254679560661316, -88)),
    ("Gelu", "uint8", (0.06898894906044006, 3), (0.09410800784826279, 74)),
]


@pytest.mark.parametrize(("op", "dtype", "given", "made"), UNDECIDED)
@pytest.mark.parametrize("shape", [(256,), (8, 37), (2, 5, 27), (1, 4, 5, 13)])
def test_functions_that_only_litert_knows_are_looked_up(op, dtype, given, made, shape):
    b, low = OnnxBuilder(opset=20), np.iinfo(dtype).min
    y = b.node(op, b.quantize(b.input("x", shape), *given, dtype=dtype))
    graph = load_onnx(b.build(b.quantize(y, *made, dtype=dtype)), "net")
    integers = np.resize(np.arange(low, low + 256), shape) - given[1]
    sample = {"x": integers.astype(np.float32) * np.float32(given[0])}
    model = Model.load(graph, exact="litert-ref", options=quick_options())
    assert model.crossings == 2 and "table" in {node.op for node in model.graph.nodes}
    assert compare_model(model, open_litert_of_onnx(graph, "litert-ref"), [sample]).same


#: Functions that LiteRT has, but not of such integers: one of a file's library, of floats.
OF_FLOATS = [
    ("Elu", "int8", "litert-ref", {}),
    ("Elu", "int8", "litert-opt", {"alpha": 0.5}),
    *((op, "uint8", "litert-opt", {}) for op in ("Abs", "Elu", "Exp", "Log", "Neg", "Sqrt")),
]


@pytest.mark.parametrize(("op", "dtype", "exact", "flags"), OF_FLOATS)
def test_functions_that_litert_has_of_other_types_are_compared(op, dtype, exact, flags):
    b = OnnxBuilder(opset=20)
    zero = 128 * (dtype == "uint8")
    y = b.node(op, b.quantize(b.input("x", (8, 16)), 0.05, zero, dtype), **flags)
    checked(b.build(b.quantize(y, 0.04, zero, dtype)), exact, 1)
