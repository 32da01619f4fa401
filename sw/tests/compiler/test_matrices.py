"""Products and transposes of activations on all sizes of the array."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
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
