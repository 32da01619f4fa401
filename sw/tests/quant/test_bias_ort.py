"""Operators by channel that ONNX Runtime leaves in floats, as its static quantizer writes them.

Its default is int8 everywhere. On x86 the library makes activations uint8 and leaves constants, and
has no integer kernel for the two.
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.arch.config import Config
from tpulite.quant.partition import HostSegment
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.onnx_static import quantize_statically
from tpulite_testing.oracles.model_tensors import equals_library

ROWS, INPUTS = 9, 24
CONFIG = Config(array_size=4)


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def add(b: OnnxBuilder, y: str, channels: np.ndarray) -> str:
    return b.node("Add", y, channels)


def add_before(b: OnnxBuilder, y: str, channels: np.ndarray) -> str:
    return b.node("Add", channels, y)


def add_and_clip(b: OnnxBuilder, y: str, channels: np.ndarray) -> str:
    return b.node("Clip", b.node("Add", y, channels), np.float32(0), np.float32(6))


def scale(b: OnnxBuilder, y: str, channels: np.ndarray) -> str:
    return b.node("Mul", y, channels)  # smallest ones become 0


FORMS = (add, add_before, add_and_clip, scale)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "outputs"), [(ROWS, 7), (ROWS, 96), (1, 7)])
def test_a_constant_by_channel_is_the_machines(
    form, rows: int, outputs: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(outputs + FORMS.index(form))
    b = OnnxBuilder()
    y = b.node("MatMul", b.input("x", (1, rows, INPUTS)), draw(rng, INPUTS, outputs) / 5)
    y = form(b, y, draw(rng, outputs) / 2)
    y = b.node("MatMul", y, draw(rng, outputs, 5) / 5)
    samples = [{"x": draw(rng, 1, rows, INPUTS)} for _ in range(4)]
    data = quantize_statically(b.build(y, dtype="float32"), samples, "s8s8")
    model = equals_library(tmp_path, data, "ort", config=CONFIG)
    left = [seg for seg in model.segments if isinstance(seg, HostSegment)]
    ends = {"quantize", "dequantize"}
    assert {node.op for segment in left for node in segment.nodes} == ends


def test_constants_of_elements_and_pairs_of_tensors_are_the_librarys(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    b = OnnxBuilder()
    y = b.node("MatMul", b.input("x", (1, ROWS, INPUTS)), draw(rng, INPUTS, 8) / 5)
    y = b.node("Add", y, draw(rng, ROWS, 8))
    samples = [{"x": draw(rng, 1, ROWS, INPUTS)} for _ in range(4)]
    data = quantize_statically(b.build(y, dtype="float32"), samples, "s8s8")
    model = equals_library(tmp_path, data, "ort", config=CONFIG)
    reasons = [r for seg in model.segments if isinstance(seg, HostSegment) for r in seg.reasons]
    assert "ONNX Runtime computes in float32, and no operand is by channel" in reasons
