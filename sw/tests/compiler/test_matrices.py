"""Products and transposes of activations on all sizes of the array."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.effects import tile_count
from tpulite.arch.isa import Opcode
from tpulite.compiler.options import Options
from tpulite.golden.timing.predict import program_cycles
from tpulite.graph.layers import Activation, LayerGraph, MatMul, Transpose
from tpulite_testing.drawn.compilations import Compilation
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.quick_options import quick_options

RNG = np.random.default_rng(11)
MACHINES = [
    *(Config(array_size=size) for size in (4, 8, 16, 32)),
    Config(ub_rows=512, acc_rows=16),
    Config(ub_rows=256),
]


def network(shape, zero_points, *, adjoint):
    height, rows, inner, columns = shape
    stored = (height, columns, inner) if adjoint else (height, inner, columns)
    images = {"a": (height, rows, inner), "b": stored, "y": (height, rows, columns)}
    layers, second = [], "b"
    if adjoint:
        images["t"], second = (height, inner, columns), "t"
        layers.append(Transpose(name="t", inputs=("b",), output="t"))
    record = random_requantization(RNG, 1, 90 * 90 * inner)
    record.bias[:] = 0
    product = MatMul(
        name="y", inputs=("a", second), output="y", requantization=record, zero_points=zero_points
    )
    activations = {name: Activation(each) for name, each in images.items()}
    return LayerGraph("product", (*layers, product), activations, ("a", "b"), ("y",))


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("config", MACHINES, ids=str)
@pytest.mark.parametrize(
    ("shape", "zero_points"),
    [
        ((1, 5, 16, 16), (0, 0)),
        ((1, 5, 7, 3), (3, -5)),
        ((3, 20, 37, 50), (-128, 7)),
        ((2, 33, 64, 33), (127, 0)),
        ((1, 1, 1, 1), (-128, 127)),
        ((6, 1, 48, 20), (-128, 5)),
        ((5, 7, 32, 7), (9, 0)),
        ((2, 7, 48, 33), (-1, -128)),
    ],
)
def test_products_are_exact_whatever_the_zero_points(shape, zero_points, config, adjoint):
    case = Compilation(network(shape, zero_points, adjoint=adjoint), config, quick_options())
    case.run(case.compile(), "golden")


def test_a_product_without_zero_point_needs_no_column_sums():
    plain, shifted = (
        Compilation(network((2, 20, 32, 32), zeros, adjoint=False), Config(), Options()).compile()
        for zeros in ((0, 9), (1, 9))
    )
    assert len(plain.commands) < len(shifted.commands)


def weight_tiles(config, shape, zero_points):
    """Return how many weight tiles a product of matrices loads."""
    case = Compilation(network(shape, zero_points, adjoint=False), config, Options())
    commands = case.compile().commands
    return sum(tile_count(command) for command in commands if command.opcode == Opcode.CONV)


def test_offsets_load_no_tiles_but_the_last_one_again():
    inner, outer = 4, 3
    assert weight_tiles(Config(), (2, 5, 64, 48), (3, 9)) == 2 * outer * (inner + 1)
    # 128 is no int8: one half of it comes along, the other one loads all tiles.
    assert weight_tiles(Config(), (2, 5, 64, 48), (-128, 9)) == 2 * outer * (2 * inner + 1)


def test_offsets_are_made_apart_where_accumulators_are_few():
    assert weight_tiles(Config(acc_rows=16), (2, 15, 64, 48), (3, 9)) == 2 * 3 * 4 * 2


def test_a_product_waits_for_the_biases_of_several_matrices_at_once():
    cycles = {}
    for heads in (1, 4):
        case = Compilation(network((heads, 7, 32, 7), (3, 9), adjoint=False), Config(), Options())
        cycles[heads] = program_cycles(case.compile())
    # A bias comes 46 cycles after its last vector, and a matrix has four tiles of 16.
    assert cycles[4] - cycles[1] < 3 * 46 + 3 * 4 * 16


def test_a_matrix_is_multiplied_while_the_next_one_is_loaded():
    heads, inner, columns = 6, 256, 48
    case = Compilation(
        network((heads, 1, inner, columns), (3, 9), adjoint=False), Config(), Options()
    )
    matrix = inner * columns // 16  # rows of the buffer, each loaded and multiplied in a cycle
    loaded = heads * (inner // 16 + matrix)
    assert program_cycles(case.compile()) < loaded + 2 * matrix + 200
