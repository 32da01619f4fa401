"""Live ranges of tensors, as the allocator has them."""

from itertools import combinations

import pytest

from tpulite.arch.config import Config
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.schedule.live_tensors import StepNumbers, live_sections
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.drawn.plain_graphs import GraphBuilder


def test_numbers_go_through_what_is_read_first_then_weights_the_layer_and_its_output():
    builder = GraphBuilder((4, 4, 16))
    builder.conv("x", 16, 1, name="a")
    builder.conv("a", 16, 1, name="b")
    builder.add("a", "b", name="c")
    builder.lut("b", name="k")
    builder.add("c", "k", name="d")
    numbers = StepNumbers.of(builder.graph("d"))
    assert numbers.layers == (2, 5, 7, 9, 11)
    assert numbers.weights == {0: 1, 1: 4}
    assert numbers.activations == {"x": 0, "a": 3, "b": 6, "c": 8, "k": 10, "d": 12}


@pytest.mark.parametrize("seed", range(6))
def test_every_buffer_has_its_place_and_none_lies_where_another_one_lives(seed):
    drawn = random_compilation(Seeded(seed), largest=2000)
    values: dict = {}
    try:
        compile_layers(drawn.graph, drawn.config, drawn.options, dump=values.__setitem__)
    except ValueError:
        pytest.skip("The buffer is too small")
    schedule, places, groups = values["schedule"], values["allocate"], values["choose-tiles"]
    sections = live_sections(values["mark-views"], groups, schedule, places)
    assert [i for each in sections for i in each.layers] == list(
        range(len(values["mark-views"].layers))
    )
    found = {(each.row, each.rows) for section in sections for each in section.buffers}
    assert found == {(places.rows[x.buffer], x.buffer.rows) for x in schedule.lifetimes}
    for section in sections:
        assert section.bound <= section.reached <= places.peak
        assert list(section.moments) == sorted(section.moments, key=lambda each: each.slice)
        last = section.moments[-1].slice if section.moments else 0
        for each in section.buffers:
            assert each.rows > 0 and {x.layer for x in each.needed} & {*section.layers}
            if each.stays:
                assert (each.needed[0].slice, each.needed[1].slice) == (0, last)
    blocks = {each for section in sections for each in section.buffers}
    for each, other in combinations(blocks, 2):
        apart = each.time[1] <= other.time[0] or other.time[1] <= each.time[0]
        apart |= each.row + each.rows <= other.row or other.row + other.rows <= each.row
        assert apart or (each.row, each.rows) == (other.row, other.rows)  # made in place
    assert max(each.bound for each in sections) <= places.bound


def test_slices_of_one_layer_share_its_weights():
    builder = GraphBuilder((40, 8, 16))
    builder.conv("x", 16, padding=(1, 1, 1, 1))
    values: dict = {}
    config = Config(ub_rows=512)
    compile_layers(builder.graph(), config, Options(effort=0), dump=values.__setitem__)
    places = values["schedule"], values["allocate"]
    (section,) = live_sections(values["mark-views"], values["choose-tiles"], *places)
    (group,) = values["choose-tiles"]
    assert section.cut and group.slices > 1
    assert [each.slice for each in section.moments] == list(range(len(section.moments)))
    assert len(section.moments) == len(plan_steps(values["mark-views"], group))
    stay = {each.name for each in section.buffers if each.stays}
    assert stay == {"weights of y0", "records of y0"}
