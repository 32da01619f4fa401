"""Rewrites of float decoders before they are quantized: the same numbers, other operators."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.quant.floats.biases import fold_factors
from tpulite.quant.floats.dead import drop_unread
from tpulite.quant.floats.expand import expand_operators
from tpulite.quant.floats.head_groups import repeat_by_tiles, share_heads
from tpulite.quant.floats.norm_forms import find_norms
from tpulite.quant.floats.observe import run_for
from tpulite.quant.floats.rotations import angles_of, multiply_positions, turn_by_products
from tpulite.quant.floats.sigmoids import join_sigmoids
from tpulite.quant.one_scale import share_scales
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.graphs.onnx_decoders import CURVES, NORMS, ROTATIONS

RNG = np.random.default_rng(71)
TOKENS, HEADS, DEPTH = 6, 4, 8


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def angles() -> np.ndarray:
    return np.arange(TOKENS)[:, None] * 10.0 ** -np.arange(DEPTH // 2)


def rewritten(data: bytes, *passes: Callable[[onnx.ModelProto], None]) -> list[str]:
    """Rewrite a file, compare tensors of the same names, and return its operators."""
    model = onnx.load_model_from_string(data)
    for each in passes:
        each(model)
    drop_unread(model.graph)
    feed = {}
    for value in model.graph.input:
        shape = [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        whole = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feed[value.name] = RNG.integers(0, TOKENS, shape) if whole else draw(*shape)
    before = onnx.load_model_from_string(data)
    names = [
        {name for node in each.graph.node for name in node.output if name}
        for each in (model, before)
    ]
    both = sorted(names[0] & names[1])
    assert {value.name for value in before.graph.output} <= {*both}
    (found,), (wanted,) = (run_for(both, each, [feed], "DISABLE_ALL") for each in (model, before))
    for name in both:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5, err_msg=name)
    return [node.op_type for node in model.graph.node]


def expand(model: onnx.ModelProto) -> None:
    expand_operators(model, max(x.version for x in model.opset_import if not x.domain))


def opset(form: str) -> int:
    return 24 if form in ("RMSNormalization", "RotaryEmbedding", "Swish") else 18


def turned(form: str) -> bytes:
    b = OnnxBuilder(opset=opset(form))
    x = b.node("Reshape", b.input("x", (1, TOKENS, HEADS * DEPTH)), np.array([0, 0, HEADS, DEPTH]))
    x = b.node("Transpose", x, perm=[0, 2, 1, 3])
    return b.build(ROTATIONS[form](b, x, angles(), HEADS), dtype="float32")


@pytest.mark.parametrize("form", NORMS)
def test_a_normalization_is_found_in_every_form(form):
    b = OnnxBuilder(opset=opset(form))
    gamma = draw(16)
    y = NORMS[form](b, b.node("Relu", b.input("x", (1, 5, 16)), name="before"), gamma)
    model = onnx.load_model_from_string(b.build(y, dtype="float32"))
    if form == "cast":
        return  # ONNX Runtime takes casts out before
    (norm,) = find_norms(model)
    assert (norm.x, norm.y, norm.centered) == ("relu0", y, False)
    assert norm.epsilon == pytest.approx(1e-6)
    assert np.array_equal(norm.gamma, np.ones(16) if form == "no gain" else gamma)
    assert {node.name for node in model.graph.node if node not in norm.nodes} == {"before"}
    x = draw(3, 16)
    wanted = x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + 1e-6)
    assert np.allclose(norm.apply(x), wanted)


@pytest.mark.parametrize(
    ("axis", "power", "share", "reads"),
    [(1, 2, 1, 1), (-1, 3, 1, 1), (-1, 2, 2, 1), (-1, 2, 1, 2)],
    ids=["over tokens", "a cube", "twice the mean", "a root that others read"],
)
def test_what_is_no_normalization_is_not_found(axis, power, share, reads):
    b = OnnxBuilder(opset=18)
    x = b.input("x", (1, 5, 16))
    total = b.node("ReduceSum", b.node("Pow", x, np.float32(power)), np.array([axis]))
    mean = b.node("Mul", total, np.float32(share / (16 if axis == -1 else 5)))
    root = b.node("Sqrt", b.node("Add", mean, np.float32(1e-6)))
    outputs = [b.node("Div", x, root), *[root] * (reads - 1)]
    assert not find_norms(onnx.load_model_from_string(b.build(*outputs, dtype="float32")))


@pytest.mark.parametrize("other", ["mean", "difference"])
def test_statistics_that_others_read_stay(other):
    b = OnnxBuilder()
    x = b.input("x", (1, 5, 16))
    mean = b.node("ReduceMean", x, axes=[-1])
    centered = b.node("Sub", x, mean)
    square = b.node("Pow", centered, np.float32(2))
    variance = b.node("Add", b.node("ReduceMean", square, axes=[-1]), np.float32(1e-5))
    y = b.node("Div", centered, b.node("Sqrt", variance))
    y = b.node("Add", b.node("Mul", y, draw(16)), draw(16))
    outputs = y, b.node("Add", y, mean) if other == "mean" else centered
    for count, wanted in ((1, [True]), (2, [False])):
        model = onnx.load_model_from_string(b.build(*outputs[:count], dtype="float32"))
        if count == 1:
            drop_unread(model.graph)
        assert [norm.centered for norm in find_norms(model)] == wanted


@pytest.mark.parametrize("op", ["Mul", "Add"])
def test_a_square_with_a_number_is_no_normalization(op):
    b = OnnxBuilder()
    x = b.input("x", (1, 5, 16))
    y = b.node(op, b.node("Mul", x, x), np.float32(0.04))  # as in GELU
    assert not find_norms(onnx.load_model_from_string(b.build(y, dtype="float32")))


def test_a_factor_of_one_number_is_no_part_of_a_normalization():
    b = OnnxBuilder(opset=18)
    y = NORMS["no gain"](b, b.input("x", (1, 5, 16)), draw(16))
    z = b.node("Mul", y, np.float32(2))
    (norm,) = find_norms(onnx.load_model_from_string(b.build(z, dtype="float32")))
    assert norm.y == y


def test_constants_may_be_operators():
    b = OnnxBuilder(opset=18)
    model = onnx.load_model_from_string(
        b.build(NORMS["mul, div"](b, b.input("x", (1, 5, 16)), draw(16)), dtype="float32")
    )
    for tensor in list(model.graph.initializer):
        node = onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
        model.graph.node.insert(0, node)
    del model.graph.initializer[:]
    assert len(find_norms(model)) == 1


@pytest.mark.parametrize("form", [x for x in ROTATIONS if x not in ("halves",)])
def test_channels_turn_by_a_product_before_the_transpose(form):
    kinds = rewritten(turned(form), expand, turn_by_products)
    assert kinds.count("MatMul") == 1
    last = max(i for i, x in enumerate(kinds) if x == "Transpose")
    assert kinds.index("MatMul") < last or form == "partial"
    assert "Neg" not in kinds
    assert kinds.count("Concat") == (form == "partial")


def test_moves_that_mix_tokens_do_not_become_products():
    b = OnnxBuilder()
    x = b.input("x", (1, 1, TOKENS, DEPTH))
    ends = np.array([TOKENS // 2]), np.array([TOKENS]), np.array([2])
    low = b.node("Slice", x, np.array([0]), ends[0], ends[2])
    y = b.node("Concat", b.node("Neg", b.node("Slice", x, *ends)), low, axis=2)
    assert "MatMul" not in rewritten(b.build(b.node("Mul", y, draw(DEPTH))), turn_by_products)


@pytest.mark.parametrize("pairs", [0, 1])
@pytest.mark.parametrize("positions", ["constant", "input"])
def test_rotations_of_flat_heads_are_expanded(pairs, positions):
    b = OnnxBuilder()
    x = b.input("x", (1, TOKENS, HEADS * DEPTH))
    tables = (f(angles()).astype(np.float32) for f in (np.cos, np.sin))
    places = np.arange(TOKENS)[None, ::-1].copy()
    given = places if positions == "constant" else b.input("places", (1, TOKENS), "int64")
    (y,) = b.outputs(
        "RotaryEmbedding", 1, x, given, *tables, contributed=True, num_heads=HEADS,
        interleaved=pairs,
    )  # fmt: skip
    kinds = rewritten(b.build(y, dtype="float32"), expand)
    assert "RotaryEmbedding" not in kinds
    assert kinds.count("Gather") == (positions == "input") * 2


@pytest.mark.parametrize("heads", [0, TOKENS])
@pytest.mark.parametrize("shape", [(1, TOKENS, TOKENS * DEPTH), (1, TOKENS, TOKENS, DEPTH)])
def test_axes_decide_whether_heads_are_flat(shape, heads):
    b = OnnxBuilder()
    tables = (f(angles()).astype(np.float32) for f in (np.cos, np.sin))
    given = np.arange(TOKENS)[None], *tables
    x = b.input("x", shape)
    (y,) = b.outputs("RotaryEmbedding", 1, x, *given, contributed=True, num_heads=heads)
    kinds = rewritten(b.build(y, dtype="float32"), expand)
    assert "RotaryEmbedding" not in kinds
    assert kinds.count("Reshape") == (len(shape) == 3) * 2


@pytest.mark.parametrize("kind", ["Simplified", "SkipSimplified", "Skip"])
def test_normalizations_without_epsilon_have_that_of_their_operator(kind):
    b = OnnxBuilder()
    small = [b.node("Mul", b.input(name, (1, 5, 16)), np.float32(1e-3)) for name in "xz"]
    given = [*small[: 1 + ("Skip" in kind)], *(draw(16) for _ in range(1 + (kind == "Skip")))]
    y = b.node(f"{kind}LayerNormalization", *given)
    b.nodes[-1].domain = "com.microsoft" if "Skip" in kind else ""
    assert f"{kind}LayerNormalization" not in rewritten(b.build(y, dtype="float32"), expand)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"])
def test_sums_are_taken_out_of_normalizations(kind, bias):
    b = OnnxBuilder()
    x = b.input("x", (1, TOKENS, 16))
    product = b.node("MatMul", x, draw(16, 16))
    factors = [draw(16)] if "Simplified" in kind else [draw(16), draw(16)]
    given = [*factors, *([draw(16)] if bias else [])]
    y, *_, total = b.outputs(kind, 4, x, product, *given, contributed=True, epsilon=1e-5)
    data = b.build(y, total, dtype="float32")
    kinds = rewritten(data, expand)
    assert kind not in kinds
    model = onnx.load_model_from_string(data)
    expand(model)
    (norm,) = find_norms(model)
    assert norm.centered == ("Simplified" not in kind)
    if bias:  # beside the product, which takes it
        (add,) = (node for node in model.graph.node if product in node.input)
        assert add.op_type == "Add"
        assert add.input[1] in {tensor.name for tensor in model.graph.initializer}


def test_statistics_that_others_read_keep_their_operator():
    b = OnnxBuilder()
    kind = "SimplifiedLayerNormalization"
    y, root = b.outputs(kind, 2, b.input("x", (1, TOKENS, 16)), draw(16), axis=-1)
    assert kind in rewritten(b.build(y, root, dtype="float32"), expand)


@pytest.mark.parametrize("form", CURVES)
def test_curves_become_a_sigmoid_and_a_product(form):
    b = OnnxBuilder(opset=opset(form))
    y = CURVES[form](b, b.input("x", (1, TOKENS, 16)))
    kinds = rewritten(b.build(y, dtype="float32"), expand, lambda m: join_sigmoids(m.graph))
    assert sorted(kinds) == (["Swish"] if form == "Swish" else ["Mul", "Sigmoid"])


def repeated(kind: str, *, swapped: bool, read: bool = False) -> bytes:
    """Return a product with the copies of two heads for four."""
    b = OnnxBuilder()
    q, k = (b.input(x, (1, n, TOKENS, DEPTH)) for x, n in (("q", HEADS), ("k", HEADS // 2)))
    k = b.node("MatMul", k, draw(DEPTH, DEPTH if swapped else TOKENS))
    last = DEPTH if swapped else TOKENS
    times = [1, HEADS // 2, 2, TOKENS, last] if kind == "Expand" else [1, 1, 2, 1, 1]
    y = b.node(kind, b.node("Unsqueeze", k, np.array([2])), np.array(times))
    y = b.node("Reshape", y, np.array([1, HEADS, TOKENS, last]))
    y = b.node("Transpose", y, perm=[0, 1, 3, 2]) if swapped else y
    q = q if swapped else b.node("MatMul", q, draw(DEPTH, TOKENS))
    return b.build(b.node("MatMul", q, y), *([y] if read else []))


@pytest.mark.parametrize("kind", ["Expand", "Tile"])
@pytest.mark.parametrize("swapped", [False, True])
def test_heads_that_share_keys_are_rows_of_one_product(kind, swapped):
    kinds = rewritten(repeated(kind, swapped=swapped), share_heads)
    assert kind not in kinds
    assert kinds.count("Transpose") == swapped


def test_copies_that_others_read_are_tiles():
    kinds = rewritten(repeated("Expand", swapped=True, read=True), share_heads, repeat_by_tiles)
    assert ("Expand" in kinds, kinds.count("Tile")) == (False, 1)


def test_angles_of_positions_stay_in_floats():
    b = OnnxBuilder()
    places = b.node("Cast", b.input("places", (1, TOKENS, 1), "int64"), to=1)
    angle = b.node("MatMul", places, draw(1, 1, DEPTH))
    data = b.build(b.node("Mul", b.node("Cos", angle), draw(DEPTH)), dtype="float32")
    assert rewritten(data, multiply_positions) == ["Cast", "Mul", "Cos", "Mul"]
    model = onnx.load_model_from_string(data)
    for index, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}{index}"
    assert not angles_of(model.graph)
    multiply_positions(model)
    assert angles_of(model.graph) == {"Cast0", "MatMul1", "Cos2"}


def test_sines_of_activations_are_no_angles():
    b = OnnxBuilder()
    y = b.node("Sin", b.node("MatMul", b.input("x", (TOKENS, 16)), draw(16, 16)))
    model = onnx.load_model_from_string(b.build(y, dtype="float32"))
    multiply_positions(model)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Sin"]
    assert not angles_of(model.graph)


@pytest.mark.parametrize("form", ["slices", "pairs", "RotaryEmbedding"])
def test_factors_of_scores_are_in_the_rotation_and_other_readers_keep_theirs(form):
    b = OnnxBuilder(opset=opset(form))
    x, z = (b.node("Relu", b.input(name, (1, HEADS, TOKENS, DEPTH))) for name in "xz")
    first = ROTATIONS[form](b, x, angles(), HEADS)
    places = len(b.nodes)
    second = ROTATIONS[form](b, z, angles(), HEADS)
    known = {each.name: onnx.numpy_helper.to_array(each).tobytes() for each in b.constants}
    same = {v: k for k, v in reversed(known.items())}
    for node in b.nodes[places:]:  # one constant for both, as exporters have it
        for index, name in enumerate(node.input):
            node.input[index] = same[known[name]] if name in known else name
    y = b.node("Mul", first, np.float32(0.25))
    data = b.build(b.node("Add", y, z), b.node("Relu", second), dtype="float32")
    kinds = rewritten(data, expand, turn_by_products, fold_factors)
    assert kinds.count("Mul") == 4


def test_a_turned_tensor_may_have_two_readers():
    b = OnnxBuilder()
    matrix = np.eye(DEPTH, dtype=np.float32)[::-1].copy()
    x = b.node("Transpose", b.input("x", (1, TOKENS, HEADS, DEPTH)), perm=[0, 2, 1, 3])
    x = b.node("MatMul", x, matrix)
    y = b.node("Add", *(b.node("Mul", x, draw(TOKENS, DEPTH)) for _ in range(2)))
    kinds = rewritten(b.build(y, dtype="float32"), turn_by_products)
    assert kinds == ["MatMul", "Transpose", "Mul", "Mul", "Add"]


def test_a_row_of_one_number_is_no_column():
    b = OnnxBuilder()
    y = b.node("Cos", b.node("MatMul", b.input("x", (1,)), draw(1, DEPTH)))
    assert rewritten(b.build(y, dtype="float32"), multiply_positions) == ["MatMul", "Cos"]


@pytest.mark.parametrize("rows", ["rows", TOKENS])
def test_heads_are_shared_if_all_shapes_are_known(rows):
    b = OnnxBuilder()
    keys = b.node("Unsqueeze", b.input("keys", (1, 2, DEPTH, TOKENS)), np.array([2]))
    keys = b.node("Expand", keys, np.array([1, 2, 2, DEPTH, TOKENS]))
    keys = b.node("Reshape", keys, np.array([1, 4, DEPTH, TOKENS]))
    data = b.build(b.node("MatMul", b.input("x", (1, 4, rows, DEPTH)), keys), dtype="float32")
    model = onnx.load_model_from_string(data)
    share_heads(model)
    shared = any(node.op_type == "Reshape" and node.input[0] == "x" for node in model.graph.node)
    assert shared == (rows == TOKENS)


def joined(b: OnnxBuilder, *tensors: str) -> tuple[list[float], int]:
    """Return the scales of what a Concat of scale 0.04 joins, and how many operators are new."""
    y = b.quantize(b.node("Concat", *tensors, axis=2), 0.04, 1)
    data = b.build(y, dtype="float32")
    model = onnx.load_model_from_string(share_scales(data, requantize=True))
    known = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    (concat,) = (node for node in model.graph.node if node.op_type == "Concat")
    writer = {name: node for node in model.graph.node for name in node.output}
    scales = [float(known[writer[name].input[1]]) for name in concat.input]
    return scales, len(model.graph.node) - len(b.nodes)


def half(b: OnnxBuilder, x: str) -> str:
    return b.node("Slice", x, *(np.array([n]) for n in (0, 8, 2)))


def test_a_part_of_an_input_gets_the_scale_of_a_concatenation():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 4, 16)), 0.05, 3)
    y = b.quantize(b.node("Relu", b.quantize(b.input("z", (1, 4, 16)), 0.05, 3)), 0.02, -128)
    scales, new = joined(b, b.quantize(half(b, x), 0.05, 3), y)
    assert (scales, new) == (pytest.approx([0.04, 0.04]), 0)


def test_a_part_of_a_tensor_that_others_read_is_rounded_once_more():
    b = OnnxBuilder()
    part = b.quantize(half(b, b.quantize(b.input("x", (1, 4, 16)), 0.05, 3)), 0.05, 3)
    scales, new = joined(b, part, b.quantize(b.node("Relu", part), 0.02, -128))
    assert (scales, new) == (pytest.approx([0.04, 0.04]), 2)


def test_a_sigmoid_keeps_its_scale_before_a_concatenation():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 4, 16)), 0.05, 3)
    y = b.quantize(b.node("Sigmoid", x), 1 / 256, -128)
    scales, new = joined(b, y, b.quantize(b.node("Relu", x), 0.02, -128))
    assert (scales, new) == (pytest.approx([0.04, 0.04]), 2)


def test_one_tensor_may_be_joined_to_itself():
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 4, 16)), 0.05, 3)
    scales, new = joined(b, x, x)
    assert (scales, new) == (pytest.approx([0.04, 0.04]), 2)


def test_other_parts_of_a_split_keep_their_scale():
    b = OnnxBuilder()
    whole = b.quantize(b.node("Relu", b.quantize(b.input("x", (1, 4, 16)), 0.05, 3)), 0.03, -128)
    first, second = b.outputs("Split", 2, whole, axis=2)
    first, second = (b.quantize(x, 0.03, -128) for x in (first, second))
    scales, new = joined(b, first, b.quantize(b.node("Sigmoid", second), 1 / 256, -128))
    assert (scales, new) == (pytest.approx([0.04, 0.04]), 4)


def test_concatenations_of_one_tensor_each_have_one_scale():
    b = OnnxBuilder()
    x = b.quantize(b.node("Relu", b.quantize(b.input("x", (1, 4, 16)), 0.05, 3)), 0.03, -128)
    first = b.quantize(b.node("Concat", x, b.quantize(b.node("Abs", x), 0.03, 0), axis=2), 0.06, 0)
    second = b.quantize(b.node("Concat", x, b.quantize(b.node("Neg", x), 0.07, 0), axis=2), 0.08, 0)
    data = b.build(first, second, dtype="float32")
    model = onnx.load_model_from_string(share_scales(data, requantize=True))
    writer = {name: node for node in model.graph.node for name in node.output}
    reader = {name: node for node in model.graph.node for name in node.input}
    for concat in (node for node in model.graph.node if node.op_type == "Concat"):
        meaning = reader[concat.output[0]].input[1]
        assert {writer[name].input[1] for name in concat.input} == {meaning}
