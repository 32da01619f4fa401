"""Layers of a range that others stand for compute the same, in fewer cycles."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.configs import named_config
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite_testing.drawn.range_cases import draw_case
from tpulite_testing.drawn.range_networks import Builder, resized, results, wanted
from tpulite_testing.graphs.range_layers import pool

CONFIGS = (Config(), Config(ub_rows=1024), Config(array_size=4, ub_rows=2048))


@pytest.mark.parametrize("kind", ["pool", "multiplier"])
def test_substitutes_compute_the_same(kind):
    rng, stood = np.random.default_rng(7), 0
    for number in range(60):
        config = CONFIGS[number % len(CONFIGS)]
        case = draw_case(rng, kind)
        height, width = (size + int(rng.integers(1, 24)) for size in case.smallest)
        graph = replace(case.graph(height, width), unsigned=frozenset())
        batch = int(rng.integers(1, 4))
        try:
            program = compile_range(graph, case.range(3, height, width), config)
        except ValueError:  # the buffer is too small
            continue
        bound, plain = (each.bind(height, width, batch=batch) for each in (program, program.plain))
        assert check(bound) == []
        x = rng.integers(-128, 128, (batch, height, width, case.channels)).astype(np.int8)
        expected = wanted(graph, {"x": x})
        for each in (bound, plain):
            np.testing.assert_array_equal(results(each, {"x": x})["y"], expected["y"])
        stood += len(bound.layers) > 1 or bound.commands != plain.commands
    assert stood


def test_maxima_of_five_rows_take_half_the_cycles():
    program = compile_range(pool((5, 5)), ShapeRange((1, 1), (8, 224), (8, 224)), Config())
    fast, plain = (
        predict_cycles(x.bind(56, 56).commands, Config()) for x in (program, program.plain)
    )
    assert fast < plain / 2


@pytest.mark.parametrize("machine", ["16x16", "8x8", "4x4"])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_averages_are_products(machine, padding):
    config = named_config(machine)
    net = Builder(np.random.default_rng(3), (20, 20, 24))
    graph = net.graph(net.pool(net.conv("x", 24, 1), "average", 3, 1, padding))
    program = compile_range(graph, ShapeRange((1, 2), (8, 40), (8, 40)), config)
    fast, plain = (x.bind(24, 31) for x in (program, program.plain))
    cycles = [predict_cycles(x.commands, config) for x in (fast, plain)]
    assert cycles[0] < cycles[1]
    x = net.rng.integers(-128, 128, (1, 24, 31, 24)).astype(np.int8)
    expected = wanted(resized(graph, 24, 31), {"x": x})
    np.testing.assert_equal(results(fast, {"x": x}), expected)
