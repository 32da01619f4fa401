"""Attention as one operator: the products and the softmax that replace it compute the same."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.quant.floats.expand import expand_operators, with_shapes
from tpulite.quant.floats.observe import padding_input
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.onnx_session import open_onnx

RNG = np.random.default_rng(23)
B, TOKENS, PAST, HEADS, SHARED, DEPTH = 1, 6, 5, 4, 2, 16
WIDTH, NARROW = HEADS * DEPTH, SHARED * DEPTH


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def feed_of(data: bytes, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return inputs: those that are given, and drawn ones."""
    graph = onnx.load_model_from_string(data).graph
    shapes = {
        value.name: [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        for value in graph.input
    }
    return {name: draw(*shape) for name, shape in shapes.items()} | given


def expanded(data: bytes, **given: np.ndarray) -> list[str]:
    """Expand a file, compare its outputs with ONNX Runtime's, and return its operators."""
    model = onnx.load_model_from_string(data)
    expand_operators(model, max(x.version for x in model.opset_import if not x.domain))
    feed = feed_of(data, given)
    sessions = [open_onnx(x, level="DISABLE_ALL") for x in (data, model.SerializeToString())]
    wanted, found = (each.run(None, feed) for each in sessions)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-5, atol=2e-6)
    return [node.op_type for node in model.graph.node]


def mask_of(kind: str) -> np.ndarray:
    """Return a mask of the last two tokens, which are padding, as an input of attention."""
    kept = (np.arange(TOKENS) < TOKENS - 2).astype(np.int32)
    if kind == "lengths":
        return np.array([TOKENS - 2], np.int32)
    return kept[None] if kind == "tokens" else np.repeat(kept[None, None], TOKENS, axis=1)


@pytest.mark.parametrize("mask", ["", "lengths", "tokens", "pairs"])
@pytest.mark.parametrize("causal", [0, 1])
def test_projected_attention_is_six_products(mask, causal):
    b = OnnxBuilder()
    x = b.input("x", (B, TOKENS, 24))
    given = {"mask": mask_of(mask)} if mask else {}
    named = b.input("mask", given["mask"].shape, "int32") if mask else ""
    (y,) = b.outputs(
        "Attention", 1, x, draw(24, 3 * WIDTH), draw(3 * WIDTH), named, contributed=True,
        num_heads=HEADS, unidirectional=causal,
    )  # fmt: skip
    kinds = expanded(b.build(y, dtype="float32"), **given)
    assert (kinds.count("MatMul"), "Attention" in kinds) == (5, False)


@pytest.mark.parametrize("filled", [-1e4, -1e9])
def test_layers_share_what_a_mask_becomes(filled):
    b = OnnxBuilder()
    x, mask = b.input("x", (B, TOKENS, WIDTH)), b.input("mask", (B,), "int32")
    for value in (-1e4, filled):
        (x,) = b.outputs(
            "Attention", 1, x, draw(WIDTH, 3 * WIDTH) / 8, draw(3 * WIDTH), mask, contributed=True,
            num_heads=HEADS, mask_filter_value=value,
        )  # fmt: skip
    data = with_shapes(onnx.load_model_from_string(b.build(x, dtype="float32")), 17)
    kinds = expanded(data.SerializeToString(), mask=mask_of("lengths"))
    assert (kinds.count("Softmax"), kinds.count("Less")) == (2, 1 + (filled != -1e4))


@pytest.mark.parametrize("embedded", [False, True])
def test_masks_of_attention_as_one_operator_say_what_is_padding(embedded):
    b = OnnxBuilder()
    words, mask = (b.input(x, (B, TOKENS), "int32") for x in ("words", "mask"))
    tables = draw(30, WIDTH), draw(12, WIDTH)
    x, index = b.outputs(
        "EmbedLayerNormalization", 2, words, "", *tables, "", draw(WIDTH), draw(WIDTH), mask,
        contributed=True, mask_index_type=1,
    )  # fmt: skip
    given = index if embedded else mask
    (y,) = b.outputs(
        "Attention", 1, x, draw(WIDTH, 3 * WIDTH) / 8, draw(3 * WIDTH), given, contributed=True,
        num_heads=HEADS,
    )  # fmt: skip
    data = with_shapes(
        onnx.load_model_from_string(b.build(y, dtype="float32")), 17
    ).SerializeToString()
    assert padding_input(onnx.load_model_from_string(data).graph) == "mask"
    masks = {"mask": mask_of("tokens"), "words": RNG.integers(0, 30, (B, TOKENS), np.int32)}
    assert "Attention" not in expanded(data, **masks)


@pytest.mark.parametrize("sizes", [None, [WIDTH, WIDTH, NARROW]])
@pytest.mark.parametrize("biased", [False, True])
def test_projections_may_have_sizes_and_no_bias(sizes, biased):
    b = OnnxBuilder()
    x = b.input("x", (B, TOKENS, 24))
    total = sum(sizes or [3 * WIDTH])
    scores = b.input("scores", (1, HEADS, TOKENS, TOKENS)) if sizes is None else ""
    (y,) = b.outputs(
        "Attention", 1, x, draw(24, total), draw(total) if biased else "", "", "", scores,
        contributed=True, num_heads=HEADS, scale=0.3,
        **({"qkv_hidden_sizes": sizes} if sizes else {}),
    )  # fmt: skip
    assert "Attention" not in expanded(b.build(y, dtype="float32"))


@pytest.mark.parametrize("causal", [0, 1])
def test_projected_attention_keeps_its_past(causal):
    b = OnnxBuilder()
    x, past = b.input("x", (B, TOKENS, 24)), b.input("past", (2, B, HEADS, PAST, DEPTH))
    y, present = b.outputs(
        "Attention", 2, x, draw(24, 3 * WIDTH), draw(3 * WIDTH), "", past, contributed=True,
        num_heads=HEADS, unidirectional=causal,
    )  # fmt: skip
    assert "Attention" not in expanded(b.build(y, present, dtype="float32"))


@pytest.mark.parametrize("mask", ["", "lengths", "tokens", "pairs"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_of_many_heads_has_biases_and_masks(mask, causal, biased):
    b = OnnxBuilder()
    q, k, v = (b.input(x, (B, TOKENS, WIDTH)) for x in "qkv")
    given = {"mask": mask_of(mask)} if mask else {}
    named = b.input("mask", given["mask"].shape, "int32") if mask else ""
    (y,) = b.outputs(
        "MultiHeadAttention", 1, q, k, v, draw(3 * WIDTH) if biased else "", named,
        contributed=True, num_heads=HEADS, unidirectional=causal, mask_filter_value=-1e9,
    )  # fmt: skip
    assert "MultiHeadAttention" not in expanded(b.build(y, dtype="float32"), **given)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_many_heads_keeps_its_past(causal):
    b = OnnxBuilder()
    q, k, v = (b.input(x, (B, TOKENS, WIDTH)) for x in "qkv")
    past = [b.input(x, (B, HEADS, PAST, DEPTH)) for x in ("past_key", "past_value")]
    bias = b.input("bias", (1, 1, TOKENS, PAST + TOKENS))
    outputs = b.outputs(
        "MultiHeadAttention", 3, q, k, v, draw(3 * WIDTH), "", bias, *past, contributed=True,
        num_heads=HEADS, unidirectional=causal,
    )  # fmt: skip
    assert "MultiHeadAttention" not in expanded(b.build(*outputs, dtype="float32"))


def test_attention_to_another_text_has_its_heads_apart():
    b = OnnxBuilder()
    q = b.input("q", (B, TOKENS, WIDTH))
    k, v = (b.input(x, (B, HEADS, PAST, DEPTH)) for x in "kv")
    (y,) = b.outputs("MultiHeadAttention", 1, q, k, v, contributed=True, num_heads=HEADS)
    assert "MultiHeadAttention" not in expanded(b.build(y, dtype="float32"))


def tables() -> list[np.ndarray]:
    angles = np.arange(32)[:, None] * 10.0 ** -np.arange(DEPTH // 2)
    return [f(angles).astype(np.float32) for f in (np.cos, np.sin)]


def grouped(
    *, packed: bool = False, past: int = 0, tokens: int = TOKENS, total: int = 0, **flags
) -> tuple[bytes, dict[str, np.ndarray]]:
    """Return a file of one GroupQueryAttention as genai's builder writes it, and its inputs."""
    b = OnnxBuilder()
    if packed:
        qkv = [b.input("qkv", (B, tokens, WIDTH + 2 * NARROW)), "", ""]
    else:
        widths = {"q": WIDTH, "k": NARROW, "v": NARROW}
        qkv = [b.input(name, (B, tokens, width)) for name, width in widths.items()]
    shape = (B, SHARED, past, DEPTH)
    kept = [b.input(f"past_{x}", shape) for x in ("key", "value")] if past else ["", ""]
    seen = b.input("seen", (B,), "int32")
    given = {"seen": np.array([(total or past + tokens) - 1], np.int32)}
    turns = tables() if flags.get("do_rotary") else ["", ""]
    outputs = b.outputs(
        "GroupQueryAttention", 3, *qkv, *kept, seen, np.array(past + tokens, np.int32), *turns,
        contributed=True, num_heads=HEADS, kv_num_heads=SHARED, **flags,
    )  # fmt: skip
    # Where fewer tokens count than there is room for, the new ones are written elsewhere.
    return b.build(*outputs[: 1 if total else 3], dtype="float32"), given


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("past, tokens", [(0, TOKENS), (PAST, 1)])
@pytest.mark.parametrize(
    "flags",
    [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}, {"softcap": 2.0},
     {"scale": 0.2}, {"local_window_size": 3}],
    ids=["plain", "rotary", "pairs", "softcap", "scale", "window"],
)  # fmt: skip
def test_grouped_attention_shares_keys(packed, past, tokens, flags):
    data, given = grouped(packed=packed, past=past, tokens=tokens, **flags)
    stays = past and "local_window_size" in flags  # how long the past is, is an input
    assert ("GroupQueryAttention" in expanded(data, **given)) == bool(stays)


def test_layers_share_cosines_of_positions():
    b = OnnxBuilder()
    x, seen = b.input("x", (B, 1, WIDTH)), b.input("seen", (B,), "int32")
    total, turns = np.array(PAST + 1, np.int32), [b.constant(x) for x in tables()]
    for layer in "ab":
        past = [b.input(f"{x}_{layer}", (B, HEADS, PAST, DEPTH)) for x in ("key", "value")]
        x, *_ = b.outputs(
            "GroupQueryAttention", 3, x, x, x, *past, seen, total, *turns, contributed=True,
            num_heads=HEADS, kv_num_heads=HEADS, do_rotary=1,
        )  # fmt: skip
    data = with_shapes(onnx.load_model_from_string(b.build(x, dtype="float32")), 17)
    kinds = expanded(data.SerializeToString(), seen=np.array([PAST], np.int32))
    assert [kinds.count(x) for x in ("Softmax", "Less", "Gather")] == [2, 1, 2]


@pytest.mark.parametrize("rotary", [0, 1])
def test_tokens_of_the_past_that_do_not_count_are_not_seen(rotary):
    data, given = grouped(past=PAST, tokens=1, total=4, do_rotary=rotary)
    assert "GroupQueryAttention" not in expanded(data, **given)


@pytest.mark.parametrize("flags", [{"smooth_softmax": 1}], ids=["smooth"])
def test_what_is_rarer_stays_whole(flags):
    data, given = grouped(**flags)
    assert "GroupQueryAttention" in expanded(data, **given)


@pytest.mark.parametrize("total", [4, PAST + 1])
@pytest.mark.parametrize("known", [False, True])
def test_what_is_added_to_scores_has_columns_as_the_past_is_filled(total, known):
    b = OnnxBuilder()
    q, k, v = (b.input(x, (B, 1, n)) for x, n in (("q", WIDTH), ("k", NARROW), ("v", NARROW)))
    past = [b.input(f"past_{x}", (B, SHARED, PAST, DEPTH)) for x in ("key", "value")]
    seen = np.array([total - 1], np.int32)
    given = {} if known else {b.input("seen", (B,), "int32"): seen}
    y, *_ = b.outputs(
        "GroupQueryAttention", 3, q, k, v, *past, seen if known else "seen",
        np.array(PAST + 1, np.int32), "", "", "", b.input("bias", (1, 1, 1, PAST + 1)),
        contributed=True, num_heads=HEADS, kv_num_heads=SHARED,
    )  # fmt: skip
    stays = not known or total <= PAST
    assert ("GroupQueryAttention" in expanded(b.build(y, dtype="float32"), **given)) == stays


def test_positions_and_what_is_added_to_scores_are_inputs():
    b = OnnxBuilder()
    widths = {"q": WIDTH, "k": NARROW, "v": NARROW}
    qkv = [b.input(name, (B, TOKENS, width)) for name, width in widths.items()]
    seen, total = np.array([TOKENS - 1], np.int32), np.array(TOKENS, np.int32)
    places, bias = b.input("places", (B, TOKENS), "int64"), b.input("bias", (1, 1, TOKENS, TOKENS))
    (y,) = b.outputs(
        "GroupQueryAttention", 1, *qkv, "", "", seen, total, *tables(), places, bias,
        contributed=True, num_heads=HEADS, kv_num_heads=SHARED, do_rotary=1,
    )  # fmt: skip
    given = {"places": 3 + np.arange(TOKENS)[None]}
    assert "GroupQueryAttention" not in expanded(b.build(y, dtype="float32"), **given)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("shared", [HEADS, SHARED])
@pytest.mark.parametrize("mask", ["", "float", "bool", "constant"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [0, PAST])
def test_standard_attention_is_expanded(flat, shared, mask, causal, past):
    b = OnnxBuilder(opset=23)

    def heads(name: str, count: int) -> str:
        shape = (B, TOKENS, count * DEPTH) if flat else (B, count, TOKENS, DEPTH)
        return b.input(name, shape)

    qkv = heads("q", HEADS), heads("k", shared), heads("v", shared)
    kept = np.tri(TOKENS, past + TOKENS, dtype=bool)
    names, given = {"": "", "constant": kept}, {}
    if mask in ("float", "bool"):
        given["mask"] = (
            np.where(kept, np.float32(0.5), np.float32(-3e38)) if mask == "float" else kept
        )
        names[mask] = b.input("mask", kept.shape, "float32" if mask == "float" else "bool")
    shape = (B, shared, PAST, DEPTH)
    old = [b.input(f"past_{x}", shape) for x in ("key", "value")] if past else []
    counts = {"q_num_heads": HEADS, "kv_num_heads": shared} if flat else {}
    outputs = b.outputs(
        "Attention", 3 if past else 1, *qkv, names[mask], *old, is_causal=causal, **counts
    )
    assert "Attention" not in expanded(b.build(*outputs, dtype="float32"), **given)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", ["BiasGelu", "FastGelu", "Gelu"])
def test_gelu_is_that_of_erf_or_tanh(kind, biased):
    if (kind, biased) in (("BiasGelu", False), ("Gelu", True)):
        return
    b = OnnxBuilder()
    x = b.input("x", (B, TOKENS, 24))
    (y,) = b.outputs(kind, 1, x, *([draw(24)] if biased else []), contributed=True)
    kinds = expanded(b.build(y, dtype="float32"))
    assert ("Tanh" in kinds, "Erf" in kinds) == (kind == "FastGelu", kind != "FastGelu")


@pytest.mark.parametrize("alpha", [1.0, 0.25])
@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_product_of_turned_matrices_has_transposes(alpha, turned):
    b = OnnxBuilder()
    shapes = [(2, 4, 5), (2, 5, 3)]
    x, z = (
        b.input(n, s[:1] + s[:0:-1] if t else s)
        for n, s, t in zip("xz", shapes, turned, strict=True)
    )
    flags = {"transA": turned[0], "transB": turned[1], "alpha": alpha}
    (y,) = b.outputs("FusedMatMul", 1, x, z, contributed=True, **flags)
    kinds = expanded(b.build(y, dtype="float32"))
    assert (kinds.count("Transpose"), kinds.count("MatMul")) == (sum(turned), 1)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(
    "activation", ["Relu", "LeakyRelu 0.2", "Clip 0.1 0.7", "HardSigmoid 0.3 0.4", "Tanh"]
)
def test_convolutions_lose_what_is_behind_them(activation, added):
    b = OnnxBuilder()
    x = b.input("x", (1, 3, 8, 8))
    z = [b.input("z", (1, 4, 8, 8))] if added else []
    kind, *numbers = activation.split()
    given = {"activation_params": [*map(float, numbers)]} if numbers else {}
    (y,) = b.outputs(
        "FusedConv", 1, x, draw(4, 3, 3, 3), draw(4), *z, contributed=True, pads=[1] * 4,
        activation=kind, **given,
    )  # fmt: skip
    assert expanded(b.build(y, dtype="float32")) == ["Conv", *["Add"] * added, kind]


def test_a_dense_layer_loses_what_is_behind_it():
    b = OnnxBuilder()
    x = b.input("x", (4, 8))
    (y,) = b.outputs(
        "FusedGemm", 1, x, draw(5, 8), draw(5), contributed=True, transB=1, alpha=0.5,
        activation="LeakyRelu", activation_alpha=0.1,
    )  # fmt: skip
    assert expanded(b.build(y, dtype="float32")) == ["Gemm", "LeakyRelu"]


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_embeddings_are_looked_up_and_normalized(segments, masked):
    b = OnnxBuilder()
    shape, width = (B, TOKENS), 16
    words = b.input("words", shape, "int32")
    given = {"words": RNG.integers(0, 30, shape, np.int32)}
    second = ["", ""]
    if segments:
        second = [b.input("segments", shape, "int32"), draw(2, width)]
        given["segments"] = RNG.integers(0, 2, shape, np.int32)
    mask = b.input("mask", shape, "int32") if masked else ""
    given |= {"mask": mask_of("tokens")} if masked else {}
    y, count, total = b.outputs(
        "EmbedLayerNormalization", 3, words, second[0], draw(30, width), draw(12, width), second[1],
        draw(width), draw(width), mask, contributed=True, mask_index_type=int(masked),
    )  # fmt: skip
    outputs = (y, total, count) if masked else (y, total)
    data = onnx.load_model_from_string(b.build(*outputs, dtype="float32"))
    for value in data.graph.output:
        if value.name == count:
            value.type.tensor_type.elem_type = onnx.TensorProto.INT32
    kinds = expanded(data.SerializeToString(), **given)
    assert kinds.count("Gather") == 2 + segments


@pytest.mark.parametrize("opset", [14, 17, 18])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("skip", [(B, TOKENS, 24), (1, TOKENS, 24), (TOKENS, 24)])
def test_sums_are_normalized_in_files_of_any_version(opset, biased, skip):
    b = OnnxBuilder(opset=opset)
    x, other = b.input("x", (B, TOKENS, 24)), b.input("skip", skip)
    added = [draw(24), draw(24)] if biased else []
    y, _, _, total = b.outputs(
        "SkipLayerNormalization", 4, x, other, draw(24), *added, contributed=True
    )
    kinds = expanded(b.build(y, total, dtype="float32"))
    kept = opset >= 17
    assert (kinds.count("LayerNormalization"), kinds.count("Sqrt")) == (kept, not kept)


@pytest.mark.parametrize("axis", [-1, 2])
def test_older_files_have_normalizations_that_only_onnx_runtime_knows(axis):
    b = OnnxBuilder(opset=14)
    x = b.input("x", (B, TOKENS, 24))
    (y,) = b.outputs("LayerNormalization", 1, x, draw(24), draw(24), axis=axis, epsilon=0.1)
    kinds = expanded(b.build(y, dtype="float32"))
    assert kinds.count("ReduceMean") == 2 and "LayerNormalization" not in kinds
