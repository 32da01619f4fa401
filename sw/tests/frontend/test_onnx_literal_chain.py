"""Dense layers step by step in ONNX: products, bias, scale and ReLU as nodes of integers."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.frontend.onnx.file import load_onnx
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

RNG = np.random.default_rng(7)
WIDTHS, BATCH = (20, 12, 5), 4
ONE, ZERO = np.float32(1), np.int8(0)
LAYERS = [
    (
        RNG.integers(-128, 128, (k, n), np.int8),
        RNG.integers(-3000, 3000, n).astype(np.int32),
        np.float32(0.0037),
    )
    for k, n in pairwise(WIDTHS)
]


def qgemm(b: OnnxBuilder, x: str, layer) -> str:
    weight, bias, scale = layer
    return b.node("QGemm", x, ONE, ZERO, weight, scale, ZERO, bias, ONE, ZERO)


def qlinear(b: OnnxBuilder, x: str, layer) -> str:
    weight, _, scale = layer
    return b.node("QLinearMatMul", x, ONE, ZERO, weight, scale, ZERO, ONE, ZERO)


def integers(b: OnnxBuilder, x: str, layer, *, points=(), unit=ONE, zero=ZERO, swap=False) -> str:
    weight, bias, scale = layer
    y = b.node("MatMulInteger", x, weight, *points)
    y = b.node("Add", *((bias, y) if swap else (y, bias[None])))
    y = b.node("Mul", b.node("Cast", y, to=1), scale)
    return b.node("QuantizeLinear", y, unit, zero)


def build(layer, last: bool = False, **how) -> bytes:
    """Return a chain with a separate Relu of int8 after each layer, or all but the last one."""
    b = OnnxBuilder()
    x = b.input("x", (BATCH, WIDTHS[0]), "int8")
    for number, each in enumerate(LAYERS, start=1):
        x = layer(b, x, each, **how)
        if last or number < len(LAYERS):
            x = b.node("Relu", x)
    return b.build(x)


def check(data: bytes) -> Model:
    """Compare with ONNX Runtime, which here fuses nothing; return the model."""
    model = Model.load(load_onnx(data, "net"))
    x = RNG.integers(-128, 128, (BATCH, WIDTHS[0]), np.int8)
    (expected,) = run_onnx(data, x)
    (name,) = model.graph.outputs
    found = model.reference({"x": x})[name]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    return model


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("layer", [qgemm, qlinear, integers])
def test_every_step_stays_on_the_machine(layer, last):
    model = check(build(layer, last))
    assert not model.plan.hosts
    assert [node.op for node in model.graph.nodes] == ["dense"] * len(LAYERS)
    relus = [node["activation"] == "relu" for node in model.graph.nodes]
    assert relus == [True] * (len(LAYERS) - 1) + [last]


@pytest.mark.parametrize(
    ("how", "fused"),
    [
        ({"swap": True}, True),
        ({"points": (np.int8(0), np.int8(3))}, True),
        ({"unit": np.float32(0.5)}, True),
        ({"unit": np.float32(0.3)}, False),  # a division that rounds once more
        ({"zero": np.int8(-4)}, False),  # of which MatMulInteger knows nothing
    ],
)
def test_sums_are_scaled_on_the_machine_where_that_is_exact(how, fused):
    model = check(build(integers, **how))
    assert (not model.plan.hosts) == fused


def test_a_relu_of_integers_compares_them_with_zero_whatever_they_mean():
    b, point = OnnxBuilder(), np.int8(5)
    x = b.input("x", (BATCH, WIDTHS[0]), "int8")
    weight, bias, scale = LAYERS[0]
    y = b.node("QGemm", x, ONE, ZERO, weight, scale, ZERO, bias, ONE, point)
    model = check(b.build(b.node("Relu", y)))
    assert not model.plan.hosts
