import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import Rounding
from tpulite.compiler.plan.depthwise_plan import depthwise_plan
from tpulite.compiler.plan.requantizations import average_requantization
from tpulite.graph.layers import (
    Activation,
    Affine,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    LayerGraph,
    Lut,
    Pad,
    Pool,
    Requantization,
    Reshape,
)
from tpulite.graph.requantization import IDENTITY
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import (
    plain_conv,
    plain_elementwise,
    plain_pool,
    random_requantization,
    run_layer,
    scaled,
)

CONFIGS = {
    "16": Config(),
    "8 with two lanes": Config(array_size=8, requant_lanes=2, vector_lanes=4, ub_rows=4096),
    "4 small": Config(array_size=4, ub_rows=4096, acc_rows=64),
    "32": Config(array_size=32, ub_rows=4096),
    "16 small": Config(ub_rows=1024, acc_rows=32),
}


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS)
def config(request) -> Config:
    return request.param


def image(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def extent(size, kernel, stride, dilation, before, after):
    return (size + before + after - (kernel - 1) * dilation - 1) // stride + 1


def geometry(rng, *, dilated):
    """Return image extents, kernel, stride, dilation, padding and output extents."""
    while True:
        kernel = tuple(int(v) for v in rng.integers(1, 6, 2))
        stride = tuple(int(v) for v in rng.integers(1, 4, 2))
        dilation = tuple(int(v) for v in rng.integers(1, 4, 2)) if dilated else (1, 1)
        padding = tuple(int(v) for v in rng.integers(0, 4, 4))
        size = tuple(int(v) for v in rng.integers(1, 15, 2))
        out = tuple(
            extent(size[i], kernel[i], stride[i], dilation[i], padding[i], padding[i + 2])
            for i in range(2)
        )
        if min(out) > 0:
            return size, kernel, stride, dilation, padding, out


@pytest.mark.parametrize("seed", range(12))
def test_convolution(config, seed):
    rng = np.random.default_rng(seed)
    size, kernel, stride, dilation, padding, out = geometry(rng, dilated=seed % 2)
    channels, outputs = int(rng.choice([1, 3, 5, 16, 19, 40])), int(rng.choice([1, 8, 16, 33]))
    raw = seed % 4 == 3
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=image(rng, *kernel, channels, outputs),
        requantization=None
        if raw
        else random_requantization(rng, outputs, 5000 * (kernel[0] * kernel[1] * channels) ** 0.5),
        input_zero_point=int(rng.integers(-128, 128)),
        weight_zero_point=int(rng.integers(-128, 128)),
        stride=stride,
        dilation=dilation,
        padding=padding,
    )
    x = image(rng, *size, channels)
    shapes = {"x": x.shape, "y": (*out, outputs)}
    got = run_layer(layer, shapes, {"x": x}, config, raw=raw)
    np.testing.assert_array_equal(got, plain_conv(x, layer, out))


@pytest.mark.parametrize("seed", range(12))
def test_depthwise(config, seed):
    rng = np.random.default_rng(seed)
    size, kernel, stride, dilation, padding, out = geometry(rng, dilated=seed % 2)
    channels = int(rng.choice([1, 5, 16, 33]))
    layer = Depthwise(
        name="depthwise",
        inputs=("x",),
        output="y",
        weight=image(rng, *kernel, channels),
        requantization=random_requantization(rng, channels, 5000 * sum(kernel)),
        input_zero_point=int(rng.integers(-128, 128)),
        weight_zero_point=int(rng.integers(-128, 128)),
        stride=stride,
        dilation=dilation,
        padding=padding,
    )
    x = image(rng, *size, channels)
    got = run_layer(layer, {"x": x.shape, "y": (*out, channels)}, {"x": x}, config)
    np.testing.assert_array_equal(got, plain_conv(x, layer, out, depthwise=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_elementwise(config, seed, op):
    rng = np.random.default_rng(seed)
    exact = seed == 2
    layer = Elementwise(
        name=op,
        inputs=("a", "b"),
        output="y",
        op=op,
        requantization=random_requantization(rng, 1, 15000 if op == "mul" else 1 << 27),
        zero_points=(int(rng.integers(-128, 128)), int(rng.integers(-128, 128))),
        multipliers=(1 << 19, 1 << 20)
        if exact
        else (1518500250, int(rng.integers(1 << 30, 1 << 31))),
        shifts=tuple(int(v) for v in rng.integers(0, 4, 2)),
        scaling=Scaling.EXACT if exact else Scaling.TFLITE,
    )
    a = image(rng, 7, 5, 21)
    b = image(rng, 1, 1, 21) if seed == 1 else image(rng, *a.shape)
    shapes = {"a": a.shape, "b": b.shape, "y": a.shape}
    got = run_layer(layer, shapes, {"a": a, "b": b}, config)
    np.testing.assert_array_equal(got, plain_elementwise(a, b, layer))
    got = run_layer(layer, shapes, {"a": a}, config, constants={"b": b})
    np.testing.assert_array_equal(got, plain_elementwise(a, b, layer))


@pytest.mark.parametrize("size", [(7, 5, 21), (60, 33, 40)], ids=["stays", "tiles"])
def test_maximum_of_two(config, size):
    rng = np.random.default_rng(5)
    ends = {"name": "max", "inputs": ("a", "b"), "output": "y"}
    layer = Elementwise(**ends, op="max", requantization=IDENTITY, zero_points=(0, 0))
    a, b = image(rng, *size), image(rng, *size)
    shapes = dict.fromkeys("aby", size)
    got = run_layer(layer, shapes, {"a": a, "b": b}, config)
    np.testing.assert_array_equal(got, np.maximum(a, b))
    got = run_layer(layer, shapes, {"a": a}, config, constants={"b": b})
    np.testing.assert_array_equal(got, np.maximum(a, b))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("op", ["max", "average", "sum"])
def test_pool(config, seed, op):
    rng = np.random.default_rng(seed)
    size, window, stride = ((9, 11), (9, 11), (1, 1)) if not seed else ((9, 8), (3, 2), (2, 1))
    padding = (0, 0, 0, 0) if not seed else tuple(int(v) for v in rng.integers(0, 2, 4))
    out = tuple(
        extent(size[i], window[i], stride[i], 1, padding[i], padding[i + 2]) for i in (0, 1)
    )
    layer = Pool(
        name=op,
        inputs=("x",),
        output="y",
        op=op,
        window=window,
        stride=stride,
        padding=padding,
        requantization=random_requantization(rng, 1, 1000) if op == "sum" else None,
        low=-100,
        high=90,
    )
    x = image(rng, *size, 19)
    got = run_layer(layer, {"x": x.shape, "y": (*out, 19)}, {"x": x}, config)
    np.testing.assert_array_equal(got, plain_pool(x, layer, out))


def test_functions_of_one_number(config):
    rng = np.random.default_rng(5)
    x = image(rng, 6, 7, 18)
    table = image(rng, 256)
    got = run_layer(
        Lut(name="lut", inputs=("x",), output="y", table=table),
        {"x": x.shape, "y": x.shape},
        {"x": x},
        config,
    )
    np.testing.assert_array_equal(got, table[x.astype(int) + 128])
    gain = rng.integers(-(1 << 15), 1 << 15, 18).astype(np.int16)
    requantization = random_requantization(rng, 18, 1 << 20)
    affine = Affine(
        name="affine", inputs=("x",), output="y", gain=gain, requantization=requantization
    )
    got = run_layer(affine, {"x": x.shape, "y": x.shape}, {"x": x}, config)
    np.testing.assert_array_equal(got, scaled(x.astype(np.int64) * gain, requantization))


def test_pixels_that_move(config):
    rng = np.random.default_rng(6)
    a, b, c = image(rng, 3, 5, 21), image(rng, 3, 5, 7), image(rng, 4, 3, 64)
    framed = np.pad(a, ((1, 2), (0, 3), (0, 0)), constant_values=-9)
    pad = Pad(name="pad", inputs=("a",), output="y", padding=(1, 0, 2, 3), value=-9)
    cases = [(pad, {"a": a}, framed)]
    for axis, images in ((0, [a, a]), (1, [a, a]), (2, [a, b, a]), (2, [c, c])):
        inputs = {f"x{i}": x for i, x in enumerate(images)}
        layer = Concat(name="concat", inputs=tuple(inputs), output="y", axis=axis)
        cases.append((layer, inputs, np.concatenate(images, axis)))
    reshape = Reshape(name="reshape", inputs=("x",), output="y")
    cases += [(reshape, {"x": a}, a.reshape(5, 3, 21)), (reshape, {"x": c}, c.reshape(2, 1, 384))]
    for layer, inputs, expected in cases:
        shapes = {name: x.shape for name, x in inputs.items()} | {"y": expected.shape}
        np.testing.assert_array_equal(run_layer(layer, shapes, inputs, config), expected)


def test_an_input_in_another_shape(config):
    rng = np.random.default_rng(7)
    x = image(rng, 6, 4, 20)
    layers = (
        Reshape(name="reshape", inputs=("x",), output="flat"),
        Lut(name="lut", inputs=("flat",), output="y", table=np.arange(-128, 128).astype(np.int8)),
    )
    images = {"x": Activation(x.shape), "flat": Activation((3, 8, 20)), "y": Activation((3, 8, 20))}
    program = kept_program(LayerGraph("net", layers, images, ("x",), ("y",)), config)
    got = Session(program).run({"x": x}).outputs["y"]
    np.testing.assert_array_equal(got, x.reshape(3, 8, 20))


def test_averages_are_exact():
    """Half away from zero for every sum of up to 225 numbers."""
    for count in [*range(1, 26), 49, 64, 100, 125, 225]:
        sums = np.arange(-128 * count, 127 * count + 1)
        got = scaled(sums[:, None], average_requantization(count, -128, 127))[:, 0]
        expected = np.sign(sums) * ((2 * abs(sums) + count) // (2 * count))
        np.testing.assert_array_equal(got, np.clip(expected, -128, 127))


def test_filters_use_the_array_well():
    config = Config()
    plan = depthwise_plan((3, 3), (1, 1), (56, 56), config)
    assert plan.outputs == 18
    assert plan.cycles < 1.2 * 56 * 56
    assert depthwise_plan((3, 3), (2, 2), (56, 56), config).cycles < 5.2 * 56 * 56


def test_rounding_that_the_chip_lacks(config):
    chip = Config(array_size=config.array_size, roundings=("ruy",))
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=np.ones((1, 1, 4, 4), np.int8),
        requantization=Requantization(
            multiplier=np.array([1 << 30]), shift=np.array([0]), rounding=Rounding.SINGLE
        ),
    )
    x = np.zeros((2, 2, 4), np.int8)
    with pytest.raises(ValueError, match=r"must be one of \['ruy'\].*not 'single'; .* ha(s|ve) it"):
        run_layer(layer, {"x": x.shape, "y": x.shape}, {"x": x}, chip)
