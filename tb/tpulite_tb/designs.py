"""The RTL of benches, without running them: what their evidence was found of.

As a plugin of pytest it leaves one test of each wanted size of a bench, whose component it writes
as RTLIL instead of simulating it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import pytest
from amaranth.back import rtlil
from amaranth.lib import wiring

import tpulite.arch
import tpulite_rtl
from tpulite.collector import collector_paused
from tpulite_rtl.top import Chip
from tpulite_tb import harness
from tpulite_tb.harness import component_ports, simulate_verilog
from tpulite_tb.machines import SMALL
from tpulite_tb.mutants import CHIP
from tpulite_testing.evidence import canonical, digest_of
from tpulite_verilated.toolchain import build_once

__all__ = ["Design", "designs", "pytest_collection_modifyitems", "pytest_configure"]

_FOLDER, _WANTED = "TPULITE_DESIGNS", "TPULITE_DESIGNS_WANTED"
_UNIT = Path(__file__).resolve().parents[1] / "unit"
_RTL = Path(tpulite_rtl.__file__).parent
_MODULE = re.compile(r"(?:^attribute .*\n)*^module .*\n(?:.*\n)*?^end$", re.MULTILINE)
_PLACE = re.compile(rf'attribute \\src "[^"]*/{_RTL.name}/([^":]+)\.py:')

_wanted: dict[str, list[str]] = {}
"""Benches, with their sizes, of which a test has the RTL."""


@dataclass(frozen=True)
class Design:
    """RTL of a bench.

    Attributes
    ----------
    digest : str
        Of the whole.
    modules : dict
        Digests of its modules, by the file below ``tpulite_rtl`` that they are elaborated in.
    mentions : dict
        Digests of the modules with signals or statements of a file, by the file.
    """

    digest: str
    modules: dict[str, list[str]]
    mentions: dict[str, list[str]]


def designs(benches: Iterable[str]) -> dict[str, Design]:
    """Return what benches are of in their first size, or in another one (``matrix_unit 16``).

    ``chip`` is the smallest chip. Takes half a minute, or nothing if no source has changed.
    """
    wanted = sorted(benches)
    folders = (_RTL, _UNIT, Path(__file__).parent, Path(tpulite.arch.__file__).parent)
    sources = [path.read_text() for folder in folders for path in sorted(folder.rglob("*.py"))]

    def build(folder: Path) -> None:
        _write(Chip(SMALL), folder, CHIP)
        names = sorted({bench.partition(" ")[0] for bench in wanted})
        command = [sys.executable, "-m", "pytest", "-q", "-p", __name__, "-p", "no:cacheprovider"]
        command += ["-n", "0", *(str(_UNIT / f"test_{name}.py") for name in names)]
        environment = {_FOLDER: str(folder), _WANTED: json.dumps(wanted), "TPULITE_REGRESS": "1"}
        inherited = {name: value for name, value in os.environ.items() if name != "SIM"}
        run = subprocess.run(
            command, env=inherited | environment, capture_output=True, text=True, check=False
        )
        missing = [bench for bench in wanted if not (folder / f"{bench}.json").exists()]
        if missing:
            raise RuntimeError(f"{missing} have no RTL:\n{run.stdout}{run.stderr}")

    folder = build_once("designs", [*sources, *wanted, version("amaranth")], build)
    found = {bench: json.loads((folder / f"{bench}.json").read_text()) for bench in [*wanted, CHIP]}
    return {bench: Design(**each) for bench, each in found.items()}


def _write(component: wiring.Component, folder: Path, bench: str) -> None:
    """Write the design of a bench's component."""
    with collector_paused():
        text = rtlil.convert(component, name="dut", ports=component_ports(component))
    digests: list[str] = []
    modules: dict[str, set[str]] = {}
    mentions: dict[str, set[str]] = {}
    for module in _MODULE.findall(text):
        digests.append(digest_of(canonical(module)))
        for place in set(_PLACE.findall(module)):
            mentions.setdefault(place.replace("/", "."), set()).add(digests[-1])
        if head := _PLACE.search(module.partition("\nmodule ")[0]):
            modules.setdefault(head[1].replace("/", "."), set()).add(digests[-1])
    each = {
        "digest": digest_of(*digests),
        "modules": {name: sorted(digests) for name, digests in modules.items()},
        "mentions": {name: sorted(digests) for name, digests in mentions.items()},
    }
    (folder / f"{bench}.json").write_text(json.dumps(each))


def pytest_configure(config: pytest.Config) -> None:
    """Write RTL from now on."""
    started = patch.object(harness, "simulate", _simulate)
    started.start()
    config.add_cleanup(started.stop)


def _simulate(component: wiring.Component, _test_file: str, **_options: object) -> None:
    """Write a component that is to be simulated."""
    assert simulate_verilog  # by which the benches' conftest.py knows what simulates
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    for bench in _wanted.pop(test, []):
        _write(component, Path(os.environ[_FOLDER]), bench)
    pytest.skip("only its RTL was wanted")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the test of each wanted size: the first one of all tests, or with the size's name."""
    for name in json.loads(os.environ[_WANTED]):
        bench, _, size = name.partition(" ")
        found = [item for item in items if item.path.name == f"test_{bench}.py"]
        found = [item for item in found if f"verilator-{size}" * bool(size) in item.name]
        found = [item for item in found if "[verilator" in item.name]
        if not size:
            found = [item for item in found if not item.get_closest_marker("regress")]
        if found:
            _wanted.setdefault(found[0].nodeid, []).append(name)
    items[:] = [item for item in items if item.nodeid in _wanted]
