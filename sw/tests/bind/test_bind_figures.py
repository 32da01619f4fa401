"""Bound networks take about as many cycles as the programs compiled for their shapes."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.compiler.options import Options
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite.models.architectures import mobilenet_v2
from tpulite_testing.drawn.range_networks import Builder, resized
from tpulite_testing.graphs.range_networks import keywords, resnet8
from tpulite_testing.kept import kept_program
from tpulite_testing.regress import REGRESS

MOST = 1.08
"""Programs for one shape begin with a small part of their input, bound ones with a whole strip, and
run a convolution and the depthwise one that reads it channel block by channel block."""
SHAPES = ShapeRange((1, 16), (16, 224), (10, 224))


CASES = {
    "resnet8": (resnet8, [(1, 32, 32), (8, 32, 32), (1, 64, 48), (1, 17, 31), (4, 16, 16)]),
    "keywords": (keywords, [(1, 49, 10), (8, 49, 10), (16, 49, 10), (1, 98, 20)]),
    "mobilenet_v2": (mobilenet_v2, [(1, 224, 224), (1, 192, 160)]),
}


@pytest.mark.parametrize("name", CASES)
def test_bound_programs_take_hardly_more_cycles(name):
    make, shapes = CASES[name]
    graph, config = make(), Config()
    program = compile_range(graph, SHAPES, config)
    # The first of one image and the first of several; `make regress` compares all shapes.
    quick = {batch > 1: (batch, *size) for batch, *size in reversed(shapes)}
    for batch, height, width in shapes if REGRESS else quick.values():
        bound = program.bind(height, width, batch=batch)
        assert check(bound) == []
        alone = kept_program(resized(graph, height, width), config, Options(batch=batch))
        cycles = [predict_cycles(each.commands, config) for each in (bound, alone)]
        print(f"{name} {batch}x{height}x{width}: {cycles[0]}, compiled for it {cycles[1]}")
        assert cycles[0] <= MOST * cycles[1]


@pytest.mark.parametrize("channels", [(16, 32), (64, 64)])
def test_few_outputs_of_a_stride_take_hardly_more_cycles(channels):
    net, config = Builder(np.random.default_rng(0), (32, 32, channels[0])), Config()
    graph = net.graph(net.conv("x", channels[1], 3, 2))
    program = compile_range(graph, ShapeRange((1, 1), (8, 64), (8, 64)), config)
    for size in (8, 14, 16):
        bound = program.bind(size, size)
        alone = kept_program(resized(graph, size, size), config)
        cycles = [predict_cycles(each.commands, config) for each in (bound, alone)]
        assert cycles[0] <= MOST * cycles[1], f"{size}: {cycles}"
