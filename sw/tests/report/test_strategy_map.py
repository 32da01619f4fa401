"""Grids of shapes: what they show is what is bound."""

import re

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import Shape, ShapeRange, compile_range
from tpulite.report.strategy_map import choice_name, draw_maps
from tpulite.report.strategy_svg import make_svg
from tpulite.report.strategy_text import candidates_table, map_lines, strategy_words
from tpulite_testing.drawn.range_networks import Builder
from tpulite_testing.graphs.range_layers import affine


@pytest.fixture(scope="module")
def batch_norm():
    shapes = ShapeRange((1, 1), (0, 1024), (0, 1024), (1, 1024))
    return compile_range(affine(1024), shapes, Config())


def test_each_cell_is_what_is_bound_there(batch_norm):
    (drawn,) = draw_maps(batch_norm, [], None)
    assert (drawn.rows.name, drawn.columns.name) == ("channels", "height x width")
    assert drawn.columns.values[-1] == {"height": 1024, "width": 1024}
    for i in range(0, len(drawn.rows.values), 5):
        for j in range(0, len(drawn.columns.values), 9):
            extents = drawn.fixed | drawn.rows.values[i] | drawn.columns.values[j]
            (plan,) = batch_norm.plan(**extents).layers
            assert drawn.names[i][j] == choice_name(plan)
            (strategy,) = {batch_norm.strategy(Shape(**extents)).name}
            assert drawn.names[i][j].startswith(strategy)
    assert sum(drawn.counts.values()) == len(drawn.rows.values) * len(drawn.columns.values)
    assert len({*drawn.letters.values()}) == len(drawn.counts) == 4


def test_a_grid_has_a_line_a_row_and_marks_what_was_asked_for(batch_norm):
    points = [Shape(1, 8, 6, 1024), Shape(1, 224, 256, 16)]
    (drawn,) = draw_maps(batch_norm, points, None)
    lines = [line for line in map_lines(drawn) if "|" in line]
    assert len(lines) == len(drawn.rows.values)
    assert lines[0].split("|")[0].strip() == "1024"
    assert "1" in lines[0].split("|")[1]
    assert max(map(len, map_lines(drawn))) <= 80
    assert candidates_table(drawn).row_count == 4
    assert make_svg([drawn]).count("<circle") == 2


def test_each_word_of_a_strategy_is_explained():
    net = Builder(np.random.default_rng(1), (16, 16, 16))
    graph = net.graph(net.conv(net.conv("x", 16, 3), 16, 3))
    program = compile_range(graph, ShapeRange((1, 4), (8, 24), (8, 24)), Config())
    layers = program.plan(9, 9, batch=4).layers
    names = [each.name for layer in layers for each in layer.candidates]
    words = {word for name in names for word in re.findall(r"/?\w+", name)}
    assert {"resident", "tiles", "/images"} <= words
    heading, *lines = strategy_words(names)
    assert heading == "words in strategies:"
    assert {line.split(":")[0].strip() for line in lines} == words
    assert not [*strategy_words(["empty"])]


def test_extents_at_which_branches_do_not_join_are_left_out():
    net = Builder(np.random.default_rng(1), (24, 24, 16))
    parts = net.conv("x", 16, 3, 2, padding=(0, 0, 1, 1)), net.conv("x", 16, 1, 2, padding=(0,) * 4)
    graph = net.graph(net.join(*parts))
    program = compile_range(graph, ShapeRange((1, 1), (19, 25), (24, 24)), Config())
    (drawn,) = draw_maps(program, [], None)
    assert [each["height"] for each in drawn.columns.values] == [20, 22, 24]
    assert "refused" not in drawn.counts


def test_axes_are_those_that_vary():
    net = Builder(np.random.default_rng(1), (16, 16, 16))
    graph = net.graph(net.conv(net.conv("x", 16, 3), 16, 3))
    program = compile_range(graph, ShapeRange((1, 4), (8, 24), (8, 24)), Config())
    maps = draw_maps(program, [Shape(4, 9, 9, 16)], None)
    assert [each.fixed["batch"] for each in maps] == [1, 4]
    assert [len(each.points) for each in maps] == [0, 1]
    assert {(each.rows.name, each.columns.name) for each in maps} == {("height", "width")}
    program = compile_range(graph, ShapeRange((1, 4), (8, 8), (8, 8)), Config())
    (drawn,) = draw_maps(program, [], "layer0")
    assert (drawn.layer, drawn.rows.name, len(drawn.columns.values)) == ("layer0", "batch", 1)
    program = compile_range(graph, ShapeRange((1, 1), (8, 8), (8, 8)), Config())
    with pytest.raises(
        ValueError, match="a single shape is not a grid: give a range, like --shapes"
    ):
        draw_maps(program, [], None)
