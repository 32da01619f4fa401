"""Groups as the LayerGroup document builds them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.document_groups import document_groups, live_ranges, repeats_too_much
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.allocate import place_in_turn
from tpulite_testing.compiling.rectangles import collide
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.drawn.plain_graphs import GraphBuilder, layer_graphs

OPTIONS = Options(groups="document", allocator="longest")
SAME = {"padding": (1, 1, 1, 1)}


def chain(height, layers, kernel=3):
    builder = GraphBuilder((height, 8, 16))
    source = "x"
    for _ in range(layers):
        source = builder.conv(source, 16, kernel, padding=(kernel // 2,) * 4)
    return builder.graph()


def test_what_fits_is_one_group_that_is_not_cut():
    assert document_groups(chain(40, 3), Config(), OPTIONS) == (Group(range(3), 1),)


def test_groups_grow_from_the_tail_and_the_height_is_cut_as_little_as_fits():
    layers = chain(40, 3)
    # Two activations of 320 rows and three times 160 rows of constants, which stay if cut.
    assert document_groups(layers, Config(ub_rows=512), OPTIONS) == (
        Group(range(1)),
        Group(range(1, 3), 4),
    )
    assert document_groups(layers, Config(ub_rows=1024), OPTIONS) == (Group(range(3), 1),)


def test_batches_run_one_after_the_other_before_the_height_is_cut():
    """So weights stay, and have no neighbors: what fits one image may not fit two."""
    layers, config = chain(40, 3), Config(ub_rows=1024)
    one, two = (document_groups(layers, config, replace(OPTIONS, batch=n)) for n in (1, 2))
    assert one == (Group(range(3), 1),)
    assert two == (Group(range(3), 2),)


def test_slices_that_repeat_more_than_half_end_a_group():
    layers = chain(12, 4, kernel=5)
    table = GraphTable(layers, Config(), OPTIONS)
    # 4 slices of 3 rows; the first of four layers needs 8 rows more above and below them.
    assert repeats_too_much(table, Group(range(4), 4)) == ("x", "y0", "y1", "y2")
    assert repeats_too_much(table, Group(range(3, 4), 2)) == ()
    for group in document_groups(layers, Config(ub_rows=1024), OPTIONS):
        assert not group.slices or not repeats_too_much(table, group)


def test_a_group_without_a_place_is_cut_into_more_slices():
    layers, config = chain(40, 3), Config(ub_rows=1024)
    refused = frozenset({Group(range(3), 1)})
    (group,) = document_groups(layers, config, OPTIONS, refused=refused)
    assert (group.layers, group.slices) == (range(3), 2)


def example():
    """Return two convolutions with halos, the second one twice as wide, and one without."""
    builder = GraphBuilder((40, 8, 16))
    builder.conv("x", 16, name="3", **SAME)
    builder.conv("3", 32, name="6", **SAME)
    builder.conv("6", 32, 1, name="8")
    return builder.graph()


def spans(slices, **options):
    table = GraphTable(example(), Config(), replace(OPTIONS, **options))
    found = live_ranges(table, Group(range(3), slices))
    return {each.buffer.name: (each.first, each.last) for each in found}


def test_weights_may_be_loaded_while_the_layer_before_runs():
    assert spans(1) == {
        "x": (0, 0),
        "constants of 3": (0, 0),
        "3": (0, 1),
        "constants of 6": (0, 1),
        "6": (1, 2),
        "constants of 8": (1, 2),
        "8": (2, 2),
    }


def test_what_lives_long_is_placed_first_and_of_equals_what_is_large():
    names = list(spans(1))
    # 640, 320, 304 and 68 rows live for two layers; 640, 320 and 152 for one.
    assert names == ["6", "3", "constants of 6", "constants of 8", "8", "x", "constants of 3"]


@pytest.mark.parametrize("how", [{"slices": 2}, {"slices": 1, "batch": 2}])
def test_weights_stay_and_are_placed_first_if_a_group_runs_several_times(how):
    names = list(spans(**how))
    assert names[:3] == ["constants of 6", "constants of 3", "constants of 8"]
    assert {spans(**how)[name] for name in names[:3]} == {(0, 2)}


def test_activations_have_the_rows_of_their_largest_slice():
    table = GraphTable(example(), Config(), OPTIONS)
    rows = {x.buffer.name: x.buffer.rows for x in live_ranges(table, Group(range(3), 2))}
    assert (rows["x"], rows["3"], rows["6"], rows["8"]) == (22 * 8, 21 * 8, 20 * 16, 20 * 16)


@given(layer_graphs(most_layers=6), st.sampled_from([64, 256, 1024]), st.sampled_from([1, 2]))
def test_groups_cover_the_layers_and_their_live_ranges_find_places(layers, ub_rows, batch):
    config, options = Config(ub_rows=ub_rows), replace(OPTIONS, batch=batch)
    groups = document_groups(layers, config, options)
    assert [i for group in groups for i in group.layers] == list(range(len(layers.layers)))
    table = GraphTable(layers, config, options)
    for group in groups:
        assert len(group.layers) > 1 or group.alone
        if group.slices:
            assert not group.rolling and not repeats_too_much(table, group)
            places = live_ranges(table, group)
            found, missing = place_in_turn(places, range(ub_rows), banks=1)
            assert missing is None and not collide(places, found)


@pytest.mark.parametrize("seed", range(1, 8))
def test_programs_compute_the_layers(seed):
    """The compiler has checked them for races."""
    drawn = random_compilation(Seeded(seed), largest=3000)
    options = replace(OPTIONS, batch=drawn.options.batch, optimize=drawn.options.optimize)
    drawn = replace(drawn, options=options)
    program = drawn.compile()
    if program is not None:
        drawn.run(program, "golden")
