"""Programs for ranges of shapes on the Verilated chip: exact, and as fast as for one shape."""

from functools import cache

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.compiler.bind import RangeProgram, Shape, ShapeRange, compile_range
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import (
    Activation,
    Affine,
    Conv,
    Elementwise,
    Layer,
    LayerGraph,
    Pool,
    Requantization,
)
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_verilated.rtl_device import RtlDevice

MOST = 1.10
"""Cycles of a bound program, in cycles of the program compiled for its shape."""

MODEL_ERROR, MODEL_ERROR_OF_AVERAGE = 0.04, 0.2
"""Of the cost in closed form, beside the cycles of very small shapes: those of averages on the
array are overestimated."""

SMALL = 60
"""Cycles by which it may always be wrong: nothing is left to choose then."""


@pytest.fixture(scope="module")
def device() -> RtlDevice:
    return RtlDevice(Config(), dram_bytes=1 << 24)


def requantization(rng, channels: int, shift: int) -> Requantization:
    return Requantization(
        multiplier=rng.integers(1 << 30, (1 << 31) - 1, channels),
        shift=np.full(channels, -shift),
        bias=rng.integers(-500, 500, channels).astype(np.int32),
        rounding=Rounding.RUY,
    )


def layer(kind: str, rng) -> tuple[Layer, int, int]:
    """Return a layer, its input channels and its output channels."""
    common = {"name": kind, "inputs": ("x",), "output": "y"}
    match kind.split():
        case ["bn", channels]:
            count = int(channels)
            gain = rng.integers(-300, 300, count).astype(np.int16)
            values = {"gain": gain, "requantization": requantization(rng, count, 8)}
            return Affine(**common, **values), count, count
        case ["add", channels]:
            made = Elementwise(
                **common | {"inputs": ("x", "z")},
                op="add",
                requantization=requantization(rng, 1, 19),
                zero_points=(1, -2),
                multipliers=(1 << 30, 1_234_567_890),
                shifts=(1, 2),
            )
            return made, int(channels), int(channels)
        case [op, channels, kernel, stride]:
            size = int(kernel)
            made = Pool(
                **common,
                op=op,
                window=(size, size),
                stride=(int(stride), int(stride)),
                padding=(size // 2,) * 4,
            )
            return made, int(channels), int(channels)
        case ["conv", channels, features, kernel, stride]:
            size, depth, count = int(kernel), int(channels), int(features)
            made = Conv(
                **common,
                weight=rng.integers(-128, 128, (size, size, depth, count)).astype(np.int8),
                requantization=requantization(rng, count, 11),
                input_zero_point=3,
                stride=(int(stride), int(stride)),
                padding=(size // 2,) * 4,
            )
            return made, depth, count
    raise ValueError(kind)


def graph(made: Layer, channels: int, features: int, height: int, width: int) -> LayerGraph:
    """Return a network of the layer for one shape."""
    images = dict.fromkeys(made.inputs, Activation((height, width, channels)))
    outputs = height, width
    if isinstance(made, Pool | Conv):
        kernel = made.window if isinstance(made, Pool) else made.weight.shape
        stride, pad = made.stride, made.padding[0]
        outputs = tuple(
            (size + 2 * pad - kernel[i]) // stride[i] + 1 for i, size in enumerate(outputs)
        )
    images["y"] = Activation((*outputs, features))
    return LayerGraph("one", (made,), images, made.inputs, ("y",))


KINDS = {
    "bn 64": [(1, 1, 1), (8, 8, 1), (14, 11, 3), (56, 40, 1)],
    "bn 1024": [(1, 1, 1), (8, 6, 1)],
    "bn 16": [(128, 112, 1), (3, 5, 8)],
    "add 64": [(1, 3, 1), (32, 32, 1), (9, 7, 5)],
    "max 64 3 2": [(28, 28, 1), (7, 5, 4)],
    "average 40 3 1": [(12, 12, 1), (2, 2, 3)],
    "average 32 2 2": [(16, 16, 1)],
    "conv 16 16 3 1": [(16, 16, 1), (4, 4, 8), (33, 9, 1)],
    "conv 64 64 3 1": [(8, 8, 1), (20, 14, 2)],
    "conv 64 64 1 1": [(28, 28, 1), (7, 7, 4)],
    "conv 3 32 3 2": [(48, 48, 1), (31, 64, 1)],
    "conv 256 256 3 1": [(7, 7, 1)],
    "conv 512 128 1 1": [(7, 7, 2)],
}
CASES = [(kind, shape) for kind, shapes in KINDS.items() for shape in shapes]


@cache
def program(kind: str) -> tuple[RangeProgram, Layer]:
    """Compile a layer once for all its shapes."""
    made, channels, features = layer(kind, np.random.default_rng(len(kind)))
    shapes = ShapeRange((1, 8), (1, 128), (1, 128), (channels, channels))
    network = graph(made, channels, features, 16, 16)
    return compile_range(network, shapes, Config()), made


@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_shapes_on_the_chip(device, kind, shape):
    height, width, batch = shape
    dynamic, made = program(kind)
    bound = dynamic.bind(height, width, batch=batch)
    rng = np.random.default_rng(height * width)
    inputs = {
        spec.name: rng.integers(-128, 128, spec.shape).astype(np.int8) for spec in bound.inputs
    }
    results = Session(bound, device).run(inputs)
    assert results.fault is None and results.cycles is not None
    channels, features = bound.inputs[0].channels, bound.outputs[0].channels
    network = graph(made, channels, features, height, width)
    for i, image in enumerate(results.outputs["y"]):
        one = {name: value[i] for name, value in inputs.items()}
        np.testing.assert_array_equal(image, run_layers(network, one)["y"])

    one = {name: value[0] for name, value in inputs.items()}
    alone = Session(kept_program(network, Config()), device).run(one)
    assert alone.cycles is not None
    assert results.cycles <= MOST * batch * alone.cycles, f"{alone.cycles} for an image"
    model = dynamic.strategy(Shape(batch, height, width, channels)).cycles
    error = abs(model - results.cycles)
    part = MODEL_ERROR_OF_AVERAGE if kind.startswith("average") else MODEL_ERROR
    assert error <= SMALL + part * results.cycles, (model, results.cycles)


def test_a_new_shape_needs_no_new_device(device):
    """Programs of many shapes run in turn; nothing of one shows in another."""
    dynamic, made = program("conv 16 16 3 1")
    rng = np.random.default_rng(4)
    for height, width in rng.integers(1, 24, (6, 2)).tolist():
        bound = dynamic.bind(height, width)
        x = rng.integers(-128, 128, (1, height, width, 16)).astype(np.int8)
        got = Session(bound, device).run(x).output
        due = run_layers(graph(made, 16, 16, height, width), {"x": x[0]})["y"]
        np.testing.assert_array_equal(got[0], due)
