import csv
import errno
import json
import os

import pytest

from tpulite.atomic import write_whole
from tpulite.explore.families import FAMILIES
from tpulite.models import CNN_DIGITS
from tpulite.parts import SIZES

pytest_plugins = ("tpulite_testing.command_line",)

GRID = ("--vary", "array_size=8,16", "--vary", "ub_rows=512,1000")


def test_a_study_is_printed_and_written(tpulite, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    where = ("explore", CNN_DIGITS, *GRID, "--workers", 1, "--store", tmp_path / "store")
    where += ("--max-lut", 60_000)
    code, out, err = tpulite(*where)
    assert (code, err) == (0, "") and max(map(len, out.splitlines()[:-4])) <= 80
    assert "1: ub_rows must be a power of two" in out and "2: more than 60,000 LUT" in out
    assert "4 points, 1 (*) on the Pareto front" in out
    assert "\n8x8 with 4 KiB runs cnn_digits fastest: " in out
    code, text, _ = tpulite(*where, "--json", "-")
    record = json.loads(text)
    assert code == 0 and [len(point["objectives"]) > 0 for point in record["points"]] == [
        not point["trouble"] for point in record["points"]
    ]
    code, text, err = tpulite(*where, "--csv", "-", "--html", "page.html")
    assert (code, err) == (0, "") and "8x8 with 4 KiB" in (tmp_path / "page.html").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [i for i, row in enumerate(rows) if row["best"] == "True"] == record["best"]
    for row, point in zip(rows, record["points"], strict=True):
        assert row["why_not"] == point["why_not"]
        assert row["cycles"] == str(point["objectives"].get("cycles", ""))


def test_a_full_disk_is_told_in_a_line_and_what_was_kept_stays(tpulite, tmp_path, monkeypatch):
    store, kept = tmp_path / "store", []

    def write(path, content):
        if kept:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        kept.append(path)
        write_whole(path, content)

    monkeypatch.setattr("tpulite.executors.kept.write_whole", write)
    where = ("explore", CNN_DIGITS, "--vary", "array_size=4,8", "--workers", 1, "--store", store)
    code, out, err = tpulite(*where)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "No space left on device" in err and str(store) in err
    assert [path for path in store.rglob("*") if path.is_file()] == kept


def test_time_counts_where_a_clock_was_measured(tpulite, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    where = ("explore", CNN_DIGITS, "--workers", 1, "--store", tmp_path / "store")
    where += ("--vary", "config=ecp5-25,4x4,ecp5-85", "--objective", "ms,area")
    code, text, err = tpulite(*where, "--json", "-")
    assert (code, err) == (0, "")
    small, unknown, large = json.loads(text)["points"]
    for name, point in (("ecp5-25", small), ("ecp5-85", large)):
        assert point["mhz"] == SIZES[name].fmax_mhz
        cycles = point["objectives"]["cycles"]
        assert point["objectives"]["ms"] == pytest.approx(cycles / SIZES[name].fmax_mhz / 1000)
    assert unknown["why_not"] == "no clock was measured for it: give --mhz"
    assert unknown["objectives"] == {}
    code, out, err = tpulite(*where)
    assert (code, err) == (0, "") and "as routed" in out and "on the Pareto front of ms" in out
    code, text, err = tpulite(*where, "--mhz", 50, "--json", "-")
    assert [point["mhz"] for point in json.loads(text)["points"]] == [50, 50, 50]


def test_area_is_that_of_a_family(tpulite, tmp_path):
    where = ("explore", CNN_DIGITS, "--workers", 1, "--store", tmp_path / "store")
    where += ("--vary", "config=4x4", "--objective", "cycles,area,dsp,bram")
    records = {}
    for family in FAMILIES:
        code, text, err = tpulite(*where, "--family", family, "--json", "-")
        assert (code, err) == (0, "")
        (records[family],) = json.loads(text)["points"]
    for family, point in records.items():
        assert point["size"] == point["sizes"][family]
        assert point["objectives"]["area"] == point["size"]["lut"]
    assert len({point["size"]["lut"] for point in records.values()}) == len(FAMILIES)
    (row,) = csv.DictReader(tpulite(*where, "--csv", "-")[1].splitlines())
    assert row["dsp_7-series"] == str(records["7-series"]["size"]["dsp"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((CNN_DIGITS,), "--vary is missing"),
        (
            (CNN_DIGITS, "--vary", "rows=1"),
            "rows: no such field of a configuration",
        ),
        ((CNN_DIGITS, *GRID, "--objective", "joy"), "joy: no such objective; choose from cycles, "),
        ((CNN_DIGITS, *GRID, "--objective", "cycles,cycles"), "an objective is given twice"),
        ((CNN_DIGITS, CNN_DIGITS, *GRID), "two networks have the name 'cnn_digits'"),
        ((CNN_DIGITS, *GRID, "--csv", "-", "--json", "-"), "cannot be used together"),
        ((CNN_DIGITS, *GRID, "--random", 1, "--search", 1), "cannot be used together"),
        ((CNN_DIGITS, *GRID, "--max-ms", 1), "--max-ms needs a clock frequency: give --mhz"),
        ((CNN_DIGITS, "--vary", "dram_latency=1"), "dram_latency must be 2 to 10,000 cycles"),
        ((CNN_DIGITS, "--vary", "ub_rows=64..32"), "ub_rows=64..32 is an empty range"),
        ((CNN_DIGITS, *GRID, "--process", "3nm"), "--process: 3nm is not one of 45nm, 7nm"),
        ((CNN_DIGITS, *GRID, "--family", "ice40"), "--family: ice40 is not one of ECP5, 7-series"),
        ((CNN_DIGITS, "--vary", "config=5x5"), "5x5: no such configuration; choose from 4x4, "),
        ((CNN_DIGITS, *GRID, "--objective", "ms"), "--objective ms: no clock was measured for any"),
        ((CNN_DIGITS, *GRID, "--rtl", 0), "0 is not in the range x>=1"),
        ((CNN_DIGITS, *GRID, "--store", CNN_DIGITS), "Not a directory"),
        (("none.tflite", *GRID), "none.tflite: "),
    ],
)
def test_bad_input_is_told_in_a_line(tpulite, words, message):
    code, out, err = tpulite("explore", *words)
    assert (code, out) == (2, "") and err.count("\n") == 1 and message in err
