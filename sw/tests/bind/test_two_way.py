"""Compiled against bound: no ratio of the recorded table becomes worse, in either direction."""

import re
from dataclasses import replace

import pytest

from tpulite_testing.two_way.cases import MACHINES, Pair, pairs
from tpulite_testing.two_way.table import (
    SUMMARY_PATH,
    Row,
    measure,
    read_rows,
    summary,
    worse,
)

FAMILIES = ("layer", "drawn", "network", "zoo")

MOST = {"layers": (1.02, 4.58), "networks": (1.05, 1.72)}
"""Compiled by bound, and bound by compiled, at most. Only compiled programs have `fill-vectors`."""

ADVICE = """
{lines}
If the faster road became faster, `python scripts/two_way.py --write` records it;
a road that is slower needs a reason in the commit message."""


def compare(chosen: list[Pair]) -> None:
    """Measure pairs; fail with what became worse, skip if something cannot be had."""
    rows, missing = [], []
    for pair in chosen:
        try:
            rows.append(measure(pair))
        except RuntimeError as error:
            missing.append(str(error))
    if found := worse(read_rows(), rows):
        pytest.fail(ADVICE.format(lines="\n".join(found)), pytrace=False)
    if missing:
        pytest.skip(f"{len(missing)} of {len(chosen)}: {missing[0]}")


def of(machine: str, family: str) -> list[Pair]:
    """Return the pairs of a machine and a family."""
    return [p for p in pairs() if p.machine == machine and p.layer.startswith(f"{family}/")]


@pytest.mark.parametrize("family", FAMILIES[:3])
def test_no_ratio_is_worse_than_recorded(family):
    chosen = [p for machine in MACHINES for p in of(machine, family) if p.quick]
    assert chosen
    compare(chosen)


@pytest.mark.regress("minutes; some of each family are compared above")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("machine", MACHINES)
def test_no_ratio_of_all_is_worse_than_recorded(machine, family):
    compare(of(machine, family))


def test_every_pair_is_recorded_once_and_every_row_has_a_pair():
    keys = [pair.key for pair in pairs()]
    assert len(set(keys)) == len(keys)
    assert list(read_rows()) == keys


def test_the_summary_is_that_of_the_table():
    assert SUMMARY_PATH.read_text() == summary(read_rows().values())


def test_no_recorded_ratio_is_larger_than_the_bounds():
    for row in read_rows().values():
        slower, faster = MOST["layers" if row.family in ("layer", "drawn") else "networks"]
        if row.ratio is not None:
            assert 1 / faster <= row.ratio <= slower, row.line()


ROW = Row("16x16", "layer/x", "8x8", 1100, 1000)


@pytest.mark.parametrize(
    ("now", "is_worse"),
    [
        (ROW, False),
        (replace(ROW, compiled=1101), False),
        (replace(ROW, compiled=1102), True),
        (replace(ROW, compiled=910), False),
        (replace(ROW, compiled=909, bound=1002), True),
        (replace(ROW, bound=998), True),
        (replace(ROW, bound=None), True),
        (replace(ROW, compiled=None), True),
    ],
)
def test_ratios_become_worse_in_both_directions(now, is_worse):
    assert bool(worse({ROW.key: ROW}, [now])) == is_worse


def test_what_was_refused_may_be_accepted():
    refused = replace(ROW, bound=None)
    assert worse({ROW.key: refused}, [refused, replace(ROW, bound=1100)]) == []


def test_both_directions_have_a_worst_row():
    rows = [ROW, replace(ROW, layer="drawn/y", compiled=1000, bound=1010), replace(ROW, bound=None)]
    text = summary(rows)
    assert re.findall(r"in (\d), by more than 2% in (\d)", text)[:2] == [("1", "1"), ("1", "0")]
    assert "worst: 16x16 layer/x 8x8: compiled 1,100, bound 1,000, 1.1000" in text
    assert "refused: 16x16 layer/x 8x8: compiled 1,100, bound refused" in text
