"""Roundings that are taken out of a file: what is left, and what it computes."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx
from onnx import numpy_helper

from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.mixed import Switches, remove_roundings
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

RNG = np.random.default_rng(41)
WIDTH = 32


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def quantized() -> bytes:
    b = OnnxBuilder()
    y = b.node("MatMul", b.input("x", (1, 6, WIDTH)), draw(WIDTH, WIDTH) / 6)
    y = b.node("Conv", b.node("Relu", y), draw(8, 6, 3) / 4, draw(8))
    return quantize_onnx(b.build(b.node("Relu", y)), draw(6, 1, 6, WIDTH))


def test_products_that_read_floats_have_weights_of_floats(quantized):
    groups = Switches(quantized).groups
    found = onnx.load_model_from_string(remove_roundings(quantized, groups[:1]))
    made = {name: node.op_type for node in found.graph.node for name in node.output}
    constants = {each.name for each in found.graph.initializer}
    products = {x.op_type: x for x in found.graph.node if x.op_type in ("MatMul", "Conv")}
    assert set(products["MatMul"].input) <= {"x", *constants}
    assert {made[x] for x in products["Conv"].input} == {"DequantizeLinear"}


def test_all_weights_are_what_they_were_rounded_to(quantized):
    switches = Switches(quantized)
    found = remove_roundings(quantized, switches.groups)
    model = onnx.load_model_from_string(found)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("DequantizeLinear") == 1  # of the output
    assert {
        numpy_helper.to_array(x).dtype.name for x in model.graph.initializer if "_float" in x.name
    } == {"float32"}
    x = draw(1, 6, WIDTH)
    (wanted,) = switches.run({"x": x}, switches.groups[-1:]).values()
    (value,) = run_onnx(found, x)
    assert np.array_equal(value, wanted)
