import pytest

from tpulite.arch.config import Config
from tpulite.bench.workloads import find_workload
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.stages import traffic
from tpulite.golden.timing import predict_cycles
from tpulite_testing.drawn.plain_graphs import GraphBuilder

SAME = {"padding": (1, 1, 1, 1)}


def chain(height, layers):
    builder = GraphBuilder((height, height, 16))
    source = "x"
    for _ in range(layers):
        source = builder.conv(source, 32, 3, **SAME)
    return builder.graph()


def cycles(layers, config, options):
    return predict_cycles(compile_layers(layers, config, options).commands, config)


@pytest.mark.parametrize("rows", [512, 1024])
def test_the_timeline_chooses_no_worse_groups_than_closed_forms(rows):
    layers, config = chain(24, 3), Config(ub_rows=rows)
    fast = cycles(layers, config, Options())
    assert fast <= cycles(layers, config, Options(effort=0))
    assert fast <= cycles(layers, config, Options(grouping=False))


def test_of_equally_fast_programs_that_which_moves_less_is_chosen():
    """Weights that come again with each row of the output cost no cycle, and are not chosen."""
    config = Config()
    program, *_ = find_workload("conv3x3_32x32x32_to_32")(config).compile()
    images, weights = 2 * 32 * 32 * 32, 32 * 32 * 9
    assert traffic(program.commands, config) < images + 2 * weights


def test_a_layer_alone_may_beat_its_slices():
    builder = GraphBuilder((32, 32, 3))
    builder.conv("x", 16, 3, **SAME)
    layers, config = builder.graph(), Config(ub_rows=1024)
    assert cycles(layers, config, Options()) < cycles(layers, config, Options(effort=0))


def test_programs_that_are_large_for_the_effort_keep_the_groups_of_closed_forms():
    layers, config = chain(24, 3), Config(ub_rows=1024)
    programs = [compile_layers(layers, config, Options(effort=effort)) for effort in (0, 400)]
    assert programs[0].encode() == programs[1].encode()
    assert programs[0].encode() != compile_layers(layers, config).encode()
