import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.compiler.geometry.cut import split
from tpulite.compiler.plan.chunks import CHUNK_STYLES, MOST_BLOCKS, chunks


@given(st.integers(1, 5000), st.integers(1, 300), st.sampled_from([1, 2, 4]))
def test_ranges_cover_the_extent_once_at_multiples(extent, parts, align):
    ranges = split(extent, parts, align)
    assert [i for r in ranges for i in r] == list(range(extent))
    assert all(len(r) > 0 and r.start % align == 0 for r in ranges)
    assert len(ranges) <= parts
    assert max(map(len, ranges)) - min(map(len, ranges[:-1] or ranges)) <= align


@pytest.mark.parametrize("style", CHUNK_STYLES)
@given(blocks=st.integers(1, 3 * MOST_BLOCKS))
def test_chunks_cover_k_and_fit_a_command(style, blocks):
    sizes = chunks(blocks, style)
    assert sum(sizes) == blocks
    assert all(1 <= size <= MOST_BLOCKS for size in sizes)
