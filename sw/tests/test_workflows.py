"""Workflows call what there is: targets of the Makefile, and jobs of `tpulite regress`."""

import re
from pathlib import Path

import pytest

from tpulite.regress.jobs import JOBS

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGET = re.compile(r"^([^\s:#=]+):(?!=)", re.MULTILINE)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_targets_of_workflows_exist(path):
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    text = re.sub(r"\$\{\{.*?\}\}", "", path.read_text())
    calls = re.findall(r"(?:run: |5h )make ([^\n#|]+)", text)
    asked = {word for call in calls for word in call.split() if re.match(r"[.a-z]", word)}
    assert asked - targets == set()


def test_jobs_of_the_night_exist():
    text = (ROOT / ".github/workflows/nightly.yml").read_text()
    (block,) = re.findall(r"^        jobs:\n((?:          - .*\n)+)", text, re.MULTILINE)
    named = re.findall(r"[a-z-]{2,}", block)
    assert named and set(named) <= set(JOBS)


@pytest.mark.parametrize(
    "command", ["make regress", "make prove", "make refresh-evidence", "scripts/dashboard.py"]
)
def test_the_night_renews_evidence(command):
    assert command in (ROOT / ".github/workflows/nightly.yml").read_text()
