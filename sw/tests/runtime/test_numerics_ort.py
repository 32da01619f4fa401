"""Quantized ONNX files: every output is that of an ordinary session on the untouched file."""

import numpy as np
import onnxruntime
import pytest

from tpulite_testing.oracles.onnx_session import open_onnx

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
import onnx
from onnx import TensorProto, helper
from onnxruntime import quantization

from tpulite.frontend.onnx import library
from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.onnx.library import open_session
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.quick_options import quick_options

RNG = np.random.default_rng(2024)
SHAPE = (1, 8, 6, 6)


def session(data: bytes, *, keep_int8: bool = False) -> onnxruntime.InferenceSession:
    """Open an ordinary session, but for one entry."""
    return open_onnx(data, keep_int8=keep_int8)


def equals_session(data: bytes, exact: str = "ort", count: int = 20) -> Model:
    """Compare all outputs of compiled programs; return the model."""
    model = Model.load(load_onnx(data, "net"), exact=exact, options=quick_options())
    library = session(data, keep_int8=exact == "ort-int8")
    inputs = random_inputs(model.graph, count, 5)
    results = model.run(inputs)
    names = [output.name for output in library.get_outputs()]
    for index in range(count):
        given = {name: values[index : index + 1] for name, values in inputs.items()}
        for name, expected in zip(names, library.run(None, given), strict=True):
            ours = results.outputs[name].reshape(count, *expected.shape)[index]
            np.testing.assert_array_equal(ours, expected, err_msg=name)
    return model


class Net:
    """A network of one type of activations."""

    def __init__(self, dtype: str) -> None:
        self.b, self.dtype = OnnxBuilder(opset=18), dtype
        self.middle = -7 if dtype == "int8" else 121
        self.x = self.quantized(self.b.input("x", SHAPE))

    def quantized(self, x: str, scale: float = 0.0517, more: int = 0) -> str:
        return self.b.quantize(x, scale, self.middle + more, self.dtype)

    def conv(self, x: str, kernel: int = 3, outputs: int = 8, more: int = 0) -> str:
        weight = RNG.integers(-127, 128, (outputs, 8, kernel, kernel)).astype(np.int8)
        scales = RNG.uniform(0.002, 0.009, outputs)
        pads = [kernel // 2] * 4
        y = self.b.node("Conv", x, self.b.weight(weight, scales), pads=pads)
        return self.quantized(y, more=more)


def average_pool(net):
    y = net.b.node("AveragePool", net.conv(net.x), kernel_shape=[2, 2], strides=[2, 2])
    return net.quantized(y)


def softmax(net):
    return net.quantized(net.b.node("Softmax", net.conv(net.x), axis=1), 1 / 256)


def branches(net):
    x = net.conv(net.x)
    pool = net.b.node("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)
    ends = [net.conv(x, 1), net.conv(net.conv(x, 1)), net.conv(net.quantized(pool), 1)]
    return net.quantized(net.b.node("Concat", *ends, axis=1), 0.0611)


def silu_block(net):
    x = net.conv(net.x)
    y = net.b.node("Mul", x, net.quantized(net.b.node("Sigmoid", x), 1 / 256))
    y = net.quantized(y, 0.0317)
    return net.quantized(net.b.node("Add", y, net.conv(y)), 0.0711)


def relu_in_the_middle(net):
    weight = net.b.weight(RNG.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8), 0.004)
    y = net.quantized(net.b.node("Relu", net.b.node("Conv", net.x, weight)))
    return net.conv(y)


def shared_weights(net):
    values = RNG.integers(-127, 128, (8, 8, 1, 1)).astype(np.int8)
    ends, y = (np.float32(0.004), np.int8(0)), net.x
    for same in (values, net.b.node("Identity", net.b.constant(values))):
        weight = net.b.node("DequantizeLinear", same, *ends)
        y = net.quantized(net.b.node("Conv", y, weight))
    return y


def float_weights(net):
    values = RNG.normal(size=(8, 8, 3, 3)).astype(np.float32)
    return net.quantized(net.b.node("Conv", net.x, net.b.quantize(values, 0.03, 0)))


def normalized(net):
    weight = net.b.weight(RNG.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8), 0.004)
    ends = RNG.uniform(0.5, 1.5, (4, 8)).astype(np.float32)
    y = net.b.node("BatchNormalization", net.b.node("Conv", net.x, weight), *ends)
    return net.quantized(net.b.node("Clip", y, np.float32(0), np.float32(6)))


def clipped_integers(net):
    """Quantize to fewer values than the type has, as brevitas does."""
    b = net.b
    ends = np.float32(0.0517), np.array(net.middle, net.dtype)
    bounds = [np.array(bound, net.dtype) for bound in (net.middle - 100, net.middle + 100)]
    x = b.node("QuantizeLinear", net.x, *ends)
    x = b.node("DequantizeLinear", b.node("Clip", x, *bounds), *ends)
    return net.conv(x)


def negative_scale(net):
    y = net.b.node("MaxPool", net.conv(net.x), kernel_shape=[2, 2])
    return net.b.quantize(y, -0.05, net.middle, net.dtype)


NETS = [
    *(average_pool, softmax, branches, silu_block, relu_in_the_middle, shared_weights),
    *(float_weights, normalized, clipped_integers, negative_scale),
]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("exact", ["ort", "ort-int8"])
@pytest.mark.parametrize("draw", NETS)
def test_outputs_are_those_of_an_ordinary_session(draw, exact, dtype):
    net = Net(dtype)
    equals_session(net.b.build(draw(net)), exact)


@pytest.mark.parametrize("draw", [branches, silu_block])
def test_products_of_int8_are_integers_by_a_name_of_its_own(draw):
    net = Net("int8")
    data = net.b.build(draw(net))
    model = Model.load(load_onnx(data, "net"))
    reasons = {each.reason for each in model.summary() if each.macs and each.where == "host"}
    assert reasons and all("--exact ort-int8 computes in integers" in reason for reason in reasons)
    model = Model.load(load_onnx(data, "net"), exact="ort-int8")
    assert model.macs > 0 and model.host_macs == 0


def test_files_that_clip_int8_are_of_integers_by_default_and_say_so():
    net = Net("int8")
    model = Model.load(load_onnx(net.b.build(clipped_integers(net)), "net"))
    assert model.macs > 0 and model.host_macs == 0
    assert model.statement().startswith("numerics: ort-int8 (ONNX Runtime with session.qdqi")
    net = Net("uint8")
    model = Model.load(load_onnx(net.b.build(clipped_integers(net)), "net"))
    assert model.host_macs == 0 and model.statement().startswith("numerics: ort;")


def test_tensors_that_become_uint8_keep_the_names_of_the_file():
    net = Net("int8")
    model = Model.load(load_onnx(net.b.build(average_pool(net)), "net"))
    named = [name for name in model.graph.tensors if "uint8" in name]
    computed = {name for node in net.b.nodes for name in node.output}
    assert named and {name.partition("/uint8")[0] for name in named} <= computed


@pytest.mark.parametrize("form", ["conv", "padded conv", "matrix"])
def test_dynamically_quantized_products_are_the_machines(form):
    builder = OnnxBuilder(opset=18)
    x = builder.input("x", (1, 128) if form == "matrix" else SHAPE)
    y = [f"dynamic{index}" for index in range(3)]
    quantization = helper.make_node("DynamicQuantizeLinear", [x], y, name="dynamic")
    builder.nodes.append(quantization)
    if form == "matrix":
        weight = RNG.integers(-127, 128, (128, 64)).astype(np.int8)
        sums = builder.node("MatMulInteger", y[0], weight, y[2], np.int8(0))
    else:
        weight = RNG.integers(-127, 128, (5, 8, 3, 3)).astype(np.int8)
        pads = [1, 0, 2, 1] if form == "padded conv" else [0] * 4
        sums = builder.node("ConvInteger", y[0], weight, y[2], np.int8(0), pads=pads)
    scale = builder.node("Mul", y[1], np.float32(0.013))
    real = builder.node("Relu", builder.node("Cast", sums, to=TensorProto.FLOAT))
    model = equals_session(builder.build(builder.node("Div", real, scale)), count=5)
    assert model.macs > 0 and model.host_macs == 0


@pytest.mark.parametrize(
    ("per_channel", "weights"), [(False, "QInt8"), (True, "QInt8"), (False, "QUInt8")]
)
def test_products_of_files_by_quantize_dynamic_are_the_machines(tmp_path, per_channel, weights):
    """An ordinary session joins them to DynamicQuantizeMatMul and MatMulIntegerToFloat."""
    kinds = quantization.QuantType
    model = onnx.load_model_from_string(two_heads())
    before, after = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    onnx.save(model, before)
    quantization.quantize_dynamic(
        before, after, per_channel=per_channel, weight_type=getattr(kinds, weights)
    )
    model = equals_session(after.read_bytes(), count=5)
    assert model.macs > 0 and model.host_macs == 0


def two_heads() -> bytes:
    """Return a file of floats: two products of the same three axes, and one of their sum."""
    b = OnnxBuilder()
    x = b.input("x", (1, 16, 32))
    heads = []
    for _ in range(2):
        weight, bias = RNG.normal(size=(32, 64)), RNG.normal(size=64)
        y = b.node("MatMul", x, weight.astype(np.float32))
        heads.append(b.node("Relu", b.node("Add", y, bias.astype(np.float32))))
    whole = b.node("Reshape", b.node("Add", *heads), np.array([16, 64]))
    last = RNG.normal(size=(64, 48)).astype(np.float32)
    return b.build(b.node("Gemm", whole, last, RNG.normal(size=48).astype(np.float32)))


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ((1, 16, 32), (2, 8, 64), "none"),
        ((16, 32), (4, 4, 64), "none"),
        ((16, 32), (8, 128), "host"),
        ((16, 32), (1, 1024), "host"),
    ],
)
def test_sums_get_another_shape(before, after, where):
    b = OnnxBuilder()
    sums = product_of_rows(b, before)
    y = b.node("Reshape", sums, np.array(after), name="shape")
    model = equals_session(b.build(y, dtype="int32"), count=5)
    assert model.macs > 0 and model.host_macs == 0
    assert [x.where for x in model.summary() if x.name == "shape"] == [where]


def test_sums_are_outputs_of_two_shapes():
    b = OnnxBuilder()
    sums = product_of_rows(b, (16, 32))
    both = sums, b.node("Reshape", sums, np.array([4, 4, 64]))
    assert equals_session(b.build(*both, dtype="int32"), count=5).host_macs == 0


def product_of_rows(b: OnnxBuilder, shape: tuple[int, ...]) -> str:
    """Multiply 16 rows of a shape by a matrix."""
    rows = b.node("Reshape", b.input("x", (1, 16, 32), "uint8"), np.array(shape))
    weight = RNG.integers(-127, 128, (32, 64)).astype(np.int8)
    return b.node("MatMulInteger", rows, weight, np.uint8(128))


@pytest.fixture(params=[False, True], ids=["own", "saturates"])
def _kernels(request, monkeypatch):
    """Take the CPU as it is, or for one whose default kernels saturate."""
    if request.param:
        monkeypatch.setattr(library, "_saturates", lambda: True)


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("shared", ["nothing", "zero point", "weight"])
def test_large_products_of_uint8_and_int8_do_not_saturate(shared):
    """Where AVX2 is without VNNI an ordinary session adds their pairs in int16."""
    b, x = OnnxBuilder(), RNG.integers(200, 256, (8, 64)).astype(np.uint8)
    weights = [RNG.integers(100, 128, (64, 32)).astype(np.int8) for _ in range(2)]
    points = [b.constant(np.int8(0)) for _ in weights]
    names = [b.constant(weight) for weight in weights]
    if shared != "nothing":
        points = points[:1] * 2
    if shared == "weight":
        names, weights = names[:1] * 2, weights[:1] * 2
    read = b.input("x", x.shape, "uint8")
    pairs = zip(names, points, strict=True)
    sums = [b.node("MatMulInteger", read, name, np.uint8(0), point) for name, point in pairs]
    data = b.build(*sums, dtype="int32")
    for opened in (open_onnx(data), open_session(data, "ENABLE_ALL")):
        for found, weight in zip(opened.run(None, {"x": x}), weights, strict=True):
            np.testing.assert_array_equal(found, x.astype(np.int64) @ weight)


@pytest.mark.usefixtures("_kernels")
def test_products_of_a_weight_that_two_branches_share_do_not_saturate():
    b, step = OnnxBuilder(), 1 << 13
    factors = RNG.integers(100, 128, (64, 8)).astype(np.int8)
    weight = b.weight(factors, 1.0)
    inputs = [b.quantize(b.input(name, (4, 64)), 1.0, 0, "uint8") for name in ("x", "z")]
    products = [b.node("MatMul", x, weight) for x in inputs]
    data = b.build(*(b.quantize(y, step, 0, "uint8") for y in products), dtype="float32")
    feeds = {name: RNG.integers(200, 256, (4, 64)).astype(np.float32) for name in ("x", "z")}
    for opened in (open_onnx(data), open_session(data, "ENABLE_ALL")):
        for found, x in zip(opened.run(None, feeds), feeds.values(), strict=True):
            exact = x.astype(np.int64) @ factors.astype(np.int64)
            np.testing.assert_array_equal(found, np.rint(exact / step) * step)


@pytest.mark.usefixtures("_kernels")
def test_weights_may_leave_out_zero_points_of_channels():
    """With x64quantprecision alone, ONNX Runtime stops in the run."""

    def network(*points: np.ndarray) -> bytes:
        b, rng = OnnxBuilder(opset=13), np.random.default_rng(3)
        x = b.quantize(b.input("x", (1, 32)), 0.03, 120, "uint8")
        values = rng.integers(-127, 128, (10, 32)).astype(np.int8)
        scales = np.full(10, 0.01, np.float32)
        weight = b.node("DequantizeLinear", values, scales, *points, axis=0)
        return b.build(b.node("Gemm", x, weight, np.ones(10, np.float32), transB=1))

    x = {"x": RNG.normal(size=(1, 32)).astype(np.float32)}
    for opened in (open_onnx, lambda data: open_session(data, "ENABLE_ALL")):
        (wanted,) = opened(network(np.zeros(10, np.int8))).run(None, x)
        np.testing.assert_array_equal(opened(network()).run(None, x)[0], wanted)


@pytest.mark.usefixtures("_kernels")
def test_literal_products_of_opset_21_do_not_saturate():
    """ONNX Runtime's own change of int8 weights knows QLinearMatMul of version 10 alone."""
    b, step, zero = OnnxBuilder(opset=21), np.float32(1 << 13), np.uint8(0)
    x = RNG.integers(200, 256, (4, 64)).astype(np.uint8)
    weight = RNG.integers(100, 128, (64, 64)).astype(np.int8)
    channels = np.ones(64, np.float32), np.zeros(64, np.int8)
    read = b.input("x", x.shape, "uint8")
    y = b.node("QLinearMatMul", read, np.float32(1), zero, weight, *channels, step, zero)
    data, exact = b.build(y, dtype="uint8"), x.astype(np.int64) @ weight.astype(np.int64)
    for opened in (open_onnx(data), open_session(data, "ENABLE_ALL")):
        (found,) = opened.run(None, {"x": x})
        np.testing.assert_array_equal(found, np.rint(exact / step))


@pytest.mark.skipif(library._saturates(), reason="an ordinary session saturates on this CPU")
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_ties_of_a_constant_by_channel_are_an_ordinary_sessions(tmp_path, op):
    """With uint8 constants, as x64quantprecision makes them, QLinearMul rounds ties otherwise."""
    b, step, channels = OnnxBuilder(), np.float32(0.03), np.arange(-95, 97, 8, dtype=np.int8)
    x = b.quantize(b.input("x", (1, 256, len(channels))), 0.02, 121, "uint8")
    y = b.quantize(b.node(op, x, b.weight(channels, 0.01)), float(step), 7, "uint8")
    data = b.build(y, dtype="float32")
    every = np.repeat((np.arange(256, dtype=np.float32) - 121)[:, None] * np.float32(0.02), 24, 1)
    ordinary = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (wanted,) = ordinary.run(None, {"x": every[None]})
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    model = Model.load(path, options=quick_options())
    assert np.array_equal(model.run({"x": every[None]}).output, wanted)
    (found,) = open_session(data, "ENABLE_ALL").run(None, {"x": every[None]})
    assert np.array_equal(found, wanted)
