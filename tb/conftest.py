"""Which simulators the benches run on, and what random programs have covered.

``$SIM`` chooses one. Without it the benches of components run on Verilator and on Icarus, and those
of the whole chip on Verilator, unless they are marked ``both_simulators``: with a reason, on Icarus
in ``make regress`` alone. A test that simulates nothing runs once.

Where Icarus is installed, ``tpulite_tb.simulators`` says which sizes of a bench run where, and how
much they draw. ``$TPULITE_REGRESS`` (``make regress``) runs every size on both, in full.
"""

import os
import shutil
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tpulite_tb.effort import EFFORT
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.simulators import PARTS, SIMULATORS, runs_of
from tpulite_tb.summary import coverage_lines, random_programs
from tpulite_testing.regress import REGRESS

_SYSTEM = Path(__file__).parent / "system"
_NO_ICARUS = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="Icarus is missing (Debian: apt install iverilog)"
)


@pytest.fixture(autouse=True)
def simulator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set ``$SIM`` to the simulator of this run, if the test simulates, and how much it draws.

    It must be of every test's own: pytest forgets fixtures that only ``metafunc`` names.
    """
    if name := getattr(request, "param", None):
        monkeypatch.setenv("SIM", name)
    if EFFORT not in os.environ:
        part = request.node.get_closest_marker("part")
        parts = part.args[0] if part else PARTS.get(os.environ.get("SIM", SIMULATORS[0]), 1)
        monkeypatch.setenv(EFFORT, str(parts))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that simulates once for each simulator."""
    if os.environ.get("SIM") or not _reaches(metafunc.function, simulate_verilog):
        return
    simulators: list[object] = [SIMULATORS[0]]
    both = metafunc.definition.get_closest_marker("both_simulators")
    if both or not metafunc.definition.path.is_relative_to(_SYSTEM):
        slow = [pytest.mark.regress(reason) for reason in (both.args if both else ())]
        simulators.append(pytest.param(SIMULATORS[1], marks=[_NO_ICARUS, *slow]))
    metafunc.parametrize("simulator", simulators, indirect=True)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark of a run that draws less."""
    config.addinivalue_line("markers", "part(n): a size beyond the first, which draws an nth part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the simulators that sizes of components' benches do not need."""
    if REGRESS or shutil.which("iverilog") is None:
        return
    benches: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        simulator = _simulator_of(item)
        breadth = item.get_closest_marker("regress")
        if simulator and not breadth and not item.path.is_relative_to(_SYSTEM):
            bench = item.nodeid.partition("[")[0]
            size = item.name.replace(simulator, "")
            benches.setdefault(bench, {}).setdefault(size, []).append(item)
    unneeded = set()
    for sizes in benches.values():
        ((first, *_), *_) = sizes.values()
        chosen = runs_of(first.path.stem.removeprefix("test_"), len(sizes))
        for size, runs in zip(sizes.values(), chosen, strict=True):
            for item in size:
                if parts := runs.get(_simulator_of(item)):
                    item.add_marker(pytest.mark.part(parts))
                else:
                    unneeded.add(item)
    config.hook.pytest_deselected(items=list(unneeded))
    items[:] = [item for item in items if item not in unneeded]


def _simulator_of(item: pytest.Item) -> str | None:
    """Return the simulator that a test runs on, if it has been given one."""
    return item.callspec.params.get("simulator") if hasattr(item, "callspec") else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many random programs ran, and what they covered."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
    ]
    programs, coverage = random_programs(reports)
    if programs:
        terminalreporter.section(f"{programs:,} random programs: programs that exercise a point")
        for line in coverage_lines(coverage):
            terminalreporter.line(line)


def _reaches(function: FunctionType, target: FunctionType) -> bool:
    """Tell whether ``function`` names ``target``, or a function that does, and so on."""
    todo, seen = [function], {function}
    while todo:
        current = todo.pop()
        for name in _names(current.__code__):
            found = current.__globals__.get(name)
            if found is target:
                return True
            if isinstance(found, FunctionType) and found not in seen:
                seen.add(found)
                todo.append(found)
    return False


def _names(code: CodeType) -> set[str]:
    nested = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*nested)
