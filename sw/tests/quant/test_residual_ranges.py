"""Ranges of what is added to a residual connection before a normalization."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

from tpulite.quant.calibrate import quantize_onnx
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

WIDTH, TOKENS = 64, 12


def network(rng: np.random.Generator, addend: np.ndarray) -> bytes:
    """Two dense layers, each with a residual connection and a normalization behind it."""
    b = OnnxBuilder()
    x = b.input("x", (1, TOKENS, WIDTH))

    def dense(x: str) -> str:
        weight = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
        return b.node("Add", b.node("MatMul", x, weight), np.full(WIDTH, 0.1, np.float32))

    x = dense(x)
    for _ in range(2):
        total = b.node("Add", x, dense(b.node("Relu", dense(x))))
        x = b.node("LayerNormalization", total, np.ones(WIDTH, np.float32), addend, axis=-1)
    return b.build(x, dtype="float32")


def test_addends_of_a_normalization_are_in_the_range_of_the_product_that_adds_them():
    rng = np.random.default_rng(7)
    data = network(rng, 5 * rng.normal(size=WIDTH).astype(np.float32))
    samples = [rng.normal(size=(1, TOKENS, WIDTH)).astype(np.float32) for _ in range(8)]
    quantized = quantize_onnx(data, samples, numerics="litert-ref")
    wanted, found = (
        np.stack([run_onnx(each, x)[0] for x in samples]) for each in (data, quantized)
    )
    assert np.linalg.norm(found - wanted) < 0.01 * np.linalg.norm(wanted)
