"""What an imported operator means, against LiteRT, to the step of the output.

Which way a tie goes is a matter of exactness and not of import, so a difference of one is allowed.
"""

import warnings

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.passes import simplify
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.interpreter import run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

SEED = 2024


def integers(rng, shape, dtype="int8", low=-127):
    offset = 128 if dtype == "uint8" else 0
    return (rng.integers(low, 128, shape) + offset).astype(dtype)


def litert(model: bytes, feeds: list[np.ndarray]) -> list[np.ndarray]:
    interpreter = Interpreter(
        model_content=model,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    for detail, feed in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(detail["index"], feed)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def assert_means_the_same(builder: Builder, *outputs: int) -> None:
    model = builder.build(*outputs)
    graph = load_tflite(model)
    rng = np.random.default_rng(SEED)
    feeds = []
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype == "float32":
            feeds.append(rng.normal(size=tensor.shape).astype(np.float32))
        else:
            feeds.append(integers(rng, tensor.shape, tensor.dtype, -128))
    expected = litert(model, feeds)
    for candidate in (graph, simplify(graph)):
        actual = run(candidate, dict(zip(graph.inputs, feeds, strict=True)))
        for name, want in zip(graph.outputs, expected, strict=True):
            got = actual[name]
            assert got.dtype == want.dtype and got.shape == want.shape
            if got.dtype == np.float32:
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            else:
                assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
                assert len(np.unique(want)) > 3, "nothing was compared"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv(dtype, activation, padding):
    rng = np.random.default_rng(SEED)
    b = Builder(dtype)
    zero_point = 128 if dtype == "uint8" else 0
    x = b.input((2, 9, 8, 3), 0.03, zero_point - 7)
    # uint8 networks have one scale of the weights, int8 ones one a channel.
    weight = (
        integers(rng, (5, 3, 4, 3), dtype)
        if dtype != "float32"
        else rng.normal(size=(5, 3, 4, 3)).astype("float32")
    )
    scale = 0.02 if dtype == "uint8" else rng.uniform(0.01, 0.03, 5)
    y = b.conv(
        x,
        weight,
        rng.integers(-500, 500, 5),
        weight_scale=scale,
        weight_zero_point=120 if dtype == "uint8" else 0,
        scale=0.15,
        zero_point=zero_point + 4,
        stride=(2, 1),
        padding=padding,
        activation=activation,
    )
    assert_means_the_same(b, y)


@pytest.mark.parametrize(
    ("stride", "dilation"), [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((1, 1), (2, 3))]
)
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise(stride, dilation, multiplier):
    rng = np.random.default_rng(SEED)
    b = Builder()
    x = b.input((1, 10, 11, 4), 0.03, -7)
    channels = 4 * multiplier
    y = b.depthwise(
        x,
        integers(rng, (1, 3, 5, channels)),
        rng.integers(-500, 500, channels),
        weight_scale=rng.uniform(0.01, 0.03, channels),
        scale=0.1,
        zero_point=4,
        stride=stride,
        dilation=dilation,
    )
    assert_means_the_same(b, y)


@pytest.mark.parametrize("bias", [True, False])
def test_dense_flattens_its_input(bias):
    rng = np.random.default_rng(SEED)
    b = Builder()
    x = b.input((2, 2, 3, 4), 0.03, -7)
    y = b.dense(
        x,
        integers(rng, (7, 24)),
        rng.integers(-500, 500, 7) if bias else None,
        weight_scale=0.02,
        scale=0.2,
        zero_point=4,
        activation="RELU",
    )
    assert_means_the_same(b, y)


@pytest.mark.parametrize("code", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("shape", [(1, 5, 6, 3), (1, 1, 1, 3)])
def test_elementwise(code, shape):
    b = Builder()
    x0, x1 = b.input((1, 5, 6, 3), 0.03, -7), b.input(shape, 0.05, 11)
    assert_means_the_same(b, b.elementwise(code, x0, x1, 0.06, 3, activation="RELU"))


@pytest.mark.parametrize("code", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pool(code, padding):
    b = Builder()
    x = b.input((1, 9, 10, 3), 0.03, -7)
    options = {"stride": (2, 3), "padding": padding, "activation": "RELU6"}
    assert_means_the_same(b, b.pool(code, x, (3, 4), **options))


@pytest.mark.parametrize("axes", [(1, 2), (-1,), (2, -3)])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_mean(axes, keep_dims):
    b = Builder()
    x = b.input((1, 5, 6, 40), 0.03, -7)
    assert_means_the_same(b, b.mean(x, axes, 0.005, 3, keep_dims=keep_dims))


@pytest.mark.parametrize("value", [None, -100])
def test_pad(value):
    b = Builder()
    x = b.input((1, 4, 5, 3), 0.03, -7)
    assert_means_the_same(b, b.pad(x, ((0, 0), (1, 2), (3, 0), (0, 0)), value))


@pytest.mark.parametrize("code", ["LOGISTIC", "TANH"])
def test_functions_with_a_scale_of_their_own(code):
    b = Builder()
    x = b.input((1, 4, 5, 3), 0.03, -7)
    scale, zero_point = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}[code]
    assert_means_the_same(b, b.unary(code, x, scale, zero_point))


@pytest.mark.parametrize("code", ["RELU", "RELU6", "ELU", "HARD_SWISH", "QUANTIZE"])
def test_functions(code):
    b = Builder()
    x = b.input((1, 4, 5, 3), 0.06, -7)
    assert_means_the_same(b, b.unary(code, x, 0.04, 3))


def test_leaky_relu():
    b = Builder()
    x = b.input((1, 4, 5, 3), 0.06, -7)
    y = b.unary("LEAKY_RELU", x, 0.04, 3, options_type="LeakyReluOptions", alpha=0.25)
    assert_means_the_same(b, y)


def test_shapes():
    b = Builder()
    x = b.input((1, 4, 6, 2), 0.06, -7)
    y = b.concat([x, b.constant(np.full((1, 4, 1, 2), 9, np.int8), 0.06, -7), x], axis=-2)
    assert_means_the_same(b, b.reshape(y, (1, 2, -1)))


def test_float_ends():
    b = Builder("float32")
    x = b.input((1, 4, 6, 2))
    q = b.unary("QUANTIZE", x, 0.03, -5, dtype="int8")
    assert_means_the_same(b, b.unary("DEQUANTIZE", q, dtype="float32"))
