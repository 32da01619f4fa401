from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.plan.depthwise_plan import DepthwiseSpace, depthwise_plan
from tpulite.golden.timing import predict_cycles
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation

CONFIG = Config()


@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (3, 2), (2, 3), (10, 4)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
def test_without_interleaving_a_stream_is_one_line_of_outputs(kernel, stride):
    outputs = (28, 28)
    alone = depthwise_plan(kernel, stride, outputs, CONFIG, DepthwiseSpace(interleaved=False))
    best = depthwise_plan(kernel, stride, outputs, CONFIG)
    assert alone.outputs == 1
    assert best.cycles <= alone.cycles
    for pieces, taps in zip(alone.kernel, kernel, strict=True):
        assert [tap for piece in pieces for tap in piece] == list(range(taps))
    i, o = (1, 0) if alone.inner == Axis.X else (0, 1)
    for a in alone.kernel[i]:
        for b in alone.kernel[o]:
            assert len(a) * len(b) <= CONFIG.array_size


def test_interleaving_reads_inputs_of_3x3_less_often():
    alone = depthwise_plan((3, 3), (1, 1), (56, 56), CONFIG, DepthwiseSpace(interleaved=False))
    assert alone.cycles == 56 * 3 * 58
    without = Config(delay_lines=False)
    assert depthwise_plan((3, 3), (1, 1), (56, 56), without).cycles == 14 * 6 * 58
    assert depthwise_plan((3, 3), (1, 1), (56, 56), CONFIG).cycles == 4 * 16 * 58


def test_pairs_halve_what_a_stride_of_2_reads():
    """Rows of 28 outputs are 57 positions, 29 pairs; without, 14 times 5 positions."""
    plan = depthwise_plan((3, 3), (2, 2), (28, 28), CONFIG)
    assert (plan.inner, plan.outputs, plan.cycles) == (Axis.X, 28, 29 * 57)
    without = Config(delay_lines=False)
    assert depthwise_plan((3, 3), (2, 2), (28, 28), without).cycles == 14 * 5 * 57
    assert depthwise_plan((3, 3), (1, 2), (28, 28), CONFIG).cycles == 29 * 30


def test_few_outputs_other_strides_and_dilation_have_no_pairs():
    assert depthwise_plan((3, 3), (2, 2), (7, 7), CONFIG).cycles == 15 * 15
    assert depthwise_plan((3, 3), (2, 1), (28, 28), CONFIG).cycles == 30 * 57
    dilated = depthwise_plan((3, 3), (2, 2), (28, 28), CONFIG, dilation=(2, 2))
    assert dilated.cycles == 2 * 29 * 57


def test_a_single_channel_block_that_ends_late_is_several_commands():
    """The next layer begins with the outputs of the first one."""
    extents, space = (12, 12), DepthwiseSpace(single=True)
    assert depthwise_plan((3, 3), (1, 1), extents, CONFIG).outputs == 12
    assert depthwise_plan((3, 3), (1, 1), extents, CONFIG, space).outputs == 4


def test_small_programs_are_never_slower_with_delay_lines():
    """Larger commands stream less, but here results are stored later."""
    drawn = random_compilation(Seeded(30_030), most=12, more=())
    assert drawn.config.has_delay_lines
    cycles = []
    for lines in (False, True):
        config = replace(drawn.config, delay_lines=lines)
        program = compile_layers(drawn.graph, config, drawn.options)
        assert program.config == config
        cycles.append(predict_cycles(program.commands, config))
    assert cycles[1] <= cycles[0]
