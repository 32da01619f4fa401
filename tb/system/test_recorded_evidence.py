"""Recorded evidence is of the RTL as it is, or listed as stale with a reason."""

import sys
from pathlib import Path

import pytest

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
def stale(tmp_path):
    """Return what writes a table of stale rows: those that are there, and a digest of one more."""

    def write(digest: str, reason: str = "a reason") -> Path:
        path = tmp_path / "stale.csv"
        path.write_text(refresh_evidence.STALE.read_text() + f"{ROW},{digest},{reason}\n")
        return path

    return write


def test_rows_are_of_the_present_rtl_or_listed(rows):
    assert refresh_evidence.faults(rows, read_evidence(), refresh_evidence.STALE) == []


def test_a_stale_row_is_named_with_what_measures_it_again(rows):
    evidence = read_evidence() | {ROW: OTHER}
    found = refresh_evidence.faults(rows, evidence, refresh_evidence.STALE)
    assert found == [f"{ROW} is stale: make refresh-evidence ONLY='{ROW}' [DEFER=WHY]"]


def test_a_listed_row_is_accepted_until_its_rtl_changes_again(rows, stale):
    evidence = read_evidence() | {ROW: OTHER}
    present = read_evidence()[ROW]
    assert refresh_evidence.faults(rows, evidence, stale(present)) == []
    assert len(refresh_evidence.faults(rows, evidence, stale(present, ""))) == 1
    assert len(refresh_evidence.faults(rows, evidence, stale(digest_of("RTL before")))) == 1


def test_a_listed_row_that_is_fresh_is_an_error(rows, stale):
    found = refresh_evidence.faults(rows, read_evidence(), stale(OTHER))
    assert found == [f"{ROW} is not stale: remove its line from stale.csv"]


def test_a_row_of_no_table_is_an_error(rows):
    evidence = read_evidence() | {"mutants adder": OTHER}
    found = refresh_evidence.faults(rows, evidence, refresh_evidence.STALE)
    assert found == ["mutants adder is no row: remove its line"]


def test_an_edited_row_is_stale(rows):
    lines = refresh_evidence.grouped(refresh_evidence.MUTANTS)
    found = refresh_evidence.designs(name for name in lines if name != "chip")
    line = lines["fifo"]
    same, edited = (
        next(refresh_evidence.mutants_rows({"fifo": text}, found)).digest
        for text in (line, line.replace(",190,", ",191,"))
    )
    assert same == next(row.digest for row in rows if row.name == ROW) != edited


@pytest.fixture
def run(rows, tmp_path, monkeypatch, capsys):
    """Return what runs the command without a digest of the row, and what it prints."""
    fresh = {name: digest for name, digest in read_evidence().items() if name != ROW}
    evidence = tmp_path / "evidence.csv"
    record(fresh, table=evidence)
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
    assert [line.split(":")[0] for line in counts] == ["proof", "mutants", "coverage", "flips"]


def test_a_stale_row_is_deferred_with_a_reason(run, rows, tmp_path):
    stale = tmp_path / "stale.csv"
    stale.write_text(refresh_evidence.STALE.read_text())
    run("--defer", "hours", "--stale", stale)
    assert refresh_evidence.listed(stale)[ROW] == (read_evidence()[ROW], "hours")
    evidence = read_evidence(tmp_path / "evidence.csv")
    assert refresh_evidence.faults(rows, evidence, stale) == []
