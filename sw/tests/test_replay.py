"""The replay corpus: no program changes unnoticed (``make replay``, ``make replay-write``)."""

from dataclasses import replace

import pytest

from tpulite_testing.replay.case import Case
from tpulite_testing.replay.compare import Change, changes, table
from tpulite_testing.replay.corpus import FULL, QUICK, Part, Replay, cases
from tpulite_testing.replay.record import Record, read_records, record_of, write_records

FAMILIES = (
    "bench",
    "bound",
    "file",
    "int4",
    "layer_form",
    "layer_size",
    "matrices",
    "moving",
    "network",
    "upwards",
    "zoo",
)

ADVICE = """
Programs differ from those that are recorded in {path}, the largest loss first:
{table}
If that is what you want, `make replay-write` records it{full}. More cycles, or a refusal, need a
reason in the commit message."""


def compare(part: Part, family: str) -> None:
    """Compare a family of cases; fail with what differs, skip if something cannot be had."""
    chosen = [case for case in part.cases() if case.family == family]
    assert chosen
    replay = Replay.of(chosen)
    if found := replay.changes(part, chosen):
        full = " (with FULL=1)" if part is FULL else ""
        pytest.fail(ADVICE.format(path=part.path, table=table(found), full=full), pytrace=False)
    if replay.skipped:
        name, reason = next(iter(replay.skipped.items()))
        pytest.skip(f"{len(replay.skipped)} of {len(chosen)} cases, as {name}: {reason}")


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_are_those_that_are_recorded(family):
    compare(QUICK, family)


@pytest.mark.regress("minutes; quick cases of the same families are compared above")
@pytest.mark.parametrize("family", FAMILIES)
def test_all_programs_are_those_that_are_recorded(family):
    compare(FULL, family)


@pytest.mark.parametrize("part", [QUICK, FULL], ids=lambda part: part.name)
def test_every_case_is_recorded_once_and_every_record_has_a_case(part):
    names = [case.name for case in part.cases()]
    assert len(set(names)) == len(names)
    assert {case.family for case in part.cases()} == set(FAMILIES)
    assert read_records(part.path).keys() == set(names)


def test_the_corpus_is_large():
    counts = {family: sum(case.family == family for case in cases()) for family in FAMILIES}
    assert counts["layer_form"] + counts["layer_size"] >= 300
    assert counts["network"] >= 100


def test_equal_cases_have_equal_records_and_files_keep_them(tmp_path):
    case = next(case for case in QUICK.cases() if case.family == "layer_form")
    one = record_of(case)
    assert one == record_of(case) and one.cycles and len(one.sha256) == 64
    refused = Record("a", refusal='It "does not", fit')
    write_records(tmp_path / "part.csv", [one, refused])
    assert read_records(tmp_path / "part.csv") == {case.name: one, "a": refused}


def failing(name: str, error: Exception) -> Case:
    def fail():
        raise error

    return Case(name, fail)


@pytest.mark.parametrize(
    "error, refusal",
    [
        (ValueError("It does not fit\nat all"), "It does not fit"),
        (AssertionError("race"), "AssertionError: race"),
    ],
)
def test_refusals_and_broken_promises_are_records(error, refusal):
    assert record_of(failing("x", error)) == Record("x", refusal=refusal)


def test_what_cannot_be_had_is_skipped_and_not_compared():
    case = failing(next(iter(read_records(QUICK.path))), RuntimeError("no network"))
    replay = Replay.of([case])
    assert replay == Replay((), {case.name: "no network"})
    assert replay.changes(QUICK, [case]) == []


def test_the_largest_loss_comes_first():
    before = {n: Record(n, 100, 16, 16, "s") for n in ("same", "bits", "worse", "better", "gone")}
    after = [
        before["same"],
        replace(before["bits"], sha256="t"),
        replace(before["worse"], cycles=110, read=32),
        replace(before["better"], cycles=90),
        Record("new", refusal="does not fit"),
    ]
    found = changes(before, after)
    assert [change.case for change in found] == ["gone", "worse", "bits", "new", "better"]
    assert [change.lost for change in found] == [True, True, False, False, False]
    assert table(found).splitlines() == [
        "LOSS gone: gone, was 100 cycles",
        "LOSS worse: 100 → 110 cycles (+10.00%), 16 → 32 bytes read",
        "     new: new, refused: does not fit",
        "     better: 100 → 90 cycles (-10.00%)",
        "     other bits, equal cycles and bytes: bits",
        "2 slower or refused, 1 faster, 2 others",
    ]
    lost = Change("x", Record("x", 7), Record("x", refusal="no room"))
    assert lost.lost and lost.line() == "x: 7 cycles → refused: no room"
