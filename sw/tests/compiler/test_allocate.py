from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tpulite.compiler.online import Allocator
from tpulite.compiler.ops import Buffer


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=60))
def test_places_never_overlap(requests):
    allocator = Allocator(10, 100, 8)
    live: list[Buffer] = []
    for rows, free in requests:
        if free and live:
            allocator.free(live.pop(0))
            continue
        buffer = Buffer("x", rows)
        if allocator.allocate(buffer):
            live.append(buffer)
        spans = sorted((allocator.row(b), allocator.row(b) + b.rows) for b in live)
        assert all(start >= 10 and stop <= 100 for start, stop in spans)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        # It refuses only what no gap can take.
        if buffer not in allocator:
            edges = [(10, 10), *spans, (100, 100)]
            assert all(b[0] - a[1] < rows for a, b in pairwise(edges))


def test_buffers_begin_in_their_bank():
    allocator = Allocator(3, 60, 8)
    buffers = [Buffer("x", 5, bank=i % 8) for i in range(5)]
    for buffer in buffers:
        assert allocator.allocate(buffer)
        assert allocator.row(buffer) % 8 == buffer.bank
    assert not allocator.allocate(Buffer("x", 20, bank=0))


def test_what_was_freed_last_is_used_last():
    allocator = Allocator(0, 30, 8)
    first, second = Buffer("first", 10), Buffer("second", 10)
    for buffer in (first, second):
        allocator.allocate(buffer)
        allocator.free(buffer)
    third, fourth = Buffer("third", 10), Buffer("fourth", 10)
    assert allocator.allocate(third) and allocator.row(third) == 20
    assert allocator.allocate(fourth) and allocator.row(fourth) == 0
