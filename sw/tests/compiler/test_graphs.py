"""Graphs of several layers, and shapes at the limits, against the golden layers."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.plan.requantizations import average_requantization
from tpulite.golden.layers import run_layers
from tpulite.golden.ops import requantize
from tpulite.graph.layers import (
    Activation,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    LayerGraph,
    Lut,
    Pad,
    Pool,
    Reshape,
)
from tpulite.runtime.session import Session
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.quick_options import quick_options

_NEGATED = np.arange(127, -129, -1).astype(np.int8)


def agree(layers, shapes, config, *, inputs=("x",), outputs=("y",)):
    """Compile a graph; the golden device must compute what the golden layers do."""
    images = {name: Activation(shape) for name, shape in shapes.items()}
    graph = LayerGraph("graph", tuple(layers), images, inputs, outputs)
    rng = np.random.default_rng(0)
    x = {name: rng.integers(-128, 128, shapes[name]).astype(np.int8) for name in inputs}
    got = Session(compile_layers(graph, config, quick_options())).run(x).outputs
    expected = run_layers(graph, x)
    for name in outputs:
        np.testing.assert_array_equal(got[name].reshape(shapes[name]), expected[name])


def filters(kernel, channels, **geometry):
    rng = np.random.default_rng(1)
    weight = rng.integers(-128, 128, (*kernel, channels)).astype(np.int8)
    requantization = random_requantization(rng, channels, 20_000)
    return Depthwise(
        name="filter",
        inputs=("x",),
        output="y",
        weight=weight,
        requantization=requantization,
        input_zero_point=3,
        **geometry,
    )


@pytest.mark.parametrize("op", ["add", "mul"])
def test_an_image_meets_itself(op):
    requantization = random_requantization(np.random.default_rng(2), 1, 1 << 14)
    square = Elementwise(
        name="square",
        inputs=("x", "x"),
        output="y",
        op=op,
        requantization=requantization,
        zero_points=(1, -1),
        multipliers=(1 << 30, 1 << 29),
        shifts=(12, 12),
    )
    agree([square], {"x": (3, 5, 20), "y": (3, 5, 20)}, Config())


def test_outputs_that_are_read_later():
    shape = (4, 4, 20)
    layers = [
        Lut(name="one", inputs=("x",), output="a", table=_NEGATED),
        Reshape(name="two", inputs=("a",), output="b"),
        Lut(name="three", inputs=("a",), output="y", table=_NEGATED),
    ]
    shapes = {"x": shape, "a": shape, "b": (2, 8, 20), "y": shape}
    agree(layers, shapes, Config(), outputs=("y", "b", "a"))


def test_large_outputs_that_are_read_later():
    """Nothing stays on chip, and what the host reads cannot be loaded."""
    names = ("x", "a", "b", "y")
    layers = [
        Lut(name=f"{source} to {target}", inputs=(source,), output=target, table=_NEGATED)
        for source, target in pairwise(names)
    ]
    config = Config(array_size=8, ub_rows=512)
    agree(layers, dict.fromkeys(names, (56, 2, 32)), config, outputs=("y", "a", "b"))


@pytest.mark.parametrize("name", ["x", "k"])
def test_outputs_must_be_computed(name):
    value = np.zeros((1, 1, 4), np.int8)
    images = dict.fromkeys(("x", "k", "y"), Activation(value.shape))
    layer = Lut(name="lut", inputs=("x",), output="y", table=_NEGATED)
    graph = LayerGraph("net", (layer,), images, ("x",), ("y", name), {"k": value})
    with pytest.raises(ValueError, match=f"^Output '{name}' of 'net' must be computed by a layer$"):
        compile_layers(graph, Config())


@pytest.mark.parametrize("array_size", [4, 16])
def test_filters_with_strides_beyond_the_kernel(array_size):
    """The stream has vectors between the windows, which are read and must be there."""
    layers = [
        Lut(name="lut", inputs=("in",), output="x", table=_NEGATED),
        filters((1, 1), 16, stride=(2, 1), padding=(1, 1, 1, 0)),
    ]
    shapes = {"in": (1, 7, 16), "x": (1, 7, 16), "y": (2, 8, 16)}
    agree(layers, shapes, Config(array_size=array_size), inputs=("in",))


def test_filters_larger_than_a_command():
    agree([filters((16, 17), 5)], {"x": (20, 18, 5), "y": (5, 2, 5)}, Config())


def test_kernels_larger_than_the_buffer():
    """A dense layer: its weights are more than the buffer holds, though of one channel block."""
    rng = np.random.default_rng(6)
    dense = Conv(
        name="dense",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (13, 10, 8, 5)).astype(np.int8),
        requantization=random_requantization(rng, 5, 100_000),
        weight_zero_point=2,
    )
    agree([dense], {"x": (13, 10, 8), "y": (1, 1, 5)}, Config(ub_rows=1024))


def test_filters_over_more_than_the_accumulators():
    config = Config(array_size=8, ub_rows=2048, acc_rows=16)
    agree([filters((3, 3), 8)], {"x": (21, 22, 8), "y": (19, 20, 8)}, config)


def test_rows_that_do_not_begin_at_beats():
    """Stores begin at beats, even where a command cannot compute so many rows."""
    config = Config(array_size=4, ub_rows=1024, acc_rows=16)
    rng = np.random.default_rng(3)
    conv = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (1, 1, 3, 5)).astype(np.int8),
        requantization=random_requantization(rng, 5, 20_000),
    )
    agree([conv], {"x": (9, 11, 3), "y": (9, 11, 5)}, config)
    lut = Lut(name="lut", inputs=("x",), output="y", table=_NEGATED)
    agree([lut], {"x": (9, 11, 5), "y": (9, 11, 5)}, config)


def test_results_by_columns_need_all_of_the_buffer():
    """Strips of a transposed input complete no rows, so its result must stay on chip."""
    rng = np.random.default_rng(5)
    conv = Conv(
        name="conv",
        inputs=("x",),
        output="a",
        weight=rng.integers(-128, 128, (10, 3, 1, 100)).astype(np.int8),
        requantization=random_requantization(rng, 100, 20_000),
        stride=(2, 1),
    )
    lut = Lut(name="lut", inputs=("a",), output="y", table=_NEGATED)
    shapes = {"x": (49, 10, 1), "a": (20, 8, 100), "y": (20, 8, 100)}
    for ub_rows in (2048, 16384):
        agree([conv, lut], shapes, Config(ub_rows=ub_rows))


@pytest.mark.parametrize("shape", [(1, 2500, 3), (2500, 1, 3)])
@pytest.mark.parametrize("kind", ["conv", "filter", "pool", "concat"])
def test_images_that_are_longer_than_a_command(shape, kind):
    rng = np.random.default_rng(4)
    long = 1 if shape[0] == 1 else 0
    kernel, images = ((1, 3), (3, 1))[1 - long], {"name": kind, "inputs": ("x",), "output": "y"}
    requantization = random_requantization(rng, 1, 20_000)
    layer = {
        "conv": Conv(
            **images,
            weight=rng.integers(-128, 128, (*kernel, 3, 3)).astype(np.int8),
            requantization=requantization,
        ),
        "filter": filters(kernel, 3),
        "pool": Pool(**images, op="max", window=kernel),
        "concat": Concat(**images | {"inputs": ("x", "x")}, axis=long),
    }[kind]
    length = 5000 if kind == "concat" else 2498
    result = (1, length, 3) if long else (length, 1, 3)
    agree([layer], {"x": shape, "y": result}, Config())


def test_averages_of_uint8_are_exact():
    """Half up for every sum of numbers of which each is 128 more."""
    for count in (1, 2, 3, 4, 7, 9, 64, 225, 255 * 255):
        sums = np.arange(-128 * count, 127 * count + 1, max(1, count // 99))
        record = average_requantization(count, -128, 127, 128)
        got = requantize(
            sums,
            bias=record.bias,
            multiplier=record.multiplier,
            shift=record.shift,
            rounding=record.rounding,
            zero_point=record.zero_point,
        )
        np.testing.assert_array_equal(got, (2 * (sums + 128 * count) + count) // (2 * count) - 128)


def test_averages_of_uint8():
    pool = Pool(
        name="pool",
        inputs=("x",),
        output="y",
        op="average",
        window=(2, 3),
        stride=(1, 2),
        padding=(1, 0, 0, 1),
        offset=128,
    )
    agree([pool], {"x": (6, 8, 20), "y": (6, 4, 20)}, Config())


@pytest.mark.parametrize("channels", [(64, 64), (40, 24)])
def test_images_too_large_to_stay_are_joined_and_framed(channels):
    rng = np.random.default_rng(5)
    layers = [
        Conv(
            name=f"conv{i}",
            inputs=("x",),
            output=f"a{i}",
            weight=rng.integers(-128, 128, (1, 1, 20, count)).astype(np.int8),
            requantization=random_requantization(rng, count, 20_000),
        )
        for i, count in enumerate(channels)
    ]
    total = sum(channels)
    layers += [
        Concat(name="concat", inputs=("a0", "a1"), output="y", axis=2),
        Pad(name="pad", inputs=("y",), output="z", padding=(4, 1, 9, 2), value=7),
    ]
    shapes = {f"a{i}": (20, 25, count) for i, count in enumerate(channels)}
    shapes |= {"x": (20, 25, 20), "y": (20, 25, total), "z": (33, 28, total)}
    agree(layers, shapes, Config(ub_rows=2048), outputs=("z",))


def test_refusals_name_the_layer():
    requantization = random_requantization(np.random.default_rng(0), 4, 100)
    conv = Conv(
        name="wide",
        inputs=("x",),
        output="y",
        weight=np.ones((1, 1, 4, 4), np.int8),
        requantization=replace(requantization, rounding=Rounding.AWAY),
    )
    images = {"x": Activation((4, 3, 4)), "y": Activation((4, 3, 4))}
    graph = LayerGraph("net", (conv,), images, ("x",), ("y",))
    with pytest.raises(ValueError, match=r"^Layer 'wide': Rounding .*; 16x16 has it$"):
        compile_layers(graph, Config(roundings=("single",)))
