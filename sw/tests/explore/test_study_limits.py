"""Which points are best, which are to take, and what is said of it."""

import pytest

from tpulite.arch.config import Config
from tpulite.explore.limits import Limits, answer
from tpulite.explore.measure import Counts, Outcome
from tpulite.explore.point import Point, pareto


def point(cycles: int, size: int = 8, rows: int = 1024, banks: int = 8) -> Point:
    config = Config(array_size=size, ub_rows=rows, ub_banks=banks)
    values = {"array_size": size, "ub_rows": rows, "ub_banks": banks}
    outcomes = {"a": Outcome(Counts(cycles=cycles)), "b": Outcome(Counts(cycles=cycles // 2))}
    return Point(values, config, outcomes)


REFUSED = Point({"array_size": 5}, None, {}, "array_size must be another")


def test_the_front_has_all_points_that_none_beats():
    points = [
        point(10, rows=128),
        point(20, rows=64),
        point(20, rows=128),
        point(6, rows=256),
        point(10, rows=128),
    ]
    front = pareto(points, ("cycles", "buffer"))
    assert [id(x) for x in front] == [id(points[i]) for i in (0, 1, 3, 4)]


def test_the_smallest_machine_that_is_quick_enough_is_the_answer():
    points = [point(90_000, 4), point(50_000, 8), point(49_000, 8, 4096), point(9_000, 16), REFUSED]
    limits = Limits(max_ms=1, mhz=50)
    expected = "8x8 with 8 KiB, ub_banks=8 is the smallest that runs a and b in 1 ms at 50 MHz"
    assert answer(points, limits) == expected
    assert [limits.broken(x) for x in points] == [
        "slower than 1 ms at 50 MHz",
        "",
        "",
        "",
        "array_size must be another",
    ]


def test_without_a_time_the_fastest_is_the_answer():
    points = [point(90_000, 4), point(9_000, 16), point(9_000, 16, banks=4)]
    said = "16x16 with 16 KiB, ub_banks=4 runs a and b fastest: 13,500 cycles"
    assert answer(points, Limits()) == said
    said = "4x4 with 4 KiB, ub_banks=8 runs a and b fastest: 135,000 cycles, 1.8 ms at 50 MHz"
    assert answer(points, Limits(max_lut=40_000, mhz=50)) == said


def test_it_is_said_how_far_limits_are_away():
    said = answer([point(90_000), point(80_000)], Limits(max_ms=1, mhz=50))
    assert said == (
        "no configuration runs a and b within the limits; the fastest, 8x8 with 8 KiB, ub_banks=8, "
        "takes 120,000 cycles, 1.6 ms at 50 MHz"
    )
    assert answer([REFUSED], Limits()) == "no configuration runs all networks"


def test_a_time_needs_a_clock():
    with pytest.raises(ValueError, match="--max-ms needs a clock frequency"):
        Limits(max_ms=1)
