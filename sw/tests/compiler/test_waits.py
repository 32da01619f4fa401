"""What the array must not wait for: figures of the cycle model beside what multiplying takes."""

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.compiler.options import Options
from tpulite.golden.timing import Timeline, predict
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.kept import kept_program

CONFIG = Config()
SAME = {"padding": (1, 1, 1, 1)}
PLAIN = Options(effort=0)


def timeline(builder: GraphBuilder, options: Options = PLAIN) -> Timeline:
    return predict(kept_program(builder.graph(), CONFIG, options).commands, CONFIG)


def lost(times: Timeline) -> int:
    """Return the cycles from the first product to the last in which the array does not multiply."""
    mine = [each for each in times.times if each.engine is Engine.MXU]
    busy = sum(each.busy for each in mine)
    return mine[-1].stop - mine[0].first - busy - mine[0].token


def behind(times: Timeline) -> int:
    """Return the cycles from the product that the last vectors wait for to the end of these."""
    last = [each for each in times.times if each.engine is Engine.VPU][-1]
    products = (each.stop for each in times.times if each.engine is Engine.MXU)
    return last.stop - max(stop for stop in products if stop <= last.start)


@pytest.mark.parametrize("size, bound", [(128, 8_192), (96, 4_608)])
def test_a_first_layer_waits_for_few_rows_of_its_input(size, bound):
    """The host packs patches of 3x3x3 bytes: loading takes as long as multiplying."""
    builder = GraphBuilder((size, size, 3))
    builder.conv("x", 8, 3, stride=(2, 2), padding=(0, 0, 1, 1))
    layers = builder.graph()
    times = predict(kept_program(layers, CONFIG, PLAIN).commands, CONFIG)
    first = next(each for each in times.times if each.engine is Engine.MXU)
    assert first.start < 600
    multiplied = max(each.stop for each in times.times if each.engine is Engine.MXU)
    assert multiplied < bound + 800


def test_a_layer_after_a_depthwise_one_does_not_wait_for_its_last_block():
    builder = GraphBuilder((8, 8, 128))
    wide = builder.conv("x", 128, 1)
    for _ in range(3):
        wide = builder.conv(builder.depthwise(wide, **SAME), 128, 1)
    assert lost(timeline(builder)) < 100


def test_a_mean_waits_for_the_last_channels_only():
    builder = GraphBuilder((7, 7, 64))
    wide = builder.conv(builder.conv("x", 64, 1), 640, 1)
    builder.conv(builder.pool(wide, (7, 7)), 64, 1)
    assert behind(timeline(builder)) < 200


def test_an_addition_waits_for_the_last_channels_only():
    builder = GraphBuilder((7, 7, 64))
    narrow = builder.conv("x", 160, 1)
    builder.conv(builder.add(builder.conv(narrow, 160, 1), narrow), 160, 1)
    assert behind(timeline(builder)) < 300


@pytest.mark.parametrize(
    "shape, stride, bound",
    [((112, 112, 96), (2, 2), 78_648), ((56, 56, 144), (1, 1), 32_400)],
)
def test_depthwise_layers_in_dram_stream_their_input_about_once(shape, stride, bound):
    builder = GraphBuilder(shape)
    builder.depthwise("x", stride=stride, **SAME)
    assert timeline(builder).cycles < 1.12 * bound
