"""The sweep: no operator takes more cycles than recorded, than a larger one, or than its bound."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.bench.measured import OperatorRecord as Row
from tpulite.bench.measured import measure_operator as measure
from tpulite_testing.sweep.cases import BUFFERS, MACHINE, cases, measurements, quick_cases
from tpulite_testing.sweep.order import inversions, read_known
from tpulite_testing.sweep.page import page
from tpulite_testing.sweep.reasons import FAR, pattern_of, read_reasons
from tpulite_testing.sweep.table import read_rows, worse

PAGE = Path(__file__).resolve().parents[3] / "docs/operator-bounds.md"

ADVICE = """
{lines}
`python scripts/sweep.py --write --only REGEX` records what became faster;
what is slower needs a reason in the commit message."""


def compare(rows: list[Row]) -> None:
    """Fail with what became worse."""
    if found := worse(read_rows(), rows):
        pytest.fail(ADVICE.format(lines="\n".join(found)), pytrace=False)


def test_no_operator_takes_more_cycles_than_recorded():
    rows = [measure(MACHINE, case) for case in quick_cases()]
    compare(rows)
    recorded = read_rows()
    assert [row.bound for row in rows] == [recorded[row.key].bound for row in rows]


@pytest.mark.regress("an hour; the smallest shape of each operator is compared above")
@pytest.mark.parametrize("operator", sorted({case.operator for case in cases().values()}))
def test_no_shape_takes_more_cycles_than_recorded(operator):
    chosen = [(m, case) for m, case in measurements() if case.operator == operator]
    compare([measure(m, case) for m, case in chosen if (m, *case.key) in read_rows()])


def test_rows_are_measurements_in_their_order_and_some_of_each_operator():
    """Shapes may be added before they are recorded; the page says how many are missing."""
    recorded = read_rows()
    every = [(machine, *case.key) for machine, case in measurements()]
    assert list(recorded) == [key for key in every if key in recorded]
    assert {key[1:3] for key in recorded} == {key[1:3] for key in every}
    assert all((MACHINE, *case.key) in recorded for case in quick_cases())


def test_no_row_is_below_its_bound():
    """The bound would be wrong then."""
    assert [row.line() for row in read_rows().values() if row.ratio and row.ratio < 1] == []


def test_shapes_above_twice_their_bound_have_a_reason_each():
    reasons = read_reasons()
    assert all(reasons.values())
    far = [row for row in read_rows().values() if row.ratio and row.ratio > FAR]
    found = {row.line(): pattern_of(row, reasons) for row in far if row.machine == MACHINE}
    missing = [line for line, pattern in found.items() if pattern is None]
    assert not missing, "\n".join(["give a reason in reasons.csv:", *missing])
    unused = reasons.keys() - found.values()
    assert not unused, "\n".join(["remove what is above twice its bound no more:", *unused])


def test_inversions_are_those_that_are_known():
    found = {each.key: each.line() for each in inversions(read_rows().values())}
    known = read_known()
    assert all(known.values()), "each needs a reason"
    new = [line for key, line in found.items() if key not in known]
    assert not new, "\n".join(["more cycles for less work:", *new])
    gone = [" / ".join(key) for key in known if key not in found]
    assert not gone, "\n".join(["remove what is no longer so from known.csv:", *gone])


def test_the_page_is_that_of_the_table():
    assert PAGE.read_text(encoding="utf-8") == page(read_rows().values()), (
        "run `python scripts/sweep.py --page`"
    )


ROW = Row(MACHINE, "CONV_2D", "alone", "20x20x16x32 k3x3", 4000, 3600, 0, 800)
LARGER = replace(ROW, shape="20x20x17x32 k3x3")


@pytest.mark.parametrize(
    ("now", "is_worse"),
    [
        (ROW, False),
        (replace(ROW, cycles=3999), False),
        (replace(ROW, cycles=4001), True),
        (replace(ROW, cycles=3000, host="GATHER"), True),
    ],
)
def test_one_cycle_more_is_worse(now, is_worse):
    assert bool(worse({ROW.key: ROW}, [now])) == is_worse


def test_what_ran_on_the_cpu_may_take_cycles_of_the_machine():
    before = replace(ROW, cycles=10, host="GATHER")
    assert worse({ROW.key: before}, [ROW]) == []


@pytest.mark.parametrize(("cycles", "count"), [(4000, 0), (3999, 1)])
def test_a_smaller_problem_must_not_take_more_cycles(cycles, count):
    assert len(inversions([ROW, replace(LARGER, cycles=cycles)])) == count


def test_a_larger_buffer_must_not_take_more_cycles():
    large, small = BUFFERS
    rows = [replace(ROW, machine=small), replace(ROW, machine=large, cycles=4001), ROW]
    (found,) = inversions(rows)
    assert found.more.machine == large and found.less.machine == small
