"""Convolutions and the depthwise ones that read them, channel block by channel block."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.extents import block_parts, runs_by_blocks
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.options import Options
from tpulite.graph.layers import Activation, Conv, Depthwise, LayerGraph
from tpulite_testing.compiling.forced_groups import forced_groups
from tpulite_testing.drawn.compilations import Compilation
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import random_requantization


def by_blocks(layers, config, options, refused):
    assert not refused
    return (Group(range(2)),)


def pair(height=12, width=11, channels=(16, 40), stride=(1, 1), kernel=1, *, read_again=False):
    """Return a convolution and a depthwise one."""
    rng, (depth, outputs) = np.random.default_rng(7), channels
    first = Conv(
        name="first",
        inputs=("x",),
        output="y",
        weight=rng.integers(-9, 9, (kernel, kernel, depth, outputs)).astype(np.int8),
        requantization=random_requantization(rng, outputs, 2000),
        padding=(kernel // 2,) * 4,
    )
    second = Depthwise(
        name="second",
        inputs=("y",),
        output="z",
        weight=rng.integers(-9, 9, (3, 3, outputs)).astype(np.int8),
        requantization=random_requantization(rng, outputs, 2000),
        stride=stride,
        padding=(1, 1, 1, 1),
    )
    names = ("y", "z") if read_again else ("z",)
    small = ((height - 1) // stride[0] + 1, (width - 1) // stride[1] + 1, outputs)
    images = {
        "x": Activation((height, width, depth)),
        "y": Activation((height, width, outputs)),
        "z": Activation(small),
    }
    return LayerGraph("pair", (first, second), images, ("x",), names)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
@pytest.mark.parametrize("channels", [(16, 40), (40, 64), (3, 33)])
@pytest.mark.parametrize("kernel", [1, 3])
def test_results_are_those_of_the_layers(kernel, channels, stride, batch):
    layers = pair(channels=channels, stride=stride, kernel=kernel)
    config = Config(array_size=8, ub_rows=2048)
    assert block_parts(layers, range(2), config) > 1
    compilation = Compilation(layers, config, Options(batch=batch, effort=0))
    with forced_groups(by_blocks):
        program = compilation.compile()
    compilation.run(program, "golden")


def test_nobody_else_may_read_what_is_between():
    assert runs_by_blocks(pair(), range(2))
    assert not runs_by_blocks(pair(read_again=True), range(2))
    assert not runs_by_blocks(pair(), range(1))


def test_nothing_between_goes_to_dram_where_both_activations_do_not_fit():
    """28x28x192 twice is more than the buffer has; the layer after it needs no LOAD of it."""
    layers = pair(28, 28, (32, 192))
    program = kept_program(layers, Config())
    moves = [each for each in program.commands if each.opcode in (Opcode.LOAD, Opcode.STORE)]
    assert not any(each["window"] == Window.SCRATCH for each in moves)
