import csv
import json
import subprocess
import sys

import pytest

from tpulite.cli.main import COMMANDS
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.needs import install_command
from tpulite.runtime.model import Model
from tpulite_testing.page_reader import ReadPage

pytest_plugins = ("tpulite_testing.command_line",)


def test_a_profile_fits_80_columns(tpulite, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = tpulite("profile", CNN_DIGITS, "--mhz", 50)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    layers = Model.load(CNN_DIGITS).compile().programs[0].layers
    assert all(any(line.startswith(layer.name[:18]) for line in lines) for layer in layers)
    (total,) = [line.split()[1] for line in lines if line.startswith("total")]
    assert lines[-1].startswith(f"cycle model: {total} cycles/inference; at 50 MHz: 0.0")


def test_a_profile_is_written_for_programs(tpulite):
    code, out, _ = tpulite("profile", CNN_DIGITS, "--json", "-", "--mhz", 100)
    record = json.loads(out)
    assert code == 0 and record["device"] == "cycle model" and len(record["slowest"]) == 3
    assert record["milliseconds"] == pytest.approx(record["cycles"] / 1e5)
    code, out, _ = tpulite("profile", CNN_DIGITS, "--csv", "-")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0 and sum(int(row["cycles"]) for row in rows) == record["cycles"]
    for row in rows:
        parts = [int(value) for name, value in row.items() if name.startswith("cycles_")]
        assert sum(parts) == int(row["cycles"])


def test_a_page_is_written(tpulite, tmp_path):
    code, _, err = tpulite("profile", CNN_DIGITS, "--html", "report.html", "--batch", 2)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (code, err) == (0, "") and "batch=2" in page and page.startswith("<!DOCTYPE html>")


def test_pages_of_compile_and_compare_say_how(tpulite, tmp_path):
    words = ("compile", CNN_DIGITS, "-o", "net.tpulite", "--html", "c.html", "--without", "rolling")
    code, out, err = tpulite(*words)
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert (code, err) == (0, "") and out.splitlines()[1] in page
    assert "rolling=False" in page and "conv" in page and "Live ranges" in page
    for exact, verdict in (("litert-xnnpack", "same"), ("litert-ref", "differ")):
        words = ("--oracle", "litert-xnnpack", "--exact", exact, "--limit", 3, "--html", "d.html")
        code, out, err = tpulite("compare", CNN_DIGITS, *words)
        page = (tmp_path / "d.html").read_text(encoding="utf-8")
        assert code == (verdict == "differ") and verdict in out.splitlines()[-1]
        assert "ai-edge-litert" in page and ("tensors differ; first" in page) == (code == 1)


def test_a_missing_extra_is_told_before_work_begins(tpulite, tmp_path, monkeypatch):
    needs = (("--html", "fast_sugiyama", "report"), ("--trace", "perfetto", "trace"))
    for option, package, extra in needs:
        monkeypatch.setitem(sys.modules, package, None)
        code, out, err = tpulite("profile", CNN_DIGITS, option, "file")
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert f"{option} needs: {install_command(extra)}\n" in err
        assert f"'{package.replace('_', '-')}" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("no.tflite",), "no.tflite: "),
        ((CNN_DIGITS, "--device", "golden"), "golden has no clock, or records no trace"),
        ((CNN_DIGITS, "--device", "gpu"), "gpu: no such device"),
        ((CNN_DIGITS, "--mhz", 0), "--mhz: "),
        ((CNN_DIGITS, "--json", "-", "--csv", "-"), "--json - and --csv - cannot be used together"),
    ],
)
def test_bad_input_is_one_line(tpulite, words, message):
    code, out, err = tpulite("profile", *words)
    assert (code, out) == (2, "") and err.startswith(f"tpulite: {message}")
    assert err.count("\n") == 1


def test_a_network_is_read_without_importing_the_compiler():
    script = "import sys, tpulite.cli.reading; print('tpulite.compiler.pipeline' in sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_help_lists_commands_without_importing_them(tpulite):
    code, out, err = tpulite()
    assert (code, err) == (0, "") and tpulite("--help") == (code, out, err)
    script = "import sys, tpulite.cli; print('numpy' in sys.modules, 'rich' in sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    for name in COMMANDS:
        code, text, _ = tpulite(name, "--help")
        assert code == 0 and text.startswith(f"Usage: tpulite {name}")


def test_the_package_is_a_command(tmp_path):
    words = [sys.executable, "-m", "tpulite", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("tpulite, version ")


def test_layers_with_the_same_advice_share_a_sentence(tpulite):
    _, out, _ = tpulite("profile", CNN_DIGITS)
    words = " ".join(out.split())
    record = json.loads(tpulite("profile", CNN_DIGITS, "--json", "-")[1])
    for slow in record["slowest"]:
        assert f"{slow['name']} (" in words and words.count(f": {slow['advice']}.") == 1


def test_run_shows_the_same_as_profile(tpulite, tmp_path):
    pytest.importorskip("fast_sugiyama")
    pytest.importorskip("perfetto")
    assert tpulite("profile", CNN_DIGITS, "--trace", "a.pftrace")[0] == 0
    code, _, err = tpulite("run", CNN_DIGITS, "--trace", "b.pftrace", "--html", "b.html")
    assert (code, err) == (0, "")
    assert (tmp_path / "a.pftrace").read_bytes() == (tmp_path / "b.pftrace").read_bytes()
    assert "cnn_digits" in (tmp_path / "b.html").read_text(encoding="utf-8")


def test_the_page_of_run_shows_the_input_and_the_classes(tpulite, tmp_path):
    words = ("--input", "digits", "--limit", 2, "--mhz", 50, "--html", "run.html")
    assert tpulite("run", MLP_DIGITS, *words, "--json", "run.json")[0] == 0
    page = ReadPage.of(tmp_path / "run.html")
    told = json.loads((tmp_path / "run.json").read_text())["answers"]
    for shown, each, label in zip(page.one("answers"), told, (2, 5), strict=True):
        (output,), (expected,), (picture,) = shown["outputs"], each["outputs"], shown["pictures"]
        assert (shown["name"], shown["expected"]) == (each["input"], f"right: class {label}")
        assert picture["url"].startswith("data:image/png") and picture["shape"] == "1x256"
        assert output["top"] == [
            {"label": f"class {x['class']}", "value": x["value"]} for x in expected["top"]
        ]
    assert page.mhz == 50 and "ms on the accelerator at 50 MHz" in page.text


def test_the_page_of_inspect_shows_where_operators_run(tpulite, tmp_path):
    code, _, err = tpulite("inspect", CNN_DIGITS, "--html", "page.html")
    assert (code, err) == (0, "")
    page, operators = ReadPage.of(tmp_path / "page.html"), Model.load(CNN_DIGITS).summary()
    assert page.column("operator") == [x.name for x in operators]
    assert page.column("MACs") == [x.macs or None for x in operators]
    where = {"host": "CPU", "none": ""}
    assert page.column("runs on") == [where.get(x.where, x.where) for x in operators]
    assert f"{sum(x.macs for x in operators):,}" in page.text


def test_an_interruption_is_one_line(tpulite, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tpulite.cli.profile.profile_model", interrupted)
    code, out, err = tpulite("profile", CNN_DIGITS)
    assert (code, out, err.strip()) == (130, "", "tpulite: interrupted")


def test_an_empty_program_has_a_page(tpulite, tmp_path):
    assert tpulite("bind", CNN_DIGITS, "0x8x8")[0] == 0
    code, _, err = tpulite("profile", "cnn_digits_0x8x8.tpu", "--html", "page.html")
    assert (code, err) == (0, "")
    assert "start" in (tmp_path / "page.html").read_text()
