"""Layers and networks in buffers of a few rows: they are cut as finely as they must be."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.graph.layers import (
    Activation,
    Affine,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pad,
    Pick,
    Pool,
    Reshape,
)
from tpulite.models import CNN_DIGITS
from tpulite.runtime.model import Model
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import breadth

TINY = Config(ub_rows=64)
RNG = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, dtype=np.int8)


def scaled(channels: int, reach: int):
    return random_requantization(RNG, channels, reach)


def conv(*shape: int, **geometry) -> Conv:
    names = {"name": "conv", "inputs": ("x",), "output": "y"}
    quantized = {"requantization": scaled(shape[-1], 90_000), "input_zero_point": 5}
    return Conv(weight=weights(*shape), **names, **quantized, **geometry)


def depthwise(*shape: int, **geometry) -> Depthwise:
    names = {"name": "depthwise", "inputs": ("x",), "output": "y"}
    quantized = {"requantization": scaled(shape[-1], 30_000), "input_zero_point": -3}
    return Depthwise(weight=weights(*shape), **names, **quantized, **geometry)


def pool(op: str, window: tuple[int, int], **geometry) -> Pool:
    return Pool(name="pool", inputs=("x",), output="y", op=op, window=window, **geometry)


def add(*inputs: str) -> Elementwise:
    return Elementwise(
        name="add",
        inputs=inputs,
        output="y",
        op="add",
        requantization=scaled(1, 1 << 24),
        zero_points=(3, -9),
        multipliers=(1 << 30, 3 << 29),
    )


def concat(axis: int) -> Concat:
    return Concat(name="concat", inputs=("x", "x2"), output="y", axis=axis)


def simple(kind: type[Layer], **parameters) -> Layer:
    return kind(name="layer", inputs=("x",), output="y", **parameters)


LARGE = (9, 40, 40)
CASES: dict[str, tuple[Layer, dict[str, tuple[int, int, int]], tuple[int, int, int]]] = {
    "conv": (conv(3, 3, 72, 40, padding=(1, 1, 1, 1)), {"x": (5, 30, 72)}, (5, 30, 40)),
    "conv with stride": (conv(5, 5, 3, 20, stride=(2, 2)), {"x": (13, 36, 3)}, (5, 16, 20)),
    "deep conv": (conv(1, 1, 300, 200), {"x": (2, 20, 300)}, (2, 20, 200)),
    "dense": (conv(6, 5, 40, 70), {"x": (6, 5, 40)}, (1, 1, 70)),
    "depthwise": (depthwise(3, 3, 40, padding=(1, 1, 1, 1)), {"x": (6, 30, 40)}, (6, 30, 40)),
    "depthwise, many taps": (depthwise(9, 9, 20), {"x": (11, 20, 20)}, (3, 12, 20)),
    "dilated depthwise": (
        depthwise(3, 3, 20, dilation=(3, 2), stride=(2, 1)),
        {"x": (12, 20, 20)},
        (3, 16, 20),
    ),
    "maximum": (pool("max", (3, 3), stride=(2, 2)), {"x": LARGE}, (4, 19, 40)),
    "average": (pool("average", (2, 5)), {"x": LARGE}, (8, 36, 40)),
    "average of all": (pool("average", (20, 24)), {"x": (20, 24, 40)}, (1, 1, 40)),
    "sum of two": (add("x", "x2"), {"x": LARGE, "x2": LARGE}, LARGE),
    "sum with one": (add("x", "x2"), {"x": LARGE, "x2": (1, 1, 40)}, LARGE),
    "table": (simple(Lut, table=weights(256)), {"x": LARGE}, LARGE),
    "affine": (
        simple(Affine, gain=RNG.integers(-300, 300, 40, np.int16), requantization=scaled(40, 9999)),
        {"x": LARGE},
        LARGE,
    ),
    "frame": (simple(Pad, padding=(3, 2, 1, 4), value=9), {"x": LARGE}, (13, 46, 40)),
    "on top": (concat(0), {"x": LARGE, "x2": (3, 40, 40)}, (12, 40, 40)),
    "side by side": (concat(1), {"x": LARGE, "x2": (9, 9, 40)}, (9, 49, 40)),
    "blocks": (concat(2), {"x": (5, 40, 64), "x2": (5, 40, 72)}, (5, 40, 136)),
    "channels": (concat(2), {"x": (4, 30, 72), "x2": (4, 30, 40)}, (4, 30, 112)),
    "odd columns": (
        simple(
            Pick, rows=tuple(range(7)), columns=tuple(range(1, 6, 2)), channels=tuple(range(640))
        ),
        {"x": (7, 6, 640)},
        (7, 3, 640),
    ),
    "other extents": (simple(Reshape), {"x": LARGE}, (18, 20, 40)),
}


def network(name: str) -> LayerGraph:
    layer, inputs, output = CASES[name]
    images = {name: Activation(shape) for name, shape in (inputs | {"y": output}).items()}
    return LayerGraph(name, (layer,), images, tuple(inputs), ("y",))


def run(graph: LayerGraph, config: Config, **options) -> None:
    case = Compilation(graph, config, quick_options(**options))
    case.run(case.compile(), "golden")


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in CASES if name != "deep conv"),
        *breadth('ten seconds; "conv" has several blocks, too', "deep conv"),
    ],
)
def test_layers_fit_64_rows(name):
    run(network(name), TINY)


@pytest.mark.parametrize("size", [4, 8, 32])
@pytest.mark.parametrize(
    "name", ["conv with stride", "depthwise, many taps", "sum of two", "odd columns"]
)
def test_arrays_of_other_sizes(name, size):
    run(network(name), Config(array_size=size, ub_rows=128 if size == 32 else 64))


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 3},
        {"optimize": "memory"},
        {"allocator": "longest"},
        {"prefetch": False, "grouping": False},
    ],
    ids=str,
)
def test_all_options(options):
    for name in ("conv with stride", "depthwise, many taps", "channels"):
        run(network(name), TINY, **options)


def test_sums_that_drain_slowly():
    """A depthwise layer drains by a product of its own if there are fewer lanes than columns."""
    run(network("dilated depthwise"), replace(TINY, requant_lanes=4, acc_rows=16))


def test_offsets_of_raw_sums_take_few_rows():
    """Beside a row of sums there is room for three tiles of weights."""
    weight = np.full((1, 40, 20, 9), 127, np.int8)
    names = {"name": "raw", "inputs": ("x",), "output": "y"}
    geometry = {"requantization": None, "input_zero_point": 127, "padding": (0, 41, 0, 2)}
    layer = Conv(weight=weight, **names, **geometry)
    images = {"x": Activation((5, 15, 20)), "y": Activation((5, 19, 9), "int32")}
    run(LayerGraph("raw", (layer,), images, ("x",), ("y",)), Config(array_size=8, ub_rows=128))


def test_columns_that_no_window_covers():
    """The last window is one column wide, but thirteen behind it belong to the same part."""
    layer = pool("max", (10, 1), stride=(17, 16))
    images = {"x": Activation((19, 30, 8)), "y": Activation((1, 2, 8))}
    run(LayerGraph("far", (layer,), images, ("x",), ("y",)), Config(array_size=32, ub_rows=128))


@pytest.mark.parametrize("ub_rows", [64, 128, 256])
def test_a_network(ub_rows):
    (layers,) = Model.load(CNN_DIGITS).layers
    run(layers, Config(ub_rows=ub_rows))


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed):
    case = random_compilation(
        Seeded(seed), most=4, largest=2_000, config=Config(ub_rows=128, acc_rows=64)
    )
    case.run(case.compile(), "golden")


def test_what_cannot_fit_is_told_with_all_that_is_needed():
    table = network("table")
    message = (
        r"^Network 'table' does not fit the unified buffer of 64 rows \(256 bytes\), even cut into "
        r"slices: layer 'layer': even its smallest tile needs 68 rows \(272 bytes\) at the peak: "
        r"4 for 'x, rows 0 to 0', 64 for 'table of layer'$"
    )
    with pytest.raises(ValueError, match=message):
        run(table, Config(array_size=4, ub_rows=64))
