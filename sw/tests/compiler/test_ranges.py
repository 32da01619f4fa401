"""Ranges against plain sets of places."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tpulite.compiler.encoding.ranges import Lines, line_ranges, merge_ranges, shift_ranges

STARTS = st.integers(0, 300)
SIZES = st.integers(1, 9)


def places(ranges):
    """Return the places of ranges, which must be in order and apart."""
    for before, after in pairwise(ranges):
        assert before.stop < after.start
    return {place for each in ranges for place in each}


@given(st.lists(st.tuples(STARTS, SIZES), max_size=30))
def test_merged_ranges_have_the_same_places(drawn):
    ranges = [range(start, start + size) for start, size in drawn]
    assert places(merge_ranges(ranges)) == {place for each in ranges for place in each}


@given(STARTS, SIZES, st.integers(0, 12), st.integers(1, 20))
def test_lines_have_all_their_places(start, size, pitch, count):
    firsts = [start + i * pitch for i in range(count)]
    expected = {first + i for first in firsts for i in range(size)}
    found = line_ranges(start, size, pitch, count)
    assert places(found) == expected
    assert places(shift_ranges(found, 7)) == {place + 7 for place in expected}


@given(STARTS, SIZES, st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.integers(1, 9))
def test_the_rows_of_an_image_are_lines(start, size, blocks, count, gap, block_gap):
    pitch = size + gap
    block_pitch = count * pitch + block_gap
    lines = Lines(start, size, (blocks, count), (block_pitch, pitch))
    plain = [
        range(first, first + size)
        for first in (
            start + b * block_pitch + i * pitch for b in range(blocks) for i in range(count)
        )
    ]
    assert list(lines) == plain
    assert lines[-1] == plain[-1]
    assert lines[1:3] == tuple(plain[1:3])
    found = merge_ranges(plain[::-1])
    assert list(found) == plain
    assert isinstance(found, Lines) == (len(plain) > 4)
    assert list(shift_ranges(found, 5)) == [range(r.start + 5, r.stop + 5) for r in plain]


def test_ranges_without_an_order_stay_as_they_are():
    ranges = [range(i * i * 3, i * i * 3 + 2) for i in range(9)]
    assert merge_ranges(ranges) == tuple(ranges)
