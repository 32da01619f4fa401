"""Normalizations over pixels: what quantize writes for them runs on the machine."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
import onnx

from tpulite.frontend.files import load_graph
from tpulite.quant.calibrate import default_numerics, fixed_batch, quantize_onnx
from tpulite.quant.floats.expand import expand_group_norms
from tpulite.quant.floats.feature_norms import write_feature_norms
from tpulite.quant.quality_onnx import measure_quality
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.onnx_builder import OnnxBuilder, run_onnx
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import breadth

CHANNELS, GROUPS = 16, 4
Norm = Callable[[OnnxBuilder, str], str]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def affine(count: int = CHANNELS) -> tuple[np.ndarray, np.ndarray]:
    return 1 + 0.3 * draw(count, seed=1), 0.3 * draw(count, seed=2)


def instance(b: OnnxBuilder, x: str) -> str:
    return b.node("InstanceNormalization", x, *affine())


def plain(b: OnnxBuilder, x: str) -> str:
    return b.node("InstanceNormalization", x, np.ones(CHANNELS, "f"), np.zeros(CHANNELS, "f"))


def spelled(groups: int) -> Norm:
    """Return what PyTorch exports of GroupNorm."""

    def norm(b: OnnxBuilder, x: str) -> str:
        flat = b.node("Reshape", x, np.array([0, groups, -1]))
        flat = b.node("InstanceNormalization", flat, np.ones(groups, "f"), np.zeros(groups, "f"))
        y = b.node("Reshape", flat, b.node("Shape", x))
        gamma, beta = (each.reshape(-1, 1, 1) for each in affine())
        return b.node("Add", b.node("Mul", y, gamma), beta)

    return norm


def shared(b: OnnxBuilder, x: str) -> str:
    """Return a normalization of groups whose input something else reads behind the Reshape."""
    flat = b.node("Reshape", x, np.array([0, GROUPS, -1]))
    normal = b.node("InstanceNormalization", flat, *affine(GROUPS))
    y, other = (b.node("Reshape", each, np.array([0, CHANNELS, 16, 16])) for each in (normal, flat))
    return b.node("Add", y, b.node("Sigmoid", other))


def grouped(b: OnnxBuilder, x: str) -> str:
    count = GROUPS if b.opset < 21 else CHANNELS
    return b.node("GroupNormalization", x, *affine(count), num_groups=GROUPS)


def contributed(b: OnnxBuilder, x: str) -> str:
    flags = {"groups": GROUPS, "activation": 1, "channels_last": 1}
    x = b.node("Transpose", x, perm=[0, 2, 3, 1])
    (y,) = b.outputs("GroupNorm", 1, x, *affine(), contributed=True, **flags)
    return b.node("Transpose", y, perm=[0, 3, 1, 2])


def network(norm: Norm, opset: int, *, axes: int = 2, skip: bool = False) -> bytes:
    """Return a network; the channels of its convolutions differ by a factor of a hundred."""
    b = OnnxBuilder(opset=opset)

    def conv(x: str, channels: int, read: int) -> str:
        uneven = np.logspace(-1, 1, channels, dtype=np.float32).reshape(-1, *(1,) * (axes + 1))
        weight = draw(channels, read, *(3,) * axes) * uneven / float(np.sqrt(read * 3**axes))
        bias = 3 * draw(channels) * uneven.ravel()
        return b.node("Conv", x, weight, bias, pads=[1] * 2 * axes)

    first = conv(b.input("x", (1, 3, *(16,) * axes)), CHANNELS, 3)
    y = b.node("Relu", norm(b, first))
    y = norm(b, conv(y, CHANNELS, CHANNELS))
    if skip:
        y = norm(b, b.node("Add", y, first))
    return b.build(conv(b.node("Relu", y), 8, CHANNELS), dtype="float32")


NETWORKS = {
    "instances": (network, instance, 17),
    "without factors": (network, plain, 17),
    "PyTorch": (network, spelled(GROUPS), 17),
    "one group": (network, spelled(1), 17),
    "opset 18": (network, grouped, 18),
    "opset 21": (network, grouped, 21),
    "ONNX Runtime": (network, contributed, 17),
}
QUICK = ("instances", "PyTorch", "opset 18", "opset 21", "ONNX Runtime")


def samples(*shape: int) -> list[dict[str, np.ndarray]]:
    sizes = np.linspace(0.5, 2, 8, dtype=np.float32)
    return [{"x": draw(*shape, seed=seed) * size} for seed, size in enumerate(sizes)]


def quantized(data: bytes, feeds: list[dict[str, np.ndarray]], path, crossings: int = 2) -> Model:
    """Check the network that becomes of another one."""
    assert default_numerics(data) == "litert-ref"
    path.write_bytes(quantize_onnx(data, feeds, numerics="litert-ref"))
    (output,) = measure_quality(fixed_batch(data), path.read_bytes(), feeds).outputs
    assert output.cosine > 0.995
    model = Model.load(path, options=quick_options())
    assert (len(model.programs), model.crossings) == (1, crossings)
    return model


@pytest.mark.parametrize(
    "name", [*QUICK, *breadth("forms become one", *[x for x in NETWORKS if x not in QUICK])]
)
def test_normalized_feature_maps_are_one_program(name, tmp_path):
    made, norm, opset = NETWORKS[name]
    quantized(made(norm, opset), samples(1, 3, 16, 16), tmp_path / "net.onnx")


@pytest.mark.parametrize("norm", [instance, grouped])
def test_every_tensor_of_a_normalization_is_litert_s(norm, tmp_path):
    feeds, path = samples(1, 3, 16, 16), tmp_path / "net.onnx"
    model = quantized(network(norm, 21, skip=True), feeds, path)
    compared = compare_model(model, open_oracle("litert-ref", path, load_graph(path)), feeds[:1])
    assert compared.same
    assert len(compared.layers) > 30


def test_sequences_are_normalized_on_the_machine(tmp_path):
    quantized(network(instance, 17, axes=1), samples(1, 3, 16), tmp_path / "net.onnx")


def test_a_channel_that_is_constant_is_its_addend(tmp_path):
    b = OnnxBuilder()
    weight = draw(CHANNELS, 3, 1, 1)
    weight[3] = 0
    y = instance(b, b.node("Conv", b.input("x", (1, 3, 8, 8)), weight, draw(CHANNELS)))
    quantized(b.build(y, dtype="float32"), samples(1, 3, 8, 8), tmp_path / "net.onnx")


def test_weights_of_float16_are_weights(tmp_path):
    b, half = OnnxBuilder(), np.float16
    x = b.node("Cast", b.input("x", (1, 3, 8, 8)), to=onnx.TensorProto.FLOAT16)
    y = b.node("Conv", x, draw(CHANNELS, 3, 3, 3).astype(half), draw(CHANNELS).astype(half))
    y = b.node("InstanceNormalization", y, *(each.astype(half) for each in affine()))
    y = b.node("Cast", y, to=onnx.TensorProto.FLOAT)
    feeds, path = samples(1, 3, 8, 8), tmp_path / "net.onnx"
    model = quantized(b.build(y, dtype="float32"), feeds, path)
    assert compare_model(model, open_oracle("litert-ref", path, load_graph(path)), feeds[:1]).same


@pytest.mark.parametrize("shape", [(8, 8), (4, 4, 4)])
def test_factors_that_are_computed_keep_a_group_norm_on_the_machine(tmp_path, shape):
    b = OnnxBuilder(opset=21)
    y = b.node("Conv", b.input("x", (1, 3, 8, 8)), draw(CHANNELS, 3, 3, 3), pads=[1] * 4)
    y = b.node("Reshape", y, np.array([1, CHANNELS, *shape]))
    factors, (_, addends) = b.input("factors", (CHANNELS,)), affine()
    y = b.node("Relu", b.node("GroupNormalization", y, factors, addends, num_groups=GROUPS))
    feeds = [each | {"factors": draw(CHANNELS)} for each in samples(1, 3, 8, 8)]
    path = tmp_path / "net.onnx"
    model = quantized(b.build(y, dtype="float32"), feeds, path, crossings=3)
    assert compare_model(model, open_oracle("litert-ref", path, load_graph(path)), feeds[:1]).same


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_group_norm_in_other_operators_is_the_same(opset, axes):
    b = OnnxBuilder(opset=opset)
    shape = (2, CHANNELS, *range(4, 4 + axes))
    y = grouped(b, grouped(b, b.input("x", shape)))
    model = onnx.load_model_from_string(b.build(y, dtype="float32"))
    x = 5 + draw(*shape)
    (wanted,) = run_onnx(model.SerializeToString(), x)
    expand_group_norms(model, opset)
    assert "GroupNormalization" not in {node.op_type for node in model.graph.node}
    (found,) = run_onnx(model.SerializeToString(), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["GroupNorm", "SkipGroupNorm"])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("pixels", [(5, 2), (1, 1), ()])
def test_a_group_norm_of_gpus_runs_on_a_cpu(kind, activation, pixels):
    b = OnnxBuilder()
    x, skip, bias = draw(2, 5, 2, CHANNELS), draw(2, *pixels, CHANNELS, seed=1), draw(CHANNELS)
    gamma, beta = affine()
    skips = kind == "SkipGroupNorm"
    more = [b.input("skip", skip.shape), bias] if skips else []
    outputs = b.outputs(
        kind, 1 + skips, b.input("x", x.shape), gamma, beta, *more, contributed=True,
        groups=GROUPS, epsilon=0.01, activation=activation,
    )  # fmt: skip
    model = onnx.load_model_from_string(b.build(*outputs, dtype="float32"))
    expand_group_norms(model, 17)
    found = run_onnx(model.SerializeToString(), *sorted_inputs(b, x=x, skip=skip))
    whole = skip.reshape(2, *(pixels or (1, 1)), CHANNELS)
    total = (x + whole + bias if skips else x).astype(np.float64)
    groups = total.reshape(2, 10, GROUPS, -1)
    mean, variance = (f(groups, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    y = ((groups - mean) / np.sqrt(variance + 0.01)).reshape(x.shape) * gamma + beta
    wanted = [y / (1 + np.exp(-y)) if activation else y, total]
    for one, other in zip(found, wanted, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert len(found) == 1 + skips


def sorted_inputs(b: OnnxBuilder, **arrays: np.ndarray) -> list[np.ndarray]:
    return [arrays[value.name] for value in b.inputs]


@pytest.mark.parametrize("norm", [instance, spelled(GROUPS), shared])
@pytest.mark.parametrize("skip", [False, True])
def test_the_steps_of_a_normalization_are_the_same_in_floats(norm, skip):
    data = network(norm, 17, skip=skip)
    (x,) = samples(1, 3, 16, 16)[3].values()
    model = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(data), data_prop=True)
    write_feature_norms(model, [{"x": x}])
    (wanted,), (found,) = run_onnx(data, x), run_onnx(model.SerializeToString(), x)
    assert "Sqrt" in {node.op_type for node in model.graph.node}
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def batch_norm(b: OnnxBuilder, x: str, channels: int) -> str:
    variance = np.square(draw(channels, seed=3)) + 0.1
    return b.node("BatchNormalization", x, *affine(channels), draw(channels, seed=4), variance)


def test_batch_norms_between_other_operators_are_convolutions(tmp_path):
    b = OnnxBuilder()
    y = instance(b, b.node("Conv", b.input("x", (1, 3, 16, 16)), draw(CHANNELS, 3, 3, 3)))
    weight = draw(CHANNELS, CHANNELS, 3, 3) / 12
    inner = b.node("Conv", b.node("Relu", batch_norm(b, y, CHANNELS)), weight, pads=[1] * 4)
    y = b.node("Relu", batch_norm(b, b.node("Add", y, inner), CHANNELS))
    quantized(b.build(y, dtype="float32"), samples(1, 3, 16, 16), tmp_path / "net.onnx")


@pytest.mark.parametrize("transposed", [0, 1])
def test_batch_norms_beside_dense_layers_go_into_them(transposed):
    b = OnnxBuilder()

    def dense(x: str, read: int, made: int) -> str:
        weight = draw(made, read) if transposed else draw(read, made)
        return b.node("Gemm", x, weight / 5, draw(made), transB=transposed)

    y = dense(batch_norm(b, b.input("x", (1, 24)), 24), 24, 32)
    y = dense(b.node("Relu", batch_norm(b, y, 32)), 32, 16)
    y = dense(batch_norm(b, b.node("Relu", y), 16), 16, 8)
    data, feeds = b.build(y, dtype="float32"), samples(1, 24)
    made = quantize_onnx(data, feeds)
    kinds = [node.op_type for node in onnx.load_model_from_string(made).graph.node]
    assert "BatchNormalization" not in kinds
    assert kinds.count("Gemm") == 3
    (output,) = measure_quality(data, made, feeds).outputs
    assert output.cosine > 0.999
