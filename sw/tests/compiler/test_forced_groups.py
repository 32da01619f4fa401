"""Any groups give the same bits: random ones, and those that are hard for some layer."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.graph.layers import (
    Activation,
    Conv,
    Depthwise,
    Elementwise,
    LayerGraph,
    MatMul,
    Pad,
    Pool,
    Reshape,
    Softmax,
    Transpose,
)
from tpulite.quant.exactness.softmax import fixed_point_exponentials
from tpulite_testing.compiling.forced_groups import forced_groups, random_groups
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.quick_options import quick_options


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_in_random_groups(seed):
    compilation = random_compilation(Seeded(seed), largest=4000)
    try:
        with forced_groups(random_groups(seed)):
            program = compilation.compile()
    except ValueError as error:
        if "does not fit" in str(error) or "must stay" in str(error):
            pytest.skip("The buffer is too small")
        raise
    compilation.run(program, "golden")


def conv(source, output, channels, kernel=3, *, raw=False):
    rng, (depth, outputs) = np.random.default_rng(5), channels
    return Conv(
        name=output,
        inputs=(source,),
        output=output,
        weight=rng.integers(-9, 9, (kernel, kernel, depth, outputs)).astype(np.int8),
        requantization=None if raw else random_requantization(rng, outputs, 2000),
        padding=(kernel // 2,) * 4,
    )


def depthwise(source, output, channels=16):
    rng = np.random.default_rng(6)
    return Depthwise(
        name=output,
        inputs=(source,),
        output=output,
        weight=rng.integers(-9, 9, (3, 3, channels)).astype(np.int8),
        requantization=random_requantization(rng, channels, 2000),
        padding=(1, 1, 1, 1),
    )


def add(a, b, output):
    requantization = random_requantization(np.random.default_rng(7), 1, 300)
    fields = {"op": "add", "zero_points": (0, 0), "requantization": requantization}
    return Elementwise(name=output, inputs=(a, b), output=output, **fields)


def matmul(a, b, output):
    record = random_requantization(np.random.default_rng(9), 1, 90_000)
    record = replace(record, bias=record.bias * 0)
    fields = {"requantization": record, "zero_points": (3, -5)}
    return MatMul(name=output, inputs=(a, b), output=output, **fields)


def softmax(source, output):
    words = fixed_point_exponentials(0.02, 1.0).astype(np.int32)
    return Softmax(name=output, inputs=(source,), output=output, words=words)


def same(layers, images, groups, *, outputs=("y",), config=Config(), batch=1, **fields):  # noqa: B008
    """Run a network in these groups; if they do not fit, layers run alone."""

    def choose(layers, config, options, refused):
        return tuple(
            alone
            for group in groups
            for alone in ([group] if group not in refused else map(one, group.layers))
        )

    def one(index):
        return Group(range(index, index + 1))

    images = {n: x if isinstance(x, Activation) else Activation(x) for n, x in images.items()}
    graph = LayerGraph("graph", tuple(layers), images, ("x",), outputs, **fields)
    options = quick_options(batch=batch, without=("separate-maxima",))  # groups count layers
    compilation = Compilation(graph, config, options)
    with forced_groups(choose):
        program = compilation.compile()
    compilation.run(program, "golden")


@pytest.mark.parametrize("left", [1, 5, 8, 9])
@pytest.mark.parametrize("columns", [2, 3, 6])
def test_frames_are_cut_into_columns(left, columns):
    frame = Pad(name="f", inputs=("x",), output="y", padding=(1, left, 2, 3), value=7)
    images = {"x": (5, 12, 16), "y": (8, left + 15, 16)}
    same([frame], images, (Group(range(1), 2, columns),), config=Config(ub_rows=128))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("rolling", [False, True])
@pytest.mark.parametrize("outputs", [("y",), ("y", "a"), ("f", "y")])
def test_others_read_what_was_pooled_later(batch, rolling, outputs):
    layers = [
        conv("x", "a", (16, 16)),
        Pool(name="b", inputs=("a",), output="b", op="max", window=(3, 3), padding=(1,) * 4),
        depthwise("a", "e"),
        add("a", "b", "f"),
        add("f", "e", "y"),
    ]
    images = dict.fromkeys("xabefy", (20, 10, 16))
    fields = {"batch": batch, "unsigned": frozenset("xy"), "outputs": outputs}
    same(layers, images, (Group(range(5), 5, rolling=rolling),), **fields)
    same(layers, images, (Group(range(5), 5, rolling=rolling),), config=Config(ub_rows=2048))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("rolling", [False, True])
def test_raw_sums_are_stored_slice_by_slice(batch, rolling):
    layers = [conv("x", "a", (16, 16)), conv("a", "y", (16, 24), raw=True)]
    images = {"x": (16, 10, 16), "a": (16, 10, 16), "y": Activation((16, 10, 24), "int32")}
    groups = (Group(range(2), 5, rolling=rolling),)
    same(layers, images, groups, batch=batch, config=Config(ub_rows=2048))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("unsigned", ["", "xy"])
@pytest.mark.parametrize("slices", [0, 4])
@pytest.mark.parametrize("ub_rows", [1024, 16384])
def test_images_whose_rows_are_skewed(batch, unsigned, slices, ub_rows):
    """Merged images of a batch, strips and rolling strips of them, and what DMA moves."""
    layers = [conv("x", "a", (16, 16), 1), depthwise("a", "b"), depthwise("b", "y")]
    groups = [Group(range(1)), Group(range(1, 3), slices, rolling=True)]
    if not slices:
        groups[1:] = [Group(range(1, 2)), Group(range(2, 3))]
    images = dict.fromkeys("xaby", (16, 16, 16))
    fields = {"batch": batch, "unsigned": frozenset(unsigned)}
    same(layers, images, groups, config=Config(ub_rows=ub_rows), **fields)


ATTENTION = [
    Transpose(name="t", inputs=("x",), output="t"),
    matmul("x", "t", "s"),
    softmax("s", "p"),
    matmul("p", "x", "o"),
    add("o", "x", "y"),
]
"""Of five heads, whose queries, keys and values are the same."""

HEADS = {"t": (5, 16, 20), "s": (5, 20, 20), "p": (5, 20, 20)}
HEADS |= dict.fromkeys("xoy", (5, 20, 16))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("slices", [1, 2, 3, 5])
@pytest.mark.parametrize("outputs", [("y",), ("y", "p")])
@pytest.mark.parametrize("ub_rows", [1024, 16384])
def test_attention_is_a_pipeline_of_heads(batch, slices, outputs, ub_rows):
    fields = {"batch": batch, "outputs": outputs, "config": Config(ub_rows=ub_rows)}
    same(ATTENTION, HEADS, (Group(range(5), slices),), **fields)


@pytest.mark.parametrize("ub_rows", [2048, 16384])
def test_a_batch_shares_a_constant_in_another_shape(ub_rows):
    values = np.random.default_rng(8).integers(-128, 128, (64, 32, 16)).astype(np.int8)
    layers = [Reshape(name="r", inputs=("k",), output="r"), add("x", "r", "y")]
    images = {"x": (32, 64, 16), "k": (64, 32, 16), "r": (32, 64, 16), "y": (32, 64, 16)}
    groups = (Group(range(1)), Group(range(1, 2)))
    config = Config(ub_rows=ub_rows)
    same(layers, images, groups, config=config, batch=2, constants={"k": values})
