import pytest

from tpulite_testing import evidence as module
from tpulite_testing.evidence import evidence, sources_of


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "REGRESS", False)
    return tmp_path / "evidence.csv"


def stale(table, name, *contents):
    with evidence(name, *contents, table=table) as asked:
        return asked


def test_what_was_recorded_is_not_asked_again(table, monkeypatch):
    assert stale(table, "sum", "1", "2")
    assert not table.exists()
    monkeypatch.setenv("TPULITE_RECORD", "1")
    assert stale(table, "sum", "1", "2")
    assert stale(table, "product", "3")
    assert not stale(table, "sum", "1", "2")
    assert table.read_text().splitlines()[0] == "name,digest"


@pytest.mark.parametrize("contents", [("1", "3"), ("12",), ("1",)])
def test_other_contents_are_asked(table, monkeypatch, contents):
    monkeypatch.setenv("TPULITE_RECORD", "1")
    stale(table, "sum", "1", "2")
    monkeypatch.delenv("TPULITE_RECORD")
    assert stale(table, "sum", *contents)


def test_what_is_not_so_is_not_recorded(table, monkeypatch):
    monkeypatch.setenv("TPULITE_RECORD", "1")
    with pytest.raises(AssertionError), evidence("sum", "1", table=table):
        raise AssertionError
    assert not table.exists()


def test_regress_asks_always(table, monkeypatch):
    monkeypatch.setenv("TPULITE_RECORD", "1")
    stale(table, "sum", "1")
    monkeypatch.setattr(module, "REGRESS", True)
    assert stale(table, "sum", "1")


def test_sources_of_a_folder_are_those_of_its_files(tmp_path):
    (tmp_path / "b.py").write_text("b")
    (tmp_path / "a.py").write_text("a")
    assert sources_of(tmp_path) == "a\0b"
    assert sources_of(tmp_path / "b.py") == "b"
