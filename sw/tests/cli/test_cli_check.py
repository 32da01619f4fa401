"""A network is compared with its baseline: better, equal, worse, or not to compare."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from tpulite.compiler.options import Options
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.report import report_programs
from tpulite.report.baseline import Allowance, Figure, Verdict
from tpulite.runtime.model import Model

pytest_plugins = ("tpulite_testing.command_line",)

QUICK = ("--effort", "0")


@pytest.fixture
def check(tpulite, tmp_path):
    """Run the command against a baseline of a dense network, whose figures are changed first."""

    def run(*words, network=MLP_DIGITS, **changes):
        path = tmp_path / "base.json"
        if not path.exists():
            words_ = ("--baseline", "base.json", *QUICK, "--update")
            code, out, err = tpulite("check", MLP_DIGITS, *words_)
            assert (code, err) == (0, "") and out.endswith("base.json: written\n")
        record = json.loads(path.read_text())
        for name, change in changes.items():
            record["figures"][name] += change
        path.write_text(json.dumps(record))
        return tpulite("check", network, "--baseline", "base.json", *QUICK, *words)

    return run


def test_a_baseline_has_the_figures_of_the_programs(check, tmp_path):
    assert check()[0] == 0
    record = json.loads((tmp_path / "base.json").read_text())
    model = Model.load(MLP_DIGITS, options=Options(effort=0))
    report = report_programs(model.programs, cycles=True)
    assert record["schema"] == 1 and record["network"] == "mlp_digits"
    assert record["conditions"]["config"]["name"] == "16x16"
    assert record["conditions"]["options"] == {"effort": 0}
    assert record["conditions"]["data"] is None
    assert record["figures"] == {
        "cycles": report.cycles,
        "dram_bytes": report.read_bytes + report.written_bytes,
        "cpu_macs": 0,
        "buffer_peak_rows": report.live_rows,
    }


def test_a_regression_fails_and_junit_names_it(check, tmp_path):
    code, out, err = check("--junit", "junit.xml", "--json", "c.json", cycles=-1, dram_bytes=1)
    assert (code, err) == (1, "")
    figures = json.loads((tmp_path / "c.json").read_text())["figures"]
    assert {x["name"]: x["verdict"] for x in figures} == {
        "cycles": "worse",
        "dram_bytes": "better",
        "cpu_macs": "equal",
        "buffer_peak_rows": "equal",
    }
    assert "1 better, 2 equal, 1 worse\n--update keeps what is better\n" in out
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    assert [test.get("name") for test in suite if test.find("failure") is not None] == ["cycles"]


def test_what_is_allowed_is_no_regression(check):
    assert check(cycles=-1)[0] == 1
    assert check("--allow", "cycles=1")[0] == 0
    assert check("--allow", "cycles=1%")[0] == 0
    assert check("--allow", "dram_bytes=5%")[0] == 1


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("cycles", 100, 101), Verdict.WORSE),
        (Figure("cycles", 100, 101, Allowance(1, percent=True)), Verdict.ALLOWED),
        (Figure("cycles", 100, 102, Allowance(1, percent=True)), Verdict.WORSE),
        (Figure("cycles", 100, 99), Verdict.BETTER),
        (Figure("cpu_macs", 0, 5), Verdict.WORSE),
        (Figure("cpu_macs", 0, 5, Allowance(50, percent=True)), Verdict.WORSE),
        (Figure("cpu_macs", 0, 5, Allowance(5)), Verdict.ALLOWED),
        (Figure("accuracy", 0.75, 0.5), Verdict.WORSE),
        (Figure("accuracy", 0.75, 0.5, Allowance(25, percent=True)), Verdict.ALLOWED),
        (Figure("accuracy", 0.5, 0.75), Verdict.BETTER),
        (Figure("accuracy", 0.5, 0.5), Verdict.EQUAL),
    ],
)
def test_more_is_worse_but_of_accuracy(figure, verdict):
    assert figure.verdict == verdict


def test_the_accuracy_of_a_data_set_counts(tpulite, tmp_path):
    np.savez("set.npz", x=np.zeros((4, 16, 16), np.uint8), y=np.arange(4))
    words = ("check", CNN_DIGITS, "--baseline", "b.json", *QUICK, "--workers", "1")
    assert tpulite(*words, "--data", "set.npz", "--update")[0] == 0
    record = json.loads((tmp_path / "b.json").read_text())
    assert record["figures"]["accuracy"] in (0, 0.25)  # all images are alike
    code, out, _ = tpulite(*words, "--data", "set.npz")
    assert code == 0 and "5 equal" in out
    record["figures"]["accuracy"] = 0.5
    (tmp_path / "b.json").write_text(json.dumps(record))
    assert tpulite(*words, "--data", "set.npz")[0] == 1
    code, _, err = tpulite(*words)
    assert code == 2 and err.startswith("tpulite: b.json: data differs: baseline sha256=")


def test_the_table_fits_80_columns(check, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = check("--allow", "cycles=2.5%", cycles=123456789, dram_bytes=123456789)
    assert max(map(len, out.splitlines())) <= 80 and "…" not in out and "123," in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "8x8"), "base.json: config differs: baseline name=16x16 hash=0x"),
        (
            (
                "--without",
                "prefetch",
            ),
            "base.json: options differ: baseline effort=0",
        ),
        (("--exact", "tflm"), "base.json: numerics differ: baseline "),
        (("--allow", "cycle=1"), "--allow: cycle: no such figure (did you mean cycles?)"),
        (("--allow", "cycles=-1"), "--allow: cycles=-1 must be as in cycles=1% or cycles=500"),
        (("--update", "--allow", "cycles=1"), "--update cannot be used with --allow"),
        (("--limit", "3"), "--limit cannot be used without --data"),
        (("--baseline", "none.json"), "none.json: no such file; tpulite check --update writes"),
        (("--baseline", "noise.json"), "noise.json is not JSON: "),
        (("--baseline", "list.json"), "list.json is not a baseline"),
        (("--baseline", "new.json"), "new.json has schema 2, not 1"),
        (("--baseline", "nan.json"), "nan.json: cycles is nan, not a number"),
        (("--baseline", "less.json"), "less.json: cycles cannot be compared"),
        (("--device", "golden"), "golden has no clock"),
    ],
)
def test_what_cannot_be_compared_is_one_line(check, tmp_path, words, message):
    check()
    record = json.loads((tmp_path / "base.json").read_text())
    (tmp_path / "noise.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "new.json").write_text(json.dumps(record | {"schema": 2}))
    figures = record["figures"] | {"cycles": float("nan")}
    (tmp_path / "nan.json").write_text(json.dumps(record | {"figures": figures}))
    del figures["cycles"]
    (tmp_path / "less.json").write_text(json.dumps(record | {"figures": figures}))
    if words == ("--device", "golden"):
        record["conditions"]["device"] = "golden"
        (tmp_path / "base.json").write_text(json.dumps(record))
    code, out, err = check(*words)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(f"tpulite: {message}")


def test_another_network_is_refused(check):
    check()
    code, _, err = check(network=CNN_DIGITS)
    assert code == 2 and err.startswith("tpulite: base.json: network differs: baseline ")
