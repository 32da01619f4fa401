"""Groups as the LayerGroup document builds them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.document_groups import document_groups, place_in_order, repeats_too_much
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.lifetimes import LiveRange, lifetimes
from tpulite.compiler.options import Options
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


LIVES = (
    LiveRange("short", "activation", 50, 0, 0),
    LiveRange("long", "activation", 10, 0, 2),
    LiveRange("large", "activation", 20, 1, 2),
    LiveRange("w", "weight", 5, 1, 1),
    LiveRange("stays", "weight", 7, 2, None),
)


def test_what_lives_long_is_placed_first_and_of_equals_what_is_large():
    places = place_in_order(LIVES[:4], range(100), sliced=False)
    assert places is not None
    assert places == {"long": 0, "large": 10, "short": 10, "w": 30}
    assert list(places) == ["long", "large", "short", "w"]


def test_weights_are_placed_first_if_slices_share_them():
    places = place_in_order(LIVES, range(100), sliced=True)
    assert places is not None
    assert list(places) == ["stays", "w", "long", "large", "short"]
    assert (places["stays"], places["w"]) == (0, 7)


def test_what_finds_no_place_is_told():
    assert place_in_order(LIVES, range(66), sliced=False) is None


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
            sliced = group.slices * batch > 1
            assert place_in_order(lifetimes(table, group), range(ub_rows), sliced=sliced)


@pytest.mark.parametrize("seed", range(1, 8))
def test_programs_compute_the_layers(seed):
    """The compiler has checked them for races."""
    drawn = random_compilation(Seeded(seed), largest=3000)
    options = replace(OPTIONS, batch=drawn.options.batch, optimize=drawn.options.optimize)
    drawn = replace(drawn, options=options)
    program = drawn.compile()
    if program is not None:
        drawn.run(program, "golden")
