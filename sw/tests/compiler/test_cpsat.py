import sys

import pytest
from hypothesis import given, settings

from tpulite.arch.config import Config
from tpulite.compiler.ops import Buffer
from tpulite.compiler.schedule.allocate import place_buffers
from tpulite.compiler.schedule.cpsat import place_cpsat
from tpulite.compiler.schedule.longest import highest_row, place_longest, rows_used
from tpulite.compiler.schedule.scheduled import Lifetime, lower_bound
from tpulite_testing.compiling.rectangles import (
    NETWORKS,
    collide,
    lifetimes,
    network_schedule,
    schedule_of,
)


def puzzle() -> tuple[Lifetime, ...]:
    """Return rectangles that fit 90 rows, but not when they are placed one after the other."""
    sizes = [(40, 0, 4), (50, 5, 7), (20, 4, 7), (10, 2, 4), (50, 1, 1)]
    return tuple(Lifetime(Buffer(f"{rows} rows", rows), first, last) for rows, first, last in sizes)


def test_finds_places_where_turns_do_not():
    pytest.importorskip("ortools")
    spans = puzzle()
    assert lower_bound(spans) == 90
    assert place_longest(spans, range(90), 1)[1] is not None
    found, missing = place_cpsat(spans, range(90), 1)
    assert missing is None and not collide(spans, found) and highest_row(found) == 90


@settings(max_examples=30)
@given(lifetimes(most=12))
def test_never_takes_more_rows_than_longest(spans):
    pytest.importorskip("ortools")
    rows = range(5, 405)
    simple, _ = place_longest(spans, rows, 8)
    found, missing = place_cpsat(spans, rows, 8)
    assert missing is None and not collide(spans, found)
    assert lower_bound(spans) <= rows_used(found) <= rows_used(simple)
    assert all(buffer.bank in (None, row % 8) and row >= 5 for buffer, row in found.items())
    assert place_cpsat(spans, rows, 8) == (found, None)


def test_says_what_finds_no_place():
    pytest.importorskip("ortools")
    spans = (Lifetime(Buffer("a", 40), 0, 1), Lifetime(Buffer("b", 40), 1, 2))
    found, missing = place_cpsat(spans, range(64), 8)
    assert missing is spans[1] and found == {spans[0].buffer: 0}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_take_no_more_rows_than_with_longest(name):
    pytest.importorskip("ortools")
    config, schedule = NETWORKS[name], network_schedule(name)
    longest, best = (place_buffers(schedule, config, each) for each in ("longest", "cpsat"))
    assert best.bound <= best.peak <= longest.peak


def test_names_the_extra_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    schedule = schedule_of(puzzle())
    with pytest.raises(ValueError, match=r"^allocator 'cpsat' needs: pip install 'ortools>=.*'$"):
        place_buffers(schedule, Config(), "cpsat")
