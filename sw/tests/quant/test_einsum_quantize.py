"""Einsum in float networks: what is a product of matrices becomes one."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.expand import expand_operators
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx

EXTENTS = {"b": 2, "h": 3, "i": 5, "j": 7, "d": 4}


def einsum(equation: str) -> tuple[bytes, list[np.ndarray]]:
    b, rng = OnnxBuilder(), np.random.default_rng(len(equation))
    terms = equation.replace(" ", "").split("->")[0].split(",")
    shapes = [[EXTENTS[x] for x in term if x != "."] for term in terms]
    names = [b.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    values = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    return b.build(b.node("Einsum", *names, equation=equation), dtype="float32"), values


@pytest.mark.parametrize(
    ("equation", "transposes"),
    [
        ("ij,jd->id", 0),
        ("bhid,bhjd->bhij", 1),
        ("bhij, bhjd -> bhid", 0),
        ("bihd,bjhd->bhij", 2),
        ("bhij,bjhd->bihd", 2),
        ("hbid,bhdj->jhbi", 2),
    ],
)
def test_a_product_of_matrices_has_the_results_of_einsum(equation, transposes):
    data, values = einsum(equation)
    model = onnx.load_model_from_string(data)
    expand_operators(model, 17)
    ops = [node.op_type for node in model.graph.node]
    assert sorted(ops) == ["MatMul", *["Transpose"] * transposes]
    (wanted,), (found,) = (run_onnx(each, *values) for each in (data, model.SerializeToString()))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "equation",
    ["bij,bij->b", "ii,ij->ij", "...ij,...jd->...id", "bij,hjd->bhid", "ij,jd", "ij->ji"],
)
def test_other_forms_stay(equation):
    model = onnx.load_model_from_string(einsum(equation)[0])
    expand_operators(model, 17)
    assert [node.op_type for node in model.graph.node] == ["Einsum"]


@pytest.mark.parametrize("numerics", ["ort", "litert-ref"])
def test_attention_by_einsum_is_the_machines(numerics):
    b, rng = OnnxBuilder(), np.random.default_rng(4)
    x = b.input("x", (1, 12, 16))

    def product(y: str) -> str:
        return b.node("MatMul", y, rng.normal(0, 0.25, (16, 16)).astype(np.float32))

    heads = [b.node("Reshape", product(x), np.array([1, 12, 2, 8])) for _ in range(3)]
    scores = b.node("Einsum", *heads[:2], equation="bihd,bjhd->bhij")
    y = b.node("Einsum", b.node("Softmax", scores, axis=-1), heads[2], equation="bhij,bjhd->bihd")
    data = b.build(product(b.node("Reshape", y, np.array([1, 12, 16]))), dtype="float32")
    feeds = [{"x": rng.normal(size=(1, 12, 16)).astype(np.float32)} for _ in range(4)]
    model = Model.load(load_onnx(quantize_onnx(data, feeds, numerics=numerics), "net"))
    assert model.macs and not model.host_macs
