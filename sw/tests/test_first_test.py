"""A first test needs no large package: files of tests import what `--group tests` installs."""

import re
import sys
from pathlib import Path

import pytest

SW = Path(__file__).resolve().parents[1]
FOUND = sorted([*SW.glob("tests/**/*.py"), *SW.glob("tpulite_testing/**/*.py")])
INSTALLED = {
    *("numpy", "click", "rich", "packaging", "tflite"),
    *("pytest", "hypothesis", "perfetto", "PIL", "optuna", "tornado"),
    *("ai_edge_litert", "flatbuffers", "onnx", "onnxruntime", "tflite_micro"),
}
"""Modules of the package's own needs, and of the dependency group `tests`."""


def lacking(text: str) -> set[str]:
    """Return the modules that a file imports when it is read, and that may not be there."""
    named = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    skipped = set(re.findall(r"^(?:\w+ = )?pytest\.importorskip\(\s*\"(\w+)", text, re.MULTILINE))
    ours = {
        name
        for name in named
        if name.startswith("tpulite") and name[7:] in ("", "_testing", "_web")
    }
    return named - INSTALLED - skipped - ours - sys.stdlib_module_names


def test_files_of_tests_import_what_is_installed_or_skip():
    assert len(FOUND) > 200
    found = {path.name: names for path in FOUND if (names := lacking(path.read_text()))}
    assert not found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import os\nimport distributed\n", {"distributed"}),
        ('pytest.importorskip("onnx")\nfrom markdown import x\n', {"markdown"}),
        ('x = pytest.importorskip("distributed", reason="")\nimport distributed.client\n', set()),
        ("def f():\n    import distributed\n", set()),
        ("from tpulite_rtl import x\nfrom tpulite import cli\n", {"tpulite_rtl"}),
    ],
)
def test_what_is_imported_is_found(text, names):
    assert lacking(text) == names
