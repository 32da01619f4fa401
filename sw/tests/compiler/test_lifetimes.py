from random_layers import GraphBuilder

from tpulite.arch.config import Config
from tpulite.compiler.grouping.group import Group
from tpulite.compiler.grouping.lifetimes import (
    Lifetime,
    Use,
    lifetimes,
    live_ranges,
    longest_first,
    peak,
)

EXAMPLE = (
    Use(2, reads=("0",), writes="3", weights=("w1",), buffers=("B2",)),
    Use(5, reads=("3",), writes="6", weights=("w4",), buffers=("B5",)),
    Use(7, reads=("3", "6"), writes="8"),
)
"""conv2(0, w1, B2) -> 3; conv5(3, w4, B5) -> 6; add7(3, 6) -> 8."""

SIZES = dict(
    zip(("0", "3", "6", "8", "w1", "w4", "B2", "B5"), (8, 4, 5, 6, 3, 7, 1, 2), strict=True)
)


def steps(found):
    return {each.name: (each.first, each.last) for each in found}


def test_live_ranges_of_two_convolutions_and_an_addition():
    assert steps(live_ranges(EXAMPLE, SIZES, sliced=False)) == {
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
    plain, sliced = (live_ranges(EXAMPLE, SIZES, sliced=s) for s in (False, True))
    assert steps(sliced) == steps(plain) | {"w1": (2, None), "w4": (2, None)}


def test_the_peak_is_the_largest_sum_at_one_time():
    found = live_ranges(EXAMPLE, SIZES, sliced=False)
    assert peak(found) == 8 + 3 + 1 + 4 + 7  # T2: 0, w1, B2, 3, w4
    assert peak(live_ranges(EXAMPLE, SIZES | {"6": 20}, sliced=False)) == 4 + 7 + 2 + 20  # T5
    assert peak(live_ranges(EXAMPLE, SIZES | {"6": 20}, sliced=True)) == 4 + 20 + 6 + 3 + 7
    assert peak(()) == 0


def test_long_lived_buffers_are_placed_first_then_large_ones():
    found = longest_first(live_ranges(EXAMPLE, SIZES, sliced=True))
    assert [each.name for each in found] == ["w4", "w1", "3", "6", "0", "8", "B5", "B2"]


def test_buffers_of_a_group_are_strips_and_all_constants():
    builder = GraphBuilder((40, 8, 16))
    builder.conv("x", 16, name="a", padding=(1, 1, 1, 1))
    builder.conv("a", 16, name="b", padding=(1, 1, 1, 1))
    builder.add("b", "x", name="c")
    layers, config = builder.graph(), Config()
    constants = 9 * 16 + config.short_record_rows
    rolling = lifetimes(layers, Group(range(3), slices=2, rolling=True), config)
    assert set(rolling) == {
        Lifetime("x", "activation", 22 * 8, 0, 2),
        Lifetime("x of the slice before", "buffer", 22 * 8, 0, 0),
        Lifetime("constants of a", "weight", constants, 0, None),
        Lifetime("a", "activation", 21 * 8, 0, 2),
        Lifetime("a of the slice before", "buffer", 21 * 8, 0, 0),
        Lifetime("constants of b", "weight", constants, 0, None),
        Lifetime("b", "activation", 20 * 8, 1, 2),
        Lifetime("constants of c", "weight", 2, 1, None),
        Lifetime("c", "activation", 20 * 8, 2, 2),
    }
    alone = lifetimes(layers, Group(range(3)), config)
    assert {each.name: (each.rows, each.last) for each in alone if each.kind == "activation"} == {
        "x": (320, 2),
        "a": (320, 1),
        "b": (320, 2),
        "c": (320, 2),
    }
    assert not [each for each in alone if each.last is None or each.kind == "buffer"]
