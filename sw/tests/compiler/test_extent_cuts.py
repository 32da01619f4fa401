"""How extents are cut: all cases of small numbers against what is said of the pieces."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.geometry.cut import (
    PARTS,
    SMALLEST_PART,
    cut_arriving,
    cut_parts,
    cut_strips,
    halves,
    split,
)

CONFIG = Config(acc_rows=64)


def covers(pieces, whole):
    return [i for piece in pieces for i in piece] == list(whole)


def largest_multiple(grain, fits):
    """Return the largest multiple of a grain that fits, or the grain if none does."""
    return max((n for n in range(grain, 200, grain) if fits(n)), default=grain)


@pytest.mark.parametrize("align", [1, 2, 3])
def test_pieces_are_even_in_units_and_none_is_larger_than_the_first(align):
    for extent, parts in product(range(1, 25), range(1, 10)):
        pieces = split(extent, parts, align)
        units = [-(-len(piece) // align) for piece in pieces]
        assert covers(pieces, range(extent))
        assert all(piece.start % align == 0 for piece in pieces)
        assert len(pieces) == min(parts, -(-extent // align))
        assert min(units) > 0
        assert units[0] == max(units) <= min(units) + 1


@pytest.mark.parametrize("grain", [1, 2, 3])
def test_strips_are_as_few_as_the_budget_allows(grain):
    for height, row_rows, budget in product(range(1, 20), (1, 3), range(1, 31)):
        strips = cut_strips(height, row_rows, budget, grain)
        most = largest_multiple(grain, lambda n: n * row_rows <= budget)  # noqa: B023
        assert covers(strips, range(height))
        assert all(strip.start % grain == 0 and len(strip) <= most for strip in strips)
        assert len(strips) == next(n for n in range(1, 30) if n * most >= height)


@pytest.mark.parametrize("config", [CONFIG, Config(acc_rows=512)], ids=["small", "large"])
@pytest.mark.parametrize("grain", [1, 2, 3])
def test_parts_are_as_many_as_wanted_if_they_are_not_too_large_or_too_small(config, grain):
    for height, columns, parts in product(range(1, 25), (1, 8, 20, 64, 70, 200), range(1, 6)):
        rows = range(5, 5 + height)
        most = largest_multiple(grain, lambda n: n * columns <= config.acc_rows)  # noqa: B023
        fewest = next(n for n in range(1, 30) if n * most >= height)
        wanted = [n for n in range(1, parts + 1) if height * columns >= n * SMALLEST_PART]
        for block_start, count in ((False, fewest), (True, max(fewest, *wanted, 1))):
            cut = cut_parts(
                rows, columns, config, grain=grain, parts=parts, block_start=block_start
            )
            assert covers(cut, rows)
            assert all((part.start - 5) % grain == 0 and len(part) <= most for part in cut)
            assert len(cut) == min(count, -(-height // grain))


def test_the_next_layer_may_start_on_a_quarter_unless_something_else_is_said():
    cut = cut_parts(range(10, 42), 32, Config())
    assert cut == cut_parts(range(10, 42), 32, Config(), grain=1, parts=PARTS, block_start=True)
    assert cut == (range(10, 18), range(18, 26), range(26, 34), range(34, 42))
    assert cut_parts(range(3), 200, CONFIG) == (range(1), range(1, 2), range(2, 3))


@pytest.mark.parametrize(
    ("bounds", "smallest", "growth", "grain", "expected"),
    [
        pytest.param([0, 16, 32], 2, 2.0, 1, [0, 2, 6, 14, 30, 32], id="twice as large"),
        pytest.param([0, 6, 11], 2, 1.0, 1, [0, 2, 4, 6, 8, 10, 11], id="all alike"),
        pytest.param([0, 6], 2, 0.5, 1, [0, 2, 4, 6], id="none shrinks"),
        pytest.param([0, 8, 16], 2, 1.5, 1, [0, 2, 5, 9, 13, 16], id="by half"),
        pytest.param([0, 8, 14], 2, 2.0, 1, [0, 2, 6, 14], id="ends with a part"),
        pytest.param([0, 8, 15], 2, 2.0, 1, [0, 2, 6, 11, 15], id="last two share"),
        pytest.param([0, 8, 16], 2, 2.0, 1, [0, 2, 6, 14, 16], id="last as small as the first"),
        pytest.param([0, 4, 8], 2, 3.0, 1, [0, 2, 6, 8], id="half of a part first"),
        pytest.param([0, 4, 8], 3, 3.0, 1, [0, 4, 8], id="more than half of a part first"),
        pytest.param([0, 4, 10], 1, 10.0, 1, [0, 1, 7, 10], id="the second part is the largest"),
        pytest.param([10, 16, 22], 2, 1.0, 1, [10, 12, 14, 16, 18, 20, 22], id="begins later"),
        pytest.param([0, 12, 20], 3, 2.0, 2, [0, 2, 8, 20], id="pairs"),
        pytest.param([0, 12, 21], 3, 2.0, 2, [0, 2, 8, 16, 21], id="last pairs share"),
        pytest.param([0, 8, 16], 1, 3.0, 4, [0, 4, 8, 16], id="a grain first"),
        pytest.param([0, 30], 9, 1.0, 1, [0, 9, 18, 24, 30], id="three rows would be left"),
    ],
)
def test_parts_grow_with_what_has_arrived(bounds, smallest, growth, grain, expected):
    parts, cut = (tuple(range(a, b) for a, b in pairwise(x)) for x in (bounds, expected))
    assert cut_arriving(parts, smallest, growth, grain=grain) == cut
    if grain == 1:
        assert cut_arriving(parts, smallest, growth) == cut


@given(
    st.integers(1, 60), st.integers(1, 6), st.integers(1, 20), st.floats(0.1, 9), st.integers(1, 4)
)
def test_arriving_parts_cover_all_rows_and_are_no_larger(rows, count, smallest, growth, grain):
    parts = split(rows, count, grain)
    cut = cut_arriving(parts, smallest, growth, grain=grain)
    assert covers(cut, range(rows))
    assert max(map(len, cut)) <= max(map(len, parts))
    assert all(part.start % grain == 0 for part in cut)


def test_halves_are_half_of_what_is_left():
    for extent in range(1, 70):
        parts = halves(extent)
        assert covers(parts, range(extent))
        assert [len(part) for part in parts[:-1]] == [
            -(-(extent - part.start) // 2) for part in parts[:-1]
        ]
        assert len(parts[-1]) == 1
