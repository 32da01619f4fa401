"""Transformers as ONNX Runtime's tools fuse them: they quantize as if nobody had."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
import onnx

from tpulite.frontend.files import load_graph
from tpulite.quant.calibrate import default_numerics, quantize_onnx
from tpulite.quant.quality_onnx import measure_quality
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.onnx_optimized import fuse_transformer, optimize_session
from tpulite_testing.graphs.onnx_decoders import WHOLE, OnnxDecoder
from tpulite_testing.graphs.onnx_encoders import OnnxEncoder
from tpulite_testing.graphs.onnx_gpt import OnnxGpt
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import breadth

pytest_plugins = ("tpulite_testing.command_line",)


@dataclass(frozen=True)
class Fused:
    """A network, how a tool fuses it, and what is fused then."""

    made: Callable[[], Any]
    fuse: Callable[[bytes], bytes]
    operators: dict[str, int]  #: Some of those in the file.
    crossings: int = 2  #: Of the int8 network.


def bert() -> OnnxEncoder:
    return OnnxEncoder(added=True, words=True)


def vit() -> OnnxEncoder:
    return OnnxEncoder(masked=False, first=True)


def llama(whole: str, *, window: bool) -> Callable[[], OnnxDecoder]:
    return lambda: OnnxDecoder(
        tokens=1 if window else 8, width=64, hidden=96, norm="SimplifiedLayerNormalization",
        fused=True, whole=whole, window=8 * window, opset=23 if whole == "Attention" else 18,
    )  # fmt: skip


def older(data: bytes) -> bytes:
    """Return a file of opset 14, whose normalizations only ONNX Runtime knows."""
    model = onnx.load_model_from_string(data)
    for each in model.opset_import:
        each.version = each.version if each.domain else 14
    return model.SerializeToString()


FUSED = {
    # Embeddings, the mask, and the result cross.
    "BERT": Fused(
        bert, lambda data: fuse_transformer(data, "bert", 2, 32),
        {"Attention": 1, "SkipLayerNormalization": 2, "BiasGelu": 1}, 3,
    ),
    "BERT, opset 14": Fused(
        bert, lambda data: older(fuse_transformer(data, "bert", 2, 32)),
        {"Attention": 1, "SkipLayerNormalization": 2, "LayerNormalization": 1}, 3,
    ),
    "BERT, many heads": Fused(
        bert, lambda data: fuse_transformer(data, "bert", 2, 32, many=True),
        {"MultiHeadAttention": 1, "SkipLayerNormalization": 2, "BiasGelu": 1}, 3,
    ),
    "BERT, session": Fused(
        bert, optimize_session, {"FusedMatMul": 1, "SkipLayerNormalization": 3, "Gelu": 1}, 3,
    ),
    # The sum of embeddings crosses, and the first normalization of it.
    "GPT-2": Fused(
        OnnxGpt, lambda data: fuse_transformer(data, "gpt2", 2, 32),
        {"Attention": 2, "SkipLayerNormalization": 4, "FastGelu": 2}, 3,
    ),
    "ViT, session": Fused(vit, optimize_session, {"FusedMatMul": 1, "SkipLayerNormalization": 1}),
    **{
        f"Llama, {whole}": Fused(
            llama(whole, window=False), bytes,
            {"Attention" if whole == "Attention" else "GroupQueryAttention": 1},
        )
        for whole in WHOLE
    },
    # Keys and values cross both ways, and what is made of the mask: positions and padding.
    **{
        f"Llama, a token, {whole}": Fused(
            llama(whole, window=True), bytes,
            {"Attention" if whole == "Attention" else "GroupQueryAttention": 1},
            6 if whole == "Attention" else 9,
        )
        for whole in WHOLE
    },
}  # fmt: skip


QUICK = (
    "BERT",
    "BERT, opset 14",
    "GPT-2",
    "ViT, session",
    "Llama, packed",
    "Llama, a token, GroupQueryAttention",
)


@pytest.mark.parametrize(
    "name", [*QUICK, *breadth("forms become one", *[x for x in FUSED if x not in QUICK])]
)
def test_fused_transformers_are_one_program(name, tmp_path):
    fused = FUSED[name]
    made = fused.made()
    data = fused.fuse(made.build())
    kinds = Counter(node.op_type for node in onnx.load_model_from_string(data).graph.node)
    assert fused.operators.items() <= kinds.items()
    assert default_numerics(data) == "litert-ref"
    feeds = made.samples(8)
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize_onnx(data, feeds, numerics="litert-ref"))
    outputs = measure_quality(data, path.read_bytes(), feeds).outputs
    assert min(output.cosine for output in outputs) > 0.98
    model = Model.load(path, options=quick_options())
    assert (len(model.programs), model.crossings) == (1, fused.crossings)


@pytest.mark.parametrize(
    "name", ["GPT-2", "Llama, a token, packed", *breadth("one form behind all", "BERT, many heads")]
)
def test_every_tensor_of_fused_transformers_is_litert_s(name, tmp_path):
    fused = FUSED[name]
    made = fused.made()
    data, feeds = fused.fuse(made.build()), made.samples(8)
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize_onnx(data, feeds, numerics="litert-ref"))
    model = Model.load(path, options=quick_options())
    oracle = open_oracle("litert-ref", path, load_graph(path))
    compared = compare_model(model, oracle, feeds[:1])
    assert compared.same
    assert len(compared.layers) > 30


def test_attention_that_stays_runs_on_the_cpu(tpulite, tmp_path):
    rng = np.random.default_rng(5)
    b = OnnxBuilder()
    qkv = [
        b.node("MatMul", x, rng.normal(size=(32, 32)).astype(np.float32))
        for x in [b.input("x", (1, 8, 32))] * 3
    ]
    sizes = np.array([7], np.int32), np.array(8, np.int32)
    (y,) = b.outputs(
        "GroupQueryAttention", 1, *qkv, "", "", *sizes, contributed=True, num_heads=2,
        kv_num_heads=2, smooth_softmax=1,
    )  # fmt: skip
    y = b.node("MatMul", y, rng.normal(size=(32, 10)).astype(np.float32))
    y = b.node("Add", y, rng.normal(size=10).astype(np.float32))
    (tmp_path / "net.onnx").write_bytes(b.build(y, dtype="float32"))
    np.save(tmp_path / "x.npy", rng.normal(size=(4, 8, 32)).astype(np.float32))
    code, _, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy")
    assert (code, err) == (0, "")
    code, out, _ = tpulite("inspect", "net.int8.onnx")
    assert (code, "unsupported operator groupqueryattention" in out) == (0, True)
