import pytest

from tpulite_testing import evidence as module
from tpulite_testing.evidence import canonical, code_of, evidence, sources_of


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
    (tmp_path / "a.py").write_text("a  # why\n")
    assert sources_of(tmp_path) == "a\0b"
    assert sources_of(tmp_path / "b.py") == "b"


COUNTER = """
attribute \\src "counter.py:7"
module \\dut
  attribute \\src "counter.py:9"
  attribute \\init 2'01
  wire width 2 \\count
  cell $add $1
    parameter \\Y_WIDTH 2
    connect \\A \\count
    connect \\B 2'01
  end
end
"""


@pytest.mark.parametrize("change", [("counter.py:9", "counter.py:10"), ("count\n", "level\n")])
def test_places_and_names_of_rtl_are_not_compared(change):
    assert canonical(COUNTER.replace(*change)) == canonical(COUNTER)


@pytest.mark.parametrize(
    "change",
    [("$add", "$sub"), ("init 2'01", "init 2'10"), ("\\A", "\\B"), ("B 2'01", "B 2'11")],
)
def test_rtl_that_does_something_else_is_told_apart(change):
    assert change[0] in COUNTER
    assert canonical(COUNTER.replace(*change)) != canonical(COUNTER)


def test_code_is_compared_without_what_is_said_about_it():
    said = '"""A page.\n\nMore."""\n\nx = "#"  # why\n"""What it is."""\n\n\ndef f():\n'
    assert code_of(said + '    """Nothing."""\n    return x\n') == 'x = "#"\ndef f():\n    return x'
