from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.lifetimes import (
    LiveRange,
    Use,
    lifetimes,
    live_ranges,
    peak,
)
from tpulite.compiler.options import Options
from tpulite_testing.drawn.plain_graphs import GraphBuilder

EXAMPLE = (
    Use(2, reads=("0",), writes="3", weights=("w1",), buffers=("B2",)),
    Use(5, reads=("3",), writes="6", weights=("w4",), buffers=("B5",)),
    Use(7, reads=("3", "6"), writes="8"),
)
"""conv2(0, w1, B2) -> 3; conv5(3, w4, B5) -> 6; add7(3, 6) -> 8."""

SIZES = dict(
    zip(("0", "3", "6", "8", "w1", "w4", "B2", "B5"), (8, 4, 5, 6, 3, 7, 1, 2), strict=True)
)

WEIGHTS = {"w1", "w4"}


def table_of(layers):
    return GraphTable(layers, Config(), Options())


def steps(found):
    return {each.name: (each.first, each.last) for each in found}


def test_live_ranges_of_two_convolutions_and_an_addition():
    assert steps(live_ranges(EXAMPLE, SIZES)) == {
        "0": (2, 2),
        "w1": (2, 2),
        "B2": (2, 2),
        "3": (2, 7),
        "w4": (2, 5),  # not [5, 5]: it is loaded while conv2 runs
        "B5": (5, 5),
        "6": (5, 7),
        "8": (7, 7),
    }


def test_weights_stay_to_the_end_when_layers_run_slice_by_slice():
    plain, sliced = (live_ranges(EXAMPLE, SIZES, stay=stay) for stay in ((), WEIGHTS))
    assert steps(sliced) == steps(plain) | {"w1": (2, None), "w4": (2, None)}


def test_the_peak_is_the_largest_sum_at_one_time():
    found = live_ranges(EXAMPLE, SIZES)
    assert peak(found) == 8 + 3 + 1 + 4 + 7  # T2: 0, w1, B2, 3, w4
    assert peak(live_ranges(EXAMPLE, SIZES | {"6": 20})) == 4 + 7 + 2 + 20  # T5
    assert peak(live_ranges(EXAMPLE, SIZES | {"6": 20}, stay=WEIGHTS)) == 4 + 20 + 6 + 3 + 7
    assert peak(()) == 0


def test_buffers_of_a_group_are_strips_and_all_constants():
    builder = GraphBuilder((40, 8, 16))
    builder.conv("x", 16, name="a", padding=(1, 1, 1, 1))
    builder.conv("a", 16, name="b", padding=(1, 1, 1, 1))
    builder.add("b", "x", name="c")
    layers, config = builder.graph(), Config()
    constants = 9 * 16 + config.short_record_rows
    rolling = lifetimes(table_of(layers), Group(range(3), slices=2, rolling=True))
    assert set(rolling) == {
        LiveRange("x", "activation", 22 * 8, 0, 2),
        LiveRange("x of the slice before", "buffer", 22 * 8, 0, 0),
        LiveRange("constants of a", "weight", constants, 0, None),
        LiveRange("a", "activation", 21 * 8, 0, 2),
        LiveRange("a of the slice before", "buffer", 21 * 8, 0, 0),
        LiveRange("constants of b", "weight", constants, 0, None),
        LiveRange("b", "activation", 20 * 8, 1, 2),
        LiveRange("constants of c", "weight", 2, 1, None),
        LiveRange("c", "activation", 20 * 8, 2, 2),
    }
    alone = lifetimes(table_of(layers), Group(range(3)))
    assert {each.name: (each.rows, each.last) for each in alone if each.kind == "activation"} == {
        "x": (320, 2),
        "a": (320, 1),
        "b": (320, 2),
        "c": (320, 2),
    }
    assert not [each for each in alone if each.last is None or each.kind == "buffer"]


def test_images_that_are_resident_need_no_strips():
    builder = GraphBuilder((40, 8, 16))
    builder.conv("x", 16, name="a", padding=(1, 1, 1, 1))
    group, table = Group(range(1), slices=2, rolling=True), table_of(builder.graph())
    names = {each.name for each in lifetimes(table, group, frozenset({"x"}))}
    assert names == {"a", "constants of a"}


def test_columns_are_as_wide_as_the_widest():
    builder = GraphBuilder((8, 40, 16))
    builder.conv("x", 32, name="a", padding=(1, 1, 1, 1))
    found = lifetimes(table_of(builder.graph()), Group(range(1), slices=1, columns=2))
    sizes = {each.name: each.rows for each in found}
    # Columns begin at multiples of four: 20, and of the input one more, which makes 24.
    assert (sizes["x"], sizes["a"]) == (8 * 24, 8 * 20 * 2)
    assert [each.name for each in found if each.last is None] == ["constants of a"]


def test_weights_that_are_loaded_in_every_slice_are_there_two_blocks_at_a_time():
    builder = GraphBuilder((8, 8, 16))
    builder.conv(builder.conv("x", 64, 1, name="a"), 16, 1, name="b")
    layers, config = builder.graph(), Config()
    group = Group(range(2), slices=2, reloaded=frozenset({0}))
    weights = {
        each.name: each for each in lifetimes(table_of(layers), group) if each.kind == "weight"
    }
    block = 16 + config.short_record_rows
    first, second = weights["constants of a"], weights["constants of b"]
    assert (first.rows, first.last) == (2 * block, 0)
    assert (second.rows, second.last) == (4 * 16 + config.short_record_rows, None)


def test_packed_images_have_the_rows_of_packed_rows():
    builder = GraphBuilder((32, 32, 3))
    builder.conv("x", 16, stride=(2, 2), padding=(1, 1, 1, 1))
    group = Group(range(1), slices=2)
    layers = builder.graph()
    dense, plain = (
        lifetimes(GraphTable(layers, Config(), Options(dense_mode=on)), group)[0]
        for on in (True, False)
    )
    # Rows 0 to 15, and one more; 32 times 3 bytes and padding are 7 vectors.
    assert (dense.name, dense.rows, plain.rows) == ("x", 17 * 7, 17 * 32)
