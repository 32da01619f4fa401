"""Recorded evidence is of the RTL as it is, or listed as stale with a reason."""

import runpy
import sys
from pathlib import Path

import pytest

from tpulite_tb.coverage.summary import Share
from tpulite_testing.evidence import digest_of, read_evidence, record

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))  # behind packages that are called like a script

import refresh_evidence  # noqa: E402 - needs the path above

ROW = "mutants fifo"
OTHER = digest_of("other RTL")


@pytest.fixture(scope="module")
def rows():
    return refresh_evidence.rows()


@pytest.fixture
def present(rows):
    """Return a table in which no row is stale."""
    return {row.name: row.digest for row in rows}


@pytest.fixture
def stale(tmp_path):
    """Return what writes a table of stale rows, of one row or of none."""

    def write(digest: str = "", reason: str = "a reason") -> Path:
        path = tmp_path / "stale.csv"
        refresh_evidence.write_listed({ROW: (digest, reason)} if digest else {}, path)
        return path

    return write


def test_rows_are_of_the_present_rtl_or_listed(rows):
    assert refresh_evidence.faults(rows, read_evidence(), refresh_evidence.STALE) == []


def test_a_stale_row_is_named_with_what_measures_it_again(rows, present, stale):
    found = refresh_evidence.faults(rows, present | {ROW: OTHER}, stale())
    assert found == [f"{ROW} is stale: make refresh-evidence ONLY='{ROW}' [DEFER=WHY]"]


def test_a_listed_row_is_accepted_until_its_rtl_changes_again(rows, present, stale):
    evidence = present | {ROW: OTHER}
    assert refresh_evidence.faults(rows, evidence, stale(present[ROW])) == []
    assert len(refresh_evidence.faults(rows, evidence, stale(present[ROW], ""))) == 1
    assert len(refresh_evidence.faults(rows, evidence, stale(digest_of("RTL before")))) == 1


def test_a_listed_row_that_is_fresh_is_an_error(rows, present, stale):
    found = refresh_evidence.faults(rows, present, stale(OTHER))
    assert found == [f"{ROW} is not stale: remove its line from stale.csv"]


def test_a_row_of_no_table_is_an_error(rows, present, stale):
    found = refresh_evidence.faults(rows, present | {"mutants adder": OTHER}, stale())
    assert found == ["mutants adder is no row: remove its line"]


def test_an_edited_row_is_stale(present):
    lines = refresh_evidence.grouped(refresh_evidence.MUTANTS)
    found = refresh_evidence.designs(name for name in lines if name != "chip")
    line = lines["fifo"]
    same, edited = (
        next(refresh_evidence.mutants_rows({"fifo": text}, found)).digest
        for text in (line, line.replace(",200,", ",201,"))
    )
    assert same == present[ROW] != edited


@pytest.fixture
def run(rows, present, tmp_path, monkeypatch, capsys):
    """Return what runs the command where one row alone is stale, and what it prints."""
    evidence = tmp_path / "evidence.csv"
    record({name: digest for name, digest in present.items() if name != ROW}, table=evidence)
    monkeypatch.setattr(refresh_evidence, "rows", lambda: rows)

    def command(*arguments: object) -> str:
        words = ["refresh_evidence.py", "--only", ROW, "--evidence", evidence, *arguments]
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        refresh_evidence.main()
        return capsys.readouterr().out

    return command


def test_stale_rows_are_listed_with_their_commands_and_counted(run):
    first, *counts = run("--list").splitlines()
    assert first == f"{ROW}: python scripts/mutate.py fifo --write --count 200"
    assert (
        counts[1]
        == f"mutants: 1 of {len(refresh_evidence.grouped(refresh_evidence.MUTANTS))} stale"
    )
    assert [line.split(":")[0] for line in counts] == ["proof", "mutants", "coverage", "flips"]


def test_a_stale_row_is_deferred_with_a_reason(run, rows, present, tmp_path):
    path = tmp_path / "stale.csv"
    refresh_evidence.write_listed({"mutants divider": (OTHER, "was stale")}, path)
    run("--defer", "hours", "--stale", path)
    run("--defer", "days", "--stale", path)
    assert refresh_evidence.listed(path) == {ROW: (present[ROW], "hours")}
    assert refresh_evidence.faults(rows, read_evidence(tmp_path / "evidence.csv"), path) == []


def test_rows_of_coverage_of_the_same_tests_are_measured_together(rows):
    batches = refresh_evidence.batches(rows)
    batch = next(batch for batch in batches if batch[0].name == "coverage cp.command_check")
    assert [row.name for row in batch] == ["coverage cp.command_check", "coverage cp.command_fetch"]
    assert sorted(row.name for batch in batches for row in batch) == sorted(
        row.name for row in rows
    )


def test_components_with_missed_points_are_incomplete():
    incomplete = runpy.run_path(str(ROOT / "scripts/coverage.py"))["incomplete"]
    whole = {"line": Share(3, 0, 3), "toggle": Share(1, 1, 2)}
    shares = {"whole": whole, "short": whole | {"toggle": Share(1, 0, 2)}}
    assert incomplete(shares) == ["short"]
