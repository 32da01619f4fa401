"""Single layers on images of which even a few rows are too much for the unified buffer."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.group.search import group_layers
from tpulite.compiler.options import Options
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, Layer, LayerGraph
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import random_requantization

SMALL = Config(ub_rows=1024)


def alone(layer: Layer, shape: tuple[int, int, int]) -> LayerGraph:
    images = {"x": Activation(shape), "y": layer._infer(Activation(shape))}
    return LayerGraph(layer.name, (layer,), images, ("x",), ("y",))


def check_bits(graph: LayerGraph, program: Program, batch: int = 1) -> None:
    rng = np.random.default_rng(batch)
    x = rng.integers(-128, 128, (batch, *graph.activations["x"].shape)).astype(np.int8)
    got = Session(program).run(x.reshape(program.inputs[0].shape)).outputs["y"]
    expected = np.stack([run_layers(graph, {"x": one})["y"] for one in x])
    np.testing.assert_array_equal(got.reshape(expected.shape), expected)


def test_rows_that_leave_no_room_for_a_second_strip_are_cut() -> None:
    """Or else each strip would be loaded while the matrix unit waits."""
    rng = np.random.default_rng(2)
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (3, 3, 16, 16)).astype(np.int8),
        requantization=random_requantization(rng, 16, 60_000),
        padding=(1, 1, 1, 1),
    )
    graph = alone(layer, (24, 126, 16))
    (group,) = group_layers(graph, SMALL, Options())
    assert group.columns > 1
    program = kept_program(graph, SMALL)
    check_bits(graph, program)
    assert predict_cycles(program.commands, SMALL) < 1.2 * 24 * 126 * 9


def test_weights_of_deep_kernels_are_not_loaded_for_every_few_pixels() -> None:
    """147,456 rows of weights in 16,384: an image of 64 x 64 is cut into few strips."""
    rng = np.random.default_rng(3)
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(-128, 128, (3, 3, 512, 512)).astype(np.int8),
        requantization=random_requantization(rng, 512, 60_000),
        padding=(1, 1, 1, 1),
    )
    graph = alone(layer, (64, 64, 512))
    program = kept_program(graph, Config())
    assert predict_cycles(program.commands, Config()) < 1.03 * 64 * 64 * 9 * 32 * 32
