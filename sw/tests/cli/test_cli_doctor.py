"""What is missing is said at once, with what to type."""

import json
import shutil
from importlib.metadata import PackageNotFoundError

import pytest

from tpulite import needs
from tpulite.needs import BUILD_TOOLS, machine_needs

pytest_plugins = ("tpulite_testing.command_line",)

VERSIONS = {"numpy": "2.0.1", "click": "8.0.0", "onnx": "1.18"}


@pytest.fixture
def machine(monkeypatch):
    """A machine with an old click, half of the extra onnx, and no program but make."""

    def version(name):
        if name not in VERSIONS and name != "tpulite":
            raise PackageNotFoundError(name)
        return VERSIONS.get(name, "0.1")

    wanted = [
        *("numpy>=1.26", "click>=8.1"),
        *('onnx>=1.17; extra == "onnx"', "onnxruntime>=1.20; extra == 'onnx'"),
    ]
    monkeypatch.setattr(needs, "requires", lambda _: wanted)
    monkeypatch.setattr(needs, "version", version)
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/make" if name == "make" else None)


@pytest.mark.usefixtures("machine")
def test_everything_that_is_missing_is_found():
    found = {need.name: need for need in machine_needs()}
    assert found["tpulite 0.1"].missing == ("click 8.0.0 (needs >=8.1)",)
    assert "numpy 2.0.1" in found["tpulite 0.1"].found
    assert found["tpulite[onnx]"].missing == ("onnxruntime",)
    assert found["tpulite[onnx]"].remedy == "pip install 'onnxruntime>=1.20'"
    assert [name for name in (*BUILD_TOOLS, "iverilog") if found[name].missing] == [
        *("g++", "perl", "iverilog")
    ]


@pytest.mark.usefixtures("machine")
def test_the_command_tells_all_of_it(tpulite):
    code, out, err = tpulite("doctor")
    assert (code, err) == (1, "")
    assert "\nonnx: missing onnxruntime; onnx 1.18\n" in out
    assert "\nperl: missing perl\n" in out
    assert out.startswith(
        "missing  tpulite compile, run, profile, check, export\n"
        "           pip install 'click>=8.1'\n"
        "missing  tpulite run NETWORK.onnx\n"
        "           pip install 'click>=8.1' 'onnxruntime>=1.20'\n"
    )
    assert "\nnext: pip install 'click>=8.1'\n" in out
    code, out, _ = tpulite("doctor", "--json", "-")
    assert {need["name"] for need in json.loads(out)} >= {"tpulite[onnx]", "iverilog"}


def test_what_works_comes_first_and_then_the_next_command(tpulite, monkeypatch):
    first = "tpulite run cnn_digits --input digits --limit 1"
    code, out, _ = tpulite("doctor")
    assert code == 0
    assert out.startswith("ready    tpulite compile, run, profile, check, export\n")
    assert "ready    tpulite run NETWORK --device rtl\n" in out
    assert f"\nnext: {first} --device rtl\n" in out
    monkeypatch.setattr(shutil, "which", lambda _: None)
    _, out, _ = tpulite("doctor")
    assert (
        "missing  tpulite run NETWORK --device rtl\n           apt install make g++ perl\n" in out
    )
    assert f"\nnext: {first}\n" in out


def test_parts_that_must_be_there(tpulite, monkeypatch):
    assert tpulite("doctor", "rtl", "make")[0] == 0
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert tpulite("doctor", "rtl")[0] == 0
    assert tpulite("doctor", "rtl", "make")[0] == 1
    code, _, err = tpulite("doctor", "gpu")
    assert code == 2 and err.startswith("tpulite: gpu: no such part of tpulite")
