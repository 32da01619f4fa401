"""Layers of the golden model against their definitions, one number at a time."""

import numpy as np
import pytest

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import Rounding, requantize, scale_accumulator, wrap32
from tpulite.golden.layers import run_layer, run_layers
from tpulite.graph.layers import (
    Activation,
    Affine,
    Conv,
    Depthwise,
    Elementwise,
    LayerGraph,
    Pool,
    Requantization,
)

SEED = 20
NAMES = {"name": "l", "inputs": ("x",), "output": "y"}


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def numbers(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def record(rng, channels=1, **fields) -> Requantization:
    return Requantization(
        multiplier=rng.integers(1 << 30, 1 << 31, channels),
        shift=rng.integers(-9, -5, channels),
        bias=rng.integers(-900, 900, channels).astype(np.int32),
        **{"zero_point": -7, "low": -100, "high": 90} | fields,
    )


def scalar(record: Requantization, total: int, channel: int = 0) -> int:
    def pick(array):
        return int(array[channel if len(array) > 1 else 0])

    return requantize(
        int(total),
        bias=pick(record.bias),
        multiplier=pick(record.multiplier),
        shift=pick(record.shift),
        rounding=Rounding(pick(np.atleast_1d(record.rounding))),
        zero_point=record.zero_point,
        low=record.low,
        high=record.high,
    )


def window(x, y0, x0, size, dilation):
    """Yield positions of a window with the pixels that are not padding."""
    for ky in range(size[0]):
        for kx in range(size[1]):
            y, z = y0 + ky * dilation[0], x0 + kx * dilation[1]
            if 0 <= y < x.shape[0] and 0 <= z < x.shape[1]:
                yield ky, kx, x[y, z].astype(np.int64)


GEOMETRY = [
    {},
    {"stride": (2, 1), "padding": (1, 2, 0, 1)},
    {"dilation": (2, 3), "padding": (3, 0, 2, 5)},
]


@pytest.mark.parametrize("geometry", GEOMETRY)
def test_convolution_is_the_sum_of_its_products(rng, geometry):
    x, weight = numbers(rng, 7, 8, 3), numbers(rng, 3, 2, 3, 4)
    rule = record(rng, 4, rounding=np.array([0, 1, 2, 4]))
    layer = Conv(
        weight=weight,
        requantization=rule,
        input_zero_point=9,
        weight_zero_point=-3,
        **NAMES,
        **geometry,
    )
    result = run_layer(layer, x)
    for (oy, ox, n), value in np.ndenumerate(result):
        top, left = (
            position * layer.stride[axis] - layer.padding[axis]
            for axis, position in enumerate((oy, ox))
        )
        total = sum(
            int((pixel - 9) @ (weight[ky, kx, :, n].astype(np.int64) + 3))
            for ky, kx, pixel in window(x, top, left, (3, 2), layer.dilation)
        )
        assert value == scalar(rule, total, n)


def test_raw_sums_wrap_at_int32(rng):
    weight = np.full((1, 1, 70000, 1), -128, np.int8)
    layer = Conv(
        weight=weight, requantization=None, weight_zero_point=127, input_zero_point=127, **NAMES
    )
    (result,) = run_layer(layer, np.full((1, 1, 70000), -128, np.int8)).ravel()
    assert result == wrap32(70000 * 255 * 255)
    assert result.dtype == np.int32


@pytest.mark.parametrize("geometry", GEOMETRY)
def test_depthwise_has_a_kernel_for_each_channel(rng, geometry):
    x, weight, rule = numbers(rng, 7, 8, 5), numbers(rng, 3, 2, 5), record(rng, 5)
    layer = Depthwise(weight=weight, requantization=rule, input_zero_point=-20, **NAMES, **geometry)
    for (oy, ox, c), value in np.ndenumerate(run_layer(layer, x)):
        top, left = (
            position * layer.stride[axis] - layer.padding[axis]
            for axis, position in enumerate((oy, ox))
        )
        total = sum(
            (int(pixel[c]) + 20) * int(weight[ky, kx, c])
            for ky, kx, pixel in window(x, top, left, (3, 2), layer.dilation)
        )
        assert value == scalar(rule, total, c)


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
@pytest.mark.parametrize("scaling", Scaling)
def test_elementwise_scales_both_operands(rng, op, scaling):
    a, b, zeros, multipliers, shifts = (
        numbers(rng, 4, 5, 3),
        numbers(rng, 1, 1, 3),
        (5, -9),
        (1 << 20, 77777),
        (0, 3),
    )
    if scaling == Scaling.TFLITE:
        multipliers = (1 << 30, 1234567890)
    rule = record(rng)
    layer = Elementwise(
        name="l",
        inputs=("a", "b"),
        output="y",
        op=op,
        requantization=rule,
        zero_points=zeros,
        multipliers=multipliers,
        shifts=shifts,
        scaling=scaling,
    )

    def scaled(value, i):
        value = int(value) - zeros[i]
        if scaling == Scaling.EXACT:
            return wrap32(value * multipliers[i])
        return scale_accumulator(
            value << 20, multiplier=multipliers[i], shift=-shifts[i], rounding=Rounding.TFLITE
        )

    for (y, x, c), value in np.ndenumerate(run_layer(layer, a, b)):
        left, right = a[y, x, c], b[0, 0, c]
        if op == "mul":
            total = (int(left) - zeros[0]) * (int(right) - zeros[1])
        else:
            total = scaled(left, 0) + (-1 if op == "sub" else 1) * scaled(right, 1)
        assert value == scalar(rule, wrap32(total))


@pytest.mark.parametrize("op", ["max", "average", "sum"])
@pytest.mark.parametrize("offset", [0, 128])
def test_pooling_ignores_its_padding(rng, op, offset):
    x = numbers(rng, 6, 7, 4)
    rule = record(rng) if op == "sum" else None
    layer = Pool(
        op=op,
        window=(3, 2),
        stride=(2, 2),
        padding=(1, 1, 2, 0),
        requantization=rule,
        offset=offset if op == "average" else 0,
        low=-50,
        high=60,
        **NAMES,
    )
    for (oy, ox, c), value in np.ndenumerate(run_layer(layer, x)):
        inside = [int(p[c]) for _, _, p in window(x, oy * 2 - 1, ox * 2 - 1, (3, 2), (1, 1))]
        if op == "max":
            assert value == min(max(max(inside), -50), 60)
        elif op == "sum":
            assert rule is not None
            assert value == scalar(rule, sum(inside))
        else:
            total, count = sum(inside) + offset * len(inside), len(inside)
            magnitude = (abs(total) + count // 2) // count
            average = (magnitude if total >= 0 else -magnitude) - offset
            assert value == min(max(average, -50), 60)


def test_affine_multiplies_by_channel(rng):
    x, gain, rule = numbers(rng, 3, 3, 4), np.array([300, -5, 0, 32767], np.int16), record(rng, 4)
    layer = Affine(gain=gain, requantization=rule, **NAMES)
    for (y, z, c), value in np.ndenumerate(run_layer(layer, x)):
        assert value == scalar(rule, int(x[y, z, c]) * int(gain[c]), c)


def test_inputs_must_be_what_the_network_declares():
    graph = LayerGraph("g", (), {"x": Activation((2, 3, 1))}, ("x",), ("x",))
    x = np.zeros((2, 3, 1), np.int8)
    assert run_layers(graph, {"x": x})["x"] is x
    with pytest.raises(ValueError, match=r"^Input 'x' of 'g' is missing$"):
        run_layers(graph, {})
    with pytest.raises(ValueError, match=r"must be int8\[2, 3, 1\], not uint8\[2, 3, 1\]"):
        run_layers(graph, {"x": x.astype(np.uint8)})
