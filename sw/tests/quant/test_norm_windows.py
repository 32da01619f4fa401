"""Normalizations of rows whose variances differ by a factor of hundreds."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import numpy_helper

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.norms import Windows
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

TOKENS, WIDTH = 12, 64


def network(rng: np.random.Generator) -> bytes:
    """A dense layer, a normalization, another dense layer; two rows in twelve are large."""

    def weight(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)

    b = OnnxBuilder(opset=17)
    x = b.node("MatMul", b.input("x", (1, TOKENS, WIDTH)), weight(WIDTH, WIDTH))
    gamma = (1 + rng.normal(size=WIDTH) / 8).astype(np.float32)
    x = b.node("LayerNormalization", x, gamma, np.zeros(WIDTH, np.float32), axis=-1)
    return b.build(b.node("MatMul", x, weight(WIDTH, 16)))


def samples(rng: np.random.Generator, count: int, largest: float) -> list[dict[str, np.ndarray]]:
    sizes = np.ones((TOKENS, 1), np.float32)
    sizes[[3, 7]] = largest
    shape = (count, 1, TOKENS, WIDTH)
    return [{"x": x * sizes} for x in rng.normal(size=shape).astype(np.float32)]


def lost(data: bytes, quantized: bytes, feeds: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Return the relative error of each row of the output: float [samples, TOKENS]."""
    wanted, found = (
        np.concatenate([run_onnx(each, feed["x"])[0] for feed in feeds])
        for each in (data, quantized)
    )
    return np.linalg.norm(found - wanted, axis=2) / np.linalg.norm(wanted, axis=2)


def windows_of(quantized: bytes) -> int:
    """Return how many columns the weights of a variance have."""
    model = onnx.load_model_from_string(quantized)
    (weights,) = (
        each for each in model.graph.initializer if each.name.endswith("weights_constant_quantized")
    )
    return int(weights.dims[1])


@pytest.mark.parametrize("largest", [5.0, 8.0, 12.0])
def test_large_rows_leave_the_variances_of_others_their_bits(largest):
    rng = np.random.default_rng(11)
    data, feeds = network(rng), samples(rng, 32, largest)
    quantized = quantize_onnx(data, feeds[:16], numerics="litert-ref", min_cosine=0)
    assert windows_of(quantized) > 1
    errors = lost(data, quantized, feeds[16:])
    small = np.delete(errors, [3, 7], axis=1)
    # Eight bits of the input alone cost a row of usual size this much.
    step = 2 * 4 * largest / 255
    assert np.median(small) < 1.5 * step / 12**0.5


def test_variances_of_like_size_need_one_window():
    rng = np.random.default_rng(12)
    data, feeds = network(rng), samples(rng, 24, 1.0)
    quantized = quantize_onnx(data, feeds[:12], numerics="litert-ref", min_cosine=0)
    assert windows_of(quantized) == 1
    assert np.median(lost(data, quantized, feeds[12:])) < 0.03


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_windows_add_up_to_the_root_of_every_variance_that_they_cover(count):
    windows = Windows(count, top=3.0)
    variance = np.geomspace(0.3, 3.0 * 4 ** (count - 1), 200)[:, None]
    end = 1 / 0.3**0.5
    found = windows.roots(variance, end)
    assert np.abs(found - 1 / np.sqrt(variance)).max() < 3 * end / 255


def test_the_range_that_was_chosen_for_a_variance_is_that_of_its_product():
    rng = np.random.default_rng(11)
    data, feeds = network(rng), samples(rng, 16, 12.0)
    quantized = quantize_onnx(data, feeds, numerics="litert-ref", min_cosine=0)
    model = onnx.load_model_from_string(quantized)
    values = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    rounded = {x.input[0]: x for x in model.graph.node if x.op_type == "QuantizeLinear"}
    (product,) = (each for name, each in rounded.items() if name.endswith("variance_gemm"))
    (window,) = (each for name, each in rounded.items() if name.endswith("window"))
    assert values[product.input[1]] == values[window.input[1]]
