"""Networks that begin with a spectrum: quiet sounds keep their bits, and the machine multiplies."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.spectra import find_spectra
from tpulite.quant.quality_onnx import measure_quality
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.model_tensors import equals_library

BINS, WINDOW, LENGTH = 9, 16, 64
LOUD, QUIET = 1.0, 0.01


def spectrum(behind: str) -> bytes:
    """Take a spectrum as exporters write it, with a product behind it."""
    rng = np.random.default_rng(2)
    phase = 2 * np.pi * np.outer(np.arange(BINS), np.arange(WINDOW)) / WINDOW
    basis = np.concatenate([np.cos(phase), np.sin(phase)])[:, None].astype(np.float32)
    b = OnnxBuilder()
    x = b.node("Pad", b.input("x", (1, LENGTH)), np.array([0, 4, 0, 4]), mode="reflect")
    parts = b.node("Conv", b.node("Unsqueeze", x, np.array([1])), basis, strides=[8])
    ends = [[np.array([n]) for n in pair] for pair in ((0, BINS), (BINS, 2 * BINS))]
    squares = [
        b.node("Pow", b.node("Slice", parts, *each, np.array([1])), np.float32(2)) for each in ends
    ]
    y = b.node("Sqrt", b.node("Add", *squares))
    if behind == "Conv":
        weight, bias = rng.normal(size=(6, BINS, 3)), rng.normal(size=6) / 100
        y = b.node("Conv", y, weight.astype(np.float32), bias.astype(np.float32), pads=[1, 1])
    else:
        y = b.node("Transpose", y, perm=[0, 2, 1])
        y = b.node("MatMul", y, rng.normal(size=(BINS, 6)).astype(np.float32))
    return b.build(b.node("Abs", y), dtype="float32")


def sounds(loudness: float, count: int = 8) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [loudness * rng.uniform(-1, 1, (1, LENGTH)).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("behind", ["Conv", "MatMul"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_quiet_sounds_keep_their_bits(tmp_path, behind, per_channel):
    data = spectrum(behind)
    written = quantize_onnx(data, sounds(LOUD) + sounds(QUIET), per_channel=per_channel)
    for loudness in (LOUD, QUIET):
        feeds = [{"x": x} for x in sounds(loudness)]
        (output,) = measure_quality(data, written, feeds).outputs
        assert output.cosine > 0.999, loudness
    model = equals_library(tmp_path, written, "ort")
    assert model.host_macs == 0


def test_only_products_around_magnitudes_have_16_bits():
    graph = onnx.load_model_from_string(spectrum("Conv")).graph
    for index, node in enumerate(graph.node):
        node.name = f"{node.op_type}{index}"
    found = find_spectra(graph)
    assert len(found.products) == 2 and all(name.startswith("Conv") for name in found.products)
    assert {name.rstrip("0123456789") for name in found.moves} == {"Pad", "Unsqueeze", "Slice"}
    squares = [node for node in graph.node if node.op_type == "Pow"]
    for node in squares:
        node.op_type = "Abs"
        del node.input[1:]
    assert not find_spectra(graph).inside


def test_magnitudes_may_be_behind_products_of_8_bits():
    rng = np.random.default_rng(5)

    def weight(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32) / 4

    b = OnnxBuilder()
    x = b.node("Relu", b.node("Conv", b.input("x", (1, 3, 12, 12)), weight(8, 3, 3, 3)))
    parts = [b.node("Conv", x, weight(4, 8, 3, 3)) for _ in range(2)]
    root = b.node("Sqrt", b.node("Add", *(b.node("Mul", part, part) for part in parts)))
    data = b.build(b.node("Conv", root, weight(2, 4, 1, 1)), dtype="float32")
    samples = [rng.normal(size=(1, 3, 12, 12)).astype(np.float32) for _ in range(4)]
    written = quantize_onnx(data, samples)
    (output,) = measure_quality(data, written, [{"x": x} for x in samples]).outputs
    assert output.cosine > 0.999
