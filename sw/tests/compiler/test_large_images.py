"""Single layers on images of which even a few rows are too much for the unified buffer."""

import numpy as np
import pytest
from plain_layers import random_requantization

from tpulite.arch.config import Config
from tpulite.compiler.grouping.search import group_layers
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.cycles import predict_cycles
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Conv, Image, Layer, LayerGraph, Pool
from tpulite.program import Program
from tpulite.runtime.session import Session

SMALL = Config(ub_rows=1024)


def alone(layer: Layer, shape: tuple[int, int, int]) -> LayerGraph:
    images = {"x": Image(shape), "y": layer._infer(Image(shape))}
    return LayerGraph(layer.name, (layer,), images, ("x",), ("y",))


def check_bits(graph: LayerGraph, program: Program, batch: int = 1) -> None:
    rng = np.random.default_rng(batch)
    x = rng.integers(-128, 128, (batch, *graph.images["x"].shape)).astype(np.int8)
    got = Session(program).run(x.reshape(program.inputs[0].shape)).outputs["y"]
    expected = np.stack([run_layers(graph, {"x": one})["y"] for one in x])
    np.testing.assert_array_equal(got.reshape(expected.shape), expected)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("op", "window"), [("average", (30, 20)), ("max", (30, 20)), ("sum", (29, 9))]
)
def test_windows_may_be_larger_than_the_buffer(
    op: str, window: tuple[int, int], batch: int
) -> None:
    """As in networks that scale channels by their averages: channel blocks come one by one."""
    rng = np.random.default_rng(1)
    scale = random_requantization(rng, 1, 4000) if op == "sum" else None
    layer = Pool(name="pool", inputs=("x",), output="y", op=op, window=window, requantization=scale)
    graph = alone(layer, (30, 20, 100))
    assert 4 * SMALL.ub_rows < 30 * 20 * 7
    check_bits(graph, compile_layers(graph, SMALL, Options(batch=batch)), batch)


def test_a_window_of_one_block_must_fit() -> None:
    layer = Pool(name="pool", inputs=("x",), output="y", op="max", window=(40, 30))
    with pytest.raises(ValueError, match=r"^Network 'pool' does not fit .* needs 1200 rows"):
        compile_layers(alone(layer, (40, 30, 3)), SMALL)


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
    program = compile_layers(graph, SMALL)
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
    program = compile_layers(graph, Config())
    assert predict_cycles(program.commands, Config()) < 1.03 * 64 * 64 * 9 * 32 * 32
