"""Readers of pictures as PaddlePaddle exports them: what becomes of factors, curves and moves."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnx

from tpulite.frontend.files import load_graph
from tpulite.frontend.onnx.library import open_session
from tpulite.quant.calibrate import quantize_onnx
from tpulite.quant.floats.affine import fold_affines, write_hard_sigmoids
from tpulite.quant.floats.curves import name_curves
from tpulite.quant.floats.norm_forms import find_norms
from tpulite.quant.floats.observe import run_for
from tpulite.quant.prepare import prepare
from tpulite.quant.quality_onnx import measure_quality
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.onnx_builder import OnnxBuilder

RNG = np.random.default_rng(0)


def constant(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def conv(b: OnnxBuilder, x: str, channels: int, read: int, kernel: int, **flags) -> str:
    weight = constant(channels, read // flags.get("group", 1), kernel, kernel) / kernel
    return b.node("Conv", x, weight, constant(channels), pads=[kernel // 2] * 4, **flags)


def number(value: float) -> np.ndarray:
    return np.array([value], np.float32)


def hard_swish(b: OnnxBuilder, x: str, six: float = 6) -> str:
    clip = b.node("Clip", b.node("Add", x, np.float32(3)), np.float32(0), np.float32(six))
    return b.node("Div", b.node("Mul", x, clip), np.float32(6))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def outputs(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = open_session(model.SerializeToString(), "DISABLE_ALL")
    return session.run(None, {"x": x})[0]


def folded(b: OnnxBuilder, y: str, shape: tuple[int, ...]) -> list[str]:
    """Fold a network and check that it computes the same; return its operators."""
    before, after = (onnx.load_model_from_string(b.build(y)) for _ in range(2))
    write_hard_sigmoids(after.graph)
    fold_affines(after)
    onnx.checker.check_model(after)
    feed = {"x": constant(*shape)}
    names = [{x for node in each.graph.node for x in node.output} for each in (before, after)]
    both = sorted(names[0] & names[1])
    assert y in both
    (wanted,), (found,) = (run_for(both, each, [feed], "DISABLE_ALL") for each in (before, after))
    for name in both:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-3, atol=1e-4, err_msg=name)
    return operators(after)


def affine(b: OnnxBuilder, x: str) -> str:
    return b.node("Add", b.node("Mul", number(1.7), x), number(-0.6))


SHAPE = (1, 4, 6, 6)


def test_factors_and_addends_behind_a_convolution_go_into_it():
    b = OnnxBuilder()
    y = affine(b, conv(b, b.input("x", SHAPE), 8, 4, 3))
    assert folded(b, b.node("Div", y, constant(8, 1, 1)), SHAPE) == ["Conv"]


def test_of_a_tensor_that_others_read_nothing_is_folded():
    b = OnnxBuilder()
    x = conv(b, b.input("x", SHAPE), 8, 4, 3)
    assert folded(b, b.node("Mul", affine(b, x), x), SHAPE) == ["Conv", "Mul", "Add", "Mul"]


def test_factors_go_into_the_convolutions_behind_and_addends_unless_those_pad():
    for kernel, rest in ((1, []), (3, ["Add"])):
        for group in (1, 4):
            b = OnnxBuilder()
            x = affine(b, b.node("Relu", b.input("x", SHAPE)))
            y = b.node("Add", *(conv(b, x, 8, 4, kernel, group=group) for _ in range(2)))
            assert folded(b, y, SHAPE) == ["Relu", *rest, "Conv", "Conv", "Add"]


@pytest.mark.parametrize("group", [1, 2])
def test_a_batch_norm_behind_a_transposed_convolution_goes_into_it(group):
    b = OnnxBuilder()
    x = b.node("ConvTranspose", b.input("x", SHAPE), constant(4, 6 // group, 2, 2), group=group)
    x = b.node("Add", x, constant(1, 6, 1, 1))
    scale, shift, mean = (constant(6) for _ in range(3))
    y = b.node("BatchNormalization", x, scale, shift, mean, np.abs(constant(6)) + 1)
    assert folded(b, y, SHAPE) == ["ConvTranspose"]


@pytest.mark.parametrize("numerics", ["ort", "litert-ref"])
def test_a_transposed_convolution_in_groups_is_quantized_with_its_bias(tmp_path, numerics):
    b, path = OnnxBuilder(), tmp_path / "net.onnx"
    bias, flags = constant(8), {"group": 2, "strides": [2, 2]}
    y = b.node("ConvTranspose", b.input("x", SHAPE), constant(4, 4, 2, 2), bias, **flags)
    data, feeds = b.build(y, dtype="float32"), [{"x": constant(*SHAPE)} for _ in range(4)]
    path.write_bytes(quantize_onnx(data, feeds, numerics=numerics))
    (output,) = measure_quality(data, path.read_bytes(), feeds).outputs
    assert output.cosine > 0.999
    model = Model.load(path)
    assert compare_model(model, open_oracle(numerics, path, load_graph(path)), feeds[:1]).same


def test_a_row_of_pixels_is_no_row_of_channels():
    b = OnnxBuilder()
    y = b.node("Mul", conv(b, b.input("x", (1, 4, 6, 8)), 8, 4, 3), constant(8))
    assert folded(b, y, (1, 4, 6, 8)) == ["Conv", "Mul"]


@pytest.mark.parametrize("shape", [(8, 1, 1), (1, 1, 1)])
def test_a_factor_that_gives_a_dense_layer_s_result_more_axes_stays(shape):
    b = OnnxBuilder()
    y = b.node("Gemm", b.input("x", (1, 6)), constant(6, 8), constant(8))
    assert folded(b, b.node("Mul", y, constant(*shape)), (1, 6)) == ["Gemm", "Mul"]


def test_a_hard_sigmoid_behind_a_convolution_is_a_clip():
    b = OnnxBuilder()
    y = b.node("HardSigmoid", conv(b, b.input("x", SHAPE), 8, 4, 1), alpha=0.3, beta=0.4)
    assert folded(b, y, SHAPE) == ["Conv", "Clip"]


@pytest.mark.parametrize(("six", "found"), [(6, ["HardSwish"]), (5, ["Add", "Clip", "Mul", "Div"])])
def test_hard_swish_is_found_by_its_values(six, found):
    b = OnnxBuilder()
    model = onnx.load_model_from_string(b.build(hard_swish(b, b.input("x", SHAPE), six)))
    name_curves(model.graph)
    assert operators(model) == found


def test_a_curve_that_ends_somewhere_is_no_hard_swish():
    b = OnnxBuilder()
    y = hard_swish(b, b.input("x", SHAPE))
    y = b.node("Clip", y, np.float32(-1), np.float32(20))
    model = onnx.load_model_from_string(b.build(y))
    name_curves(model.graph)
    assert operators(model) == ["HardSwish", "Clip"]


def test_what_branches_read_is_not_folded():
    b = OnnxBuilder()
    x = conv(b, b.input("x", SHAPE), 8, 4, 3)
    kind = onnx.helper.make_tensor_value_info("inner", onnx.TensorProto.FLOAT, (1, 8, 6, 6))
    bodies = {
        f"{name}_branch": onnx.helper.make_graph(
            [onnx.helper.make_node(op, [x], ["inner"])], name, [], [kind]
        )
        for name, op in (("then", "Relu"), ("else", "Neg"))
    }
    choice = b.node("Less", b.node("ReduceMean", "x", keepdims=0), np.float32(0))
    y = b.node("Add", b.node("Mul", x, constant(8, 1, 1)), b.node("If", choice, **bodies))
    assert "Mul" in folded(b, y, SHAPE)


@pytest.mark.parametrize("flags", [({}, {"perm": [1, 0]}), ({"axes": [1]}, {})])
def test_means_over_all_axes_and_transposes_without_order_stay(tmp_path, flags):
    b = OnnxBuilder(opset=14)
    x = b.input("x", (4, 6))
    mean = b.node("ReduceMean", x, **flags[0])
    y = b.node("Transpose", b.node("Sub", x, mean), **flags[1])
    path = tmp_path / "net.onnx"
    path.write_bytes(b.build(y))
    prepare(path)
    assert operators(onnx.load(path)) == ["ReduceMean", "Sub", "Transpose"]


def test_normalizations_of_channels_are_over_the_last_axis_again(tmp_path):
    b = OnnxBuilder(opset=14)
    x = b.input("x", (1, 8, 5))
    # As ONNX Runtime writes a normalization of x.transpose(0, 2, 1).
    centered = b.node("Sub", x, b.node("ReduceMean", x, axes=[1]))
    centered = b.node("Transpose", centered, perm=[0, 2, 1])
    square = b.node("Pow", centered, np.float32(2))
    deviation = b.node("Sqrt", b.node("Add", b.node("ReduceMean", square, axes=[2]), number(1e-5)))
    y = b.node("Mul", b.node("Div", centered, deviation), constant(8))
    data = b.build(b.node("Add", y, constant(8)))
    before = onnx.load_model_from_string(data)
    assert not any(norm.centered for norm in find_norms(before))
    path, values = tmp_path / "net.onnx", constant(1, 8, 5)
    path.write_bytes(data)
    prepare(path)
    after = onnx.load(path)
    assert [norm.centered for norm in find_norms(after)] == [True]
    wanted = outputs(before, values)
    np.testing.assert_allclose(outputs(after, values), wanted, rtol=1e-4, atol=1e-5)


def reader() -> bytes:
    """Return a small network of the kinds of which readers of text consist."""
    b = OnnxBuilder(opset=12)
    x = conv(b, b.input("x", (1, 3, 16, 32)), 16, 3, 3, strides=[2, 2])
    x = affine(b, hard_swish(b, affine(b, x)))
    x = affine(b, hard_swish(b, conv(b, x, 16, 16, 3, group=16)))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], pads=[2, 1, 0, 1])
    gate = b.node("Relu", conv(b, b.node("GlobalAveragePool", x), 4, 16, 1))
    x = b.node("Mul", x, b.node("HardSigmoid", conv(b, gate, 16, 4, 1)))
    pooled = b.node("AveragePool", x, kernel_shape=[8, 2], strides=[8, 2])
    y = b.node("Conv", pooled, constant(16, 16, 1, 3) / 4, pads=[0, 1, 0, 1])
    y = b.node("Mul", y, b.node("Sigmoid", b.node("Mul", y, number(1))))
    x = b.node("Concat", pooled, y, axis=1)
    tokens = b.node("Transpose", b.node("Squeeze", x, axes=[2]), perm=[0, 2, 1])
    heads = b.node("Add", b.node("MatMul", tokens, constant(32, 48) / 6), constant(48))
    heads = b.node("Reshape", heads, np.array([0, 8, 3, 2, 8]))
    heads = b.node("Transpose", heads, perm=[2, 0, 3, 1, 4])
    starts = [np.array([i]) for i in range(4)]
    q, k, v = (
        b.node("Squeeze", b.node("Slice", heads, starts[i], starts[i + 1], starts[0]), axes=[0])
        for i in range(3)
    )
    scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2]))
    y = b.node("MatMul", b.node("Softmax", scores, axis=-1), v)
    y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1, 3]), np.array([0, 8, 16]))
    return b.build(b.node("MatMul", y, constant(16, 24)))


def test_a_reader_stays_on_the_machine_and_equals_litert(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    # Pixels between the steps of 8 bits: how halves are rounded decides each of them.
    pixels = np.random.default_rng(1).integers(0, 256, (8, 1, 3, 16, 32))
    samples = (pixels / 127.5 - 1).astype(np.float32)
    path = tmp_path / "reader.onnx"
    path.write_bytes(quantize_onnx(reader(), samples, numerics="litert-ref"))
    model = Model.load(path)
    assert (model.crossings, model.host_macs) == (2, 0)
    oracle = open_oracle("litert-ref", path, load_graph(path))
    assert compare_model(model, oracle, [{"x": each} for each in samples[:2]]).same


def test_what_a_file_says_of_itself_stays():
    model = onnx.load_model_from_string(reader())
    onnx.helper.set_model_props(model, {"character": "a\nb"})
    samples = constant(2, 1, 3, 16, 32)
    for numerics, more in (("ort", {}), ("litert-ref", {"tpulite.numerics": "litert-ref"})):
        data = quantize_onnx(model.SerializeToString(), samples, numerics=numerics)
        known = onnx.load_model_from_string(data).metadata_props
        assert ({"character": "a\nb"} | more).items() <= {x.key: x.value for x in known}.items()
