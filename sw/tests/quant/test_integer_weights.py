"""``quantize`` of ONNX files whose weights are integers already, as ONNX Runtime's tools write."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.capi import _pybind_state as packing

from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.onnx.library import open_session
from tpulite.quant.calibrate import fixed_batch, has_integers, quantize_onnx
from tpulite.quant.quality_onnx import measure_quality
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

pytest_plugins = ("tpulite_testing.command_line",)

RNG = np.random.default_rng(7)
ROWS, INPUTS, HIDDEN, CLASSES = 4, 64, 96, 10


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


WEIGHTS = [draw(INPUTS, HIDDEN) / 8, draw(HIDDEN, CLASSES) / 9]
BIASES = [draw(HIDDEN) / 4, draw(CLASSES) / 4]
SAMPLES = draw(32, ROWS, INPUTS)

Product = Callable[[OnnxBuilder, str, np.ndarray], str]


def floats(b: OnnxBuilder, x: str, weight: np.ndarray) -> str:
    return b.node("MatMul", x, weight)


def dense(product: Product, opset: int = 21) -> bytes:
    """Return a file of two products by a form of weights."""
    b = OnnxBuilder(opset=opset)
    y = b.input("x", (ROWS, INPUTS))
    for weight, bias in zip(WEIGHTS, BIASES, strict=True):
        y = b.node("Add", product(b, y, weight), bias)
        y = b.node("Relu", y) if weight is WEIGHTS[0] else y
    return b.build(y, dtype="float32")


def image() -> bytes:
    b = OnnxBuilder()
    x = b.input("x", (1, 3, 8, 8))
    y = b.node("Relu", b.node("Conv", x, draw(16, 3, 3, 3) / 5, draw(16), pads=[1] * 4))
    y = b.node("Flatten", b.node("GlobalAveragePool", b.node("Conv", y, draw(8, 16, 3, 3) / 9)))
    return b.build(b.node("Gemm", y, draw(8, CLASSES), draw(CLASSES)))


def table() -> bytes:
    """Return a file that looks up rows of a table."""
    b = OnnxBuilder()
    y = b.node("Tanh", b.node("Gather", draw(20, INPUTS), b.input("x", (ROWS,), "int64")))
    return b.build(b.node("MatMul", y, WEIGHTS[0]))


def dynamic(data: bytes, folder, *, per_channel: bool = False, kind: str = "QInt8") -> bytes:
    before, after = folder / "float.onnx", folder / "dynamic.onnx"
    before.write_bytes(data)
    weight_type = getattr(quantization.QuantType, kind)
    quantization.quantize_dynamic(before, after, per_channel=per_channel, weight_type=weight_type)
    return after.read_bytes()


def channels(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 weights and their scales; the largest of a channel is not 127."""
    scales = (np.abs(weight).max(axis=0) / 60).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales


def cast(b: OnnxBuilder, x: str, weight: np.ndarray) -> str:
    values, scales = channels(weight)
    real = b.node("Cast", b.constant(values), to=TensorProto.FLOAT)
    return b.node("MatMul", x, b.node("Mul", real, scales[None]))


def dequantized(b: OnnxBuilder, x: str, weight: np.ndarray) -> str:
    values, scales = channels(weight)
    return b.node("MatMul", x, b.weight(values, scales, axis=1))


def blocks(bits: int, symmetric: bool) -> Product:
    """Return products by MatMulNBits, their weights packed by ONNX Runtime."""
    size = 32

    def product(b: OnnxBuilder, x: str, weight: np.ndarray) -> str:
        k, n = weight.shape
        count = -(-k // size)
        packed = np.zeros((n, count, size * bits // 8), np.uint8)
        scales = np.zeros(n * count, np.float32)
        points = np.zeros(n * -(-count * bits // 8), np.uint8)
        quantize = getattr(packing, f"quantize_matmul_{bits}bits")
        quantize(packed, weight, scales, points, size, n, k, symmetric)
        names = [x, *(b.constant(x) for x in (packed, scales))]
        names += [] if symmetric else [b.constant(points)]
        y = f"sum{len(b.nodes)}"
        sizes = {"K": k, "N": n, "bits": bits, "block_size": size}
        b.nodes.append(helper.make_node("MatMulNBits", names, [y], domain="com.microsoft", **sizes))
        return y

    return product


def block_scales(b: OnnxBuilder, x: str, weight: np.ndarray) -> str:
    values, size = weight.reshape(-1, 16, weight.shape[1]), 16
    scales = np.abs(values).max(axis=1) / 7
    packed = np.rint(values / scales[:, None]).reshape(weight.shape)
    names = b.constant(np.zeros(0, np.int8)), b.constant(scales.astype(np.float32))
    b.constants[-2] = helper.make_tensor(
        names[0], TensorProto.INT4, weight.shape, packed.astype(np.int64).ravel()
    )
    return b.node("MatMul", x, b.node("DequantizeLinear", *names, axis=0, block_size=size))


EXACT = {
    "cast": cast,
    "dequantized": dequantized,
    "block scales": block_scales,
    **{
        f"{bits} bits, symmetric {symmetric}": blocks(bits, symmetric)
        for bits in (4, 8)
        for symmetric in (False, True)
    },
}


@pytest.mark.parametrize("form", EXACT)
def test_the_float_network_is_what_the_file_computes(form):
    data = dense(EXACT[form])
    for x in SAMPLES[:4]:
        (wanted,), (found,) = run_onnx(data, x), run_onnx(fixed_batch(data), x)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def run_whole(data, x):
    """Run a file in a session in which no products saturate, whatever the CPU."""
    session = open_session(data, "ENABLE_ALL")
    return session.run(None, {session.get_inputs()[0].name: x})


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("make", [lambda: dense(floats, 17), image, table])
def test_the_float_network_of_dynamic_quantization_differs_by_roundings(
    tmp_path, make, per_channel, kind
):
    data = dynamic(make(), tmp_path, per_channel=per_channel, kind=kind)
    network = fixed_batch(data)
    assert has_integers(data) and not has_integers(network)
    operators = {node.op_type for node in onnx.load_model_from_string(network).graph.node}
    assert not operators & {"Cast", "Mul", "DynamicQuantizeLinear", "DequantizeLinear"}
    (value,) = onnx.load_model_from_string(data).graph.input
    shape = [extent.dim_value for extent in value.type.tensor_type.shape.dim]
    x = np.arange(ROWS) * 3 if make is table else draw(*shape)
    (wanted,), (found,) = run_whole(data, x), run_onnx(network, x)
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


@pytest.mark.parametrize("form", ["cast", "dequantized", "dynamic", "dynamic by channels"])
def test_weights_of_int8_are_kept(tmp_path, form):
    if form in EXACT:
        data = dense(EXACT[form])
        wanted = [channels(weight)[0] for weight in WEIGHTS]
    else:
        data = dynamic(dense(floats, 17), tmp_path, per_channel="channels" in form)
        wanted = int8_matrices(data)
    found = int8_matrices(quantize_onnx(data, SAMPLES))
    for before, after in zip(wanted, found, strict=True):
        factors = np.abs(after).max(axis=0) // np.abs(before).max(axis=0)
        np.testing.assert_array_equal(after, before.astype(np.int64) * factors)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (4, 1)])
def test_factors_of_sums_are_those_of_columns(shape):
    b = OnnxBuilder()
    x, scale, zero = b.outputs("DynamicQuantizeLinear", 3, b.input("x", (4, 4)))
    weight = RNG.integers(-127, 128, (4, 4)).astype(np.int8)
    sums = b.node("Cast", b.node("MatMulInteger", x, weight, zero), to=TensorProto.FLOAT)
    y = b.node("Mul", b.node("Mul", sums, np.abs(draw(*shape)) / 100), scale)
    data = b.build(y, dtype="float32")
    if shape == (4, 1):  # one for each row, which no weights have
        with pytest.raises(ValueError, match="already quantized"):
            fixed_batch(data)
        return
    sample = draw(4, 4)
    (wanted,), (found,) = run_whole(data, sample), run_onnx(fixed_batch(data), sample)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.03 * np.abs(wanted).max())


def test_weights_of_7_bits_are_whole():
    weight = RNG.integers(-64, 65, (16, 8))
    weight[0] = 64
    b = OnnxBuilder()
    x = b.input("x", (1, 16))
    data = b.build(b.node("MatMul", x, weight.astype(np.float32) / 100), dtype="float32")
    (found,) = int8_matrices(quantize_onnx(data, [draw(1, 16)], reduce_range=True))
    np.testing.assert_array_equal(found, weight)


def int8_matrices(data: bytes) -> list[np.ndarray]:
    values = map(numpy_helper.to_array, onnx.load_model_from_string(data).graph.initializer)
    found = [x for x in values if x.dtype == np.int8 and x.ndim == 2]
    return sorted(found, key=lambda x: -x.size)


@pytest.mark.parametrize("form", ["dynamic", "dequantized", "4 bits, symmetric False"])
def test_all_products_become_the_machines(tmp_path, form):
    data = dense(EXACT[form]) if form in EXACT else dynamic(dense(floats, 17), tmp_path)
    found = quantize_onnx(data, SAMPLES)
    model = Model.load(load_onnx(found, "net"))
    assert model.macs > 0 and model.host_macs == 0
    feeds = [{"x": x} for x in SAMPLES]
    quality = measure_quality(fixed_batch(data), found, feeds, original=data)
    (output,) = quality.outputs
    assert output.cosine > 0.999 and (output.agreement or 0) > 0.9 and quality.tensors


def test_the_report_compares_with_the_file_itself(tpulite, tmp_path):
    (tmp_path / "net.onnx").write_bytes(dense(blocks(4, symmetric=True)))
    np.save(tmp_path / "x.npy", SAMPLES)
    code, out, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy")
    assert (code, err, "with the original network" in out) == (0, "", True)
    code, out, _ = tpulite("compare", "net.int8.onnx", "--oracle", "ort")
    assert (code, "every bit is the same" in out) == (0, True)
    code, out, _ = tpulite("inspect", "net.onnx")
    assert "tpulite quantize net.onnx --calibrate SAMPLES" in out


def test_damaged_weights_are_refused(tpulite, tmp_path):
    model = onnx.load_model_from_string(dense(blocks(4, symmetric=True)))
    packed = next(x for x in model.graph.initializer if x.data_type == TensorProto.UINT8)
    packed.CopyFrom(numpy_helper.from_array(np.zeros((3, 5), np.uint8), packed.name))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.save(tmp_path / "x.npy", SAMPLES)
    code, _, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy")
    assert (code, len(err.splitlines())) == (2, 1) and err.startswith("tpulite: net.onnx: ")
