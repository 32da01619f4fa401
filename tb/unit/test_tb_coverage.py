"""Cross coverage."""

import io

import pytest
from rich.console import Console

from tpulite_tb.coverage.cross import Cross


@pytest.fixture
def cross():
    cross = Cross(opcode=["LOAD", "STORE", "END"], fault=[False, True])
    cross.exclude(opcode="END", fault=True)
    cross.hit(opcode="LOAD", fault=False)
    cross.hit(opcode="LOAD", fault=False)
    cross.hit(opcode="STORE", fault=True)
    return cross


def test_counts_and_holes(cross):
    assert cross.hits(opcode="LOAD") == 2
    assert cross.hits(fault=True) == 1
    assert cross.holes() == [("LOAD", True), ("STORE", False), ("END", False)]


def test_merge_adds(cross):
    other = Cross(**cross.axes)
    other.hit(opcode="LOAD", fault=True)
    cross.merge(other)
    assert cross.hits(opcode="LOAD") == 3
    with pytest.raises(ValueError, match=r"^Coverage of \['x'\] does not fit"):
        cross.merge(Cross(x=[1]))


def test_report_shows_every_combination(cross):
    console = Console(file=io.StringIO(), width=80)
    cross.report("Commands", console)
    text = console.file.getvalue()
    assert "2 of 5 combinations occurred" in text
    (row,) = [line for line in text.splitlines() if "END" in line]
    assert row.count("0") == 1 and row.count("-") == 1


def test_rejects_what_is_not_expected(cross):
    with pytest.raises(ValueError, match=r"^Coverage was told that .* cannot happen$"):
        cross.hit(opcode="END", fault=True)
    with pytest.raises(ValueError, match=r"^Coverage of opcode expects .*, not 'CONV'$"):
        cross.hit(opcode="CONV", fault=True)
    with pytest.raises(ValueError, match=r"^Coverage needs the axes \['fault', 'opcode'\]"):
        cross.hit(opcode="END")
    with pytest.raises(ValueError, match=r"^Coverage has the axes .*, not 'size'$"):
        cross.hits(size=3)
