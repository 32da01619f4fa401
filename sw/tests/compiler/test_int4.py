"""Weights of 4 bits: packed tiles, programs with some such layers, and what they save."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.bind import compile_range
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.place.weights import tile_weights
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.graph.requantization import IDENTITY
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.drawn.narrow import narrow, narrowed
from tpulite_testing.drawn.range_cases import draw_case, draw_inputs, expected
from tpulite_testing.drawn.sizes import random_sized_layer
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import REGRESS

SEEDS = range(60 if REGRESS else 8)
INT4 = Config(int4=True)


def packed(program: Program) -> int:
    """Return how many products have tiles of int4."""
    return sum(x["int4"] for x in program.commands if x.opcode == Opcode.CONV)


def dense(layers: int = 1, *, low: int = -8, zero_point: int = 0) -> LayerGraph:
    """Return dense layers of 256 channels for one vector."""
    rng, names = np.random.default_rng(layers), [f"x{i}" for i in range(layers + 1)]
    convs = (
        Conv(
            name=f"dense{i}",
            inputs=(names[i],),
            output=names[i + 1],
            weight=rng.integers(low, 8, (1, 1, 256, 256), np.int8),
            requantization=IDENTITY,
            weight_zero_point=zero_point,
        )
        for i in range(layers)
    )
    activations = {name: Activation((1, 1, 256)) for name in names}
    return LayerGraph("dense", tuple(convs), activations, (names[0],), (names[-1],))


def test_a_row_of_a_tile_has_two_input_channels():
    weight = np.random.default_rng(0).integers(-8, 8, (2, 3, 13, 21), np.int8)
    whole = tile_weights(weight, 8, 0)
    tiles = tile_weights(weight, 8, 0, int4=True)
    assert tiles.shape == (*whole.shape[:4], 4, 8) and tiles.dtype == np.int8
    for place in np.ndindex(tiles.shape):
        *tile, row, column = place
        byte = int(tiles[place]) & 255
        for half, nibble in enumerate((byte & 15, byte >> 4)):
            assert (nibble ^ 8) - 8 == whole[(*tile, 2 * row + half, column)]


@pytest.mark.parametrize(("draw", "more"), [(random_compilation, 1), (random_sized_layer, 3)])
def test_programs_compute_what_their_layers_do(draw, more):
    found = 0
    for seed in range(more * len(SEEDS)):
        case = narrowed(draw(Seeded(seed)).quick(), seed)
        if (program := case.compile_if_it_fits()) is not None:
            case.run(program, "golden")
            found += packed(program) > 0
    assert found > len(SEEDS) // 4


@pytest.mark.parametrize("size", [8, 16, 32])
def test_bound_programs_compute_what_their_layers_do(size):
    rng, found, config = np.random.default_rng(size), 0, Config(array_size=size, int4=True)
    for _ in range(len(SEEDS) // 2):
        case = draw_case(rng, "conv")
        case = replace(case, layer=narrow(case.layer, rng))
        shapes = case.range(3, 12, 30)
        ranged = compile_range(case.graph(shapes.height[1], shapes.width[1]), shapes, config)
        program = ranged.bind(shapes.height[1], shapes.width[1], batch=2)
        assert check(program) == []
        inputs = draw_inputs(rng, program)
        results = Session(program, "golden").run(inputs).outputs["y"]
        np.testing.assert_array_equal(results, expected(case, inputs))
        found += packed(program) > 0
    assert found


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        (dense(low=-9), INT4),
        (dense(zero_point=1), INT4),
        (dense(), Config(array_size=4, int4=True)),
        (dense(), Config()),
    ],
    ids=["a larger weight", "a zero point", "half a beat", "a machine without"],
)
def test_other_layers_keep_int8(graph, config):
    assert packed(compile_layers(graph, config, quick_options())) == 0


def test_dense_layers_of_one_vector_take_about_half_the_cycles():
    before, after = (
        predict_cycles(compile_layers(dense(2), config, quick_options()).commands, config)
        for config in (Config(), INT4)
    )
    assert after < 0.56 * before


def test_a_small_buffer_keeps_more_weights():
    """Of 576 rows, or 288, a third of 1,024 rows may stay for all strips."""
    rng, loaded = np.random.default_rng(0), []
    layer = Conv(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(-8, 8, (3, 3, 32, 32), np.int8),
        requantization=IDENTITY,
        padding=(1, 1, 1, 1),
    )
    activations = {name: Activation((40, 40, 32)) for name in "xy"}
    graph = LayerGraph("conv", (layer,), activations, ("x",), ("y",))
    for config in (Config(ub_rows=1024), Config(ub_rows=1024, int4=True)):
        program = compile_layers(graph, config, quick_options())
        loads = (x for x in program.commands if x.opcode == Opcode.LOAD)
        constants = [x for x in loads if x["window"] == Window.CONSTANTS]
        loaded.append(sum(x["lines"] * x["rows"] for x in constants))
    assert 4 * loaded[1] < loaded[0]
