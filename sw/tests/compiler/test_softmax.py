"""Softmax over channels on machines that have it, in networks and on small buffers."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.golden.timing import predict
from tpulite.graph.layers import Activation, LayerGraph, Softmax
from tpulite.quant.exactness.softmax import fixed_point_exponentials
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.drawn.layer_graphs import ATTENTION
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import thinned

MACHINES = [
    *(Config(array_size=size, softmax=True) for size in (8, 16, 32)),
    Config(array_size=8, vector_lanes=4, ub_banks=4, softmax=True),
    Config(ub_rows=512, acc_rows=16),
    Config(ub_rows=256),
]


def network(shape, scale=0.05):
    words = fixed_point_exponentials(scale, 1.0).astype(np.int32)
    layer = Softmax(name="y", inputs=("x",), output="y", words=words)
    images = {name: Activation(shape) for name in "xy"}
    return LayerGraph("softmax", (layer,), images, ("x",), ("y",))


@pytest.mark.parametrize("config", MACHINES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 20, 37), (2, 33, 64), (40, 41, 5), (1, 4, 500)])
def test_shares_are_exact_whatever_the_channels(shape, config):
    case = Compilation(network(shape), config, quick_options())
    case.run(case.compile(), "golden")


@pytest.mark.parametrize("seed", thinned(range(40), *range(16), reason="others like them"))
def test_drawn_networks_with_softmax_are_exact(seed):
    case = random_compilation(Seeded(700 + seed), most=6, largest=4000, more=ATTENTION * 4)
    case = case if seed % 4 == 3 else case.quick()
    program = case.compile_if_it_fits()
    if program is not None:
        case.run(program, "golden")


def test_it_takes_nine_cycles_a_vector():
    """Of 13 blocks; the sum before hides the reciprocal."""
    shape, vectors = (3, 197, 197), 3 * 197 * 13
    cycles = predict(kept_program(network(shape), Config()).commands, Config()).cycles
    assert 9 * vectors < cycles < 11 * vectors


def test_a_machine_without_softmax_refuses():
    with pytest.raises(ValueError, match=r"^Layer 'y': this configuration has no softmax$"):
        kept_program(network((1, 4, 8)), Config(softmax=False))
